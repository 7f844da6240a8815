"""The tools that people point at a server: curl, wget, ab, and a browser."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.box.conftest import Box, Start, ask, need, running, wait_until
from tests.conftest import HELLO

pytestmark = pytest.mark.slow

TEXT = b"a line that repeats itself\n" * 4000


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("log") / "access.log"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    docroot = tmp_path_factory.mktemp("www")
    (docroot / "sub").mkdir()
    for name, content in [
        ("index.html", HELLO), ("sub/index.html", b"sub"), ("text.txt", TEXT),
        ("a.txt", b"0123456789" * 10), ("big.bin", bytes(range(256)) * 6144),
    ]:  # fmt: skip
        (docroot / name).write_bytes(content)
    return docroot


@pytest.fixture(scope="module")
def box(tmp_path_factory: pytest.TempPathFactory, root: Path, log: Path) -> Iterator[Box]:
    """One box for all tools."""
    environment = os.environ | {"CACHE_DIRECTORY": str(tmp_path_factory.mktemp("cache"))}
    arguments = ("--root", str(root), "--listen", "127.0.0.1:0", "--access-log", str(log))
    with running(*arguments, env=environment) as box:
        yield box


def run(*command: str, seconds: float = 60, **popen: object) -> str:
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=seconds, check=False, **popen,  # type: ignore[call-overload]
    )  # fmt: skip
    assert done.returncode == 0, (command, done.stdout[-2000:], done.stderr[-2000:])
    return str(done.stdout)


class Curl:
    """curl, with what it fetched in a file."""

    def __init__(self, box: Box, directory: Path) -> None:
        self._tool = need("curl", "curl")
        self._url = box.url.rstrip("/")
        self.file = directory / "fetched"

    def __call__(self, path: str, *options: str) -> tuple[int, bytes]:
        """Status and body, which goes over or on from what was in the file before."""
        self.file.touch()
        status = run(self._tool, "-sS", "-o", str(self.file), "-w", "%{http_code}", *options,
                     self._url + path)  # fmt: skip
        return int(status), self.file.read_bytes()


@pytest.fixture
def curl(box: Box, tmp_path: Path) -> Curl:
    return Curl(box, tmp_path)


def test_curl_fetches(curl: Curl, root: Path) -> None:
    assert curl("/") == (200, HELLO)
    assert curl("/big.bin") == (200, (root / "big.bin").read_bytes())
    assert curl("/sub", "-L") == (200, b"sub")
    assert curl("/", "--http1.0") == (200, HELLO)
    assert curl("/../../etc/passwd", "--path-as-is")[0] == 400
    assert curl("/none")[0] == 404


def test_curl_resumes(curl: Curl, root: Path) -> None:
    whole = (root / "big.bin").read_bytes()
    curl.file.write_bytes(whole[:700_001])
    assert curl("/big.bin", "-C", "-") == (206, whole)


def test_curl_asks_for_ranges(curl: Curl, root: Path) -> None:
    whole = (root / "big.bin").read_bytes()
    assert curl("/big.bin", "-r", "1000-1999") == (206, whole[1000:2000])
    assert curl("/big.bin", "-r", "-5") == (206, whole[-5:])
    status, body = curl("/big.bin", "-r", "0-1,10-11")
    assert status == 206
    assert body.count(b"Content-Range: bytes ") == 2


def test_curl_asks_whether_it_changed(curl: Curl, root: Path) -> None:
    assert curl("/a.txt", "-z", "Sat, 30 Nov 2047 10:00:00 GMT")[0] == 304
    assert curl("/a.txt", "-z", "-Sat, 30 Nov 2047 10:00:00 GMT")[0] == 200
    assert curl("/a.txt", "-z", "Mon, 30 Nov 1998 10:00:00 GMT")[0] == 200
    assert curl("/a.txt", "-z", "-Mon, 30 Nov 1998 10:00:00 GMT")[0] == 412
    tags = curl.file.with_name("tags")
    assert curl("/a.txt", "--etag-save", str(tags))[0] == 200
    assert curl("/a.txt", "--etag-compare", str(tags))[0] == 304


def test_curl_asks_for_the_head_alone(curl: Curl, root: Path) -> None:
    status, head = curl("/big.bin", "-I")
    assert status == 200
    assert b"Content-Length: %d\r\n" % (root / "big.bin").stat().st_size in head
    assert head.endswith(b"\r\n\r\n")


def test_curl_decodes_what_is_coded(curl: Curl, box: Box) -> None:
    assert curl("/text.txt", "--compressed") == (200, TEXT)
    wait_until(
        lambda: "content-encoding" in ask(box, "/text.txt", accept_encoding="gzip, br").headers
    )
    assert curl("/text.txt", "--compressed") == (200, TEXT)
    status, raw = curl("/text.txt", "-H", "Accept-Encoding: gzip, br")
    assert status == 200
    assert len(raw) < len(TEXT) / 10


def test_curl_cannot_upload(curl: Curl, root: Path) -> None:
    for name in ("a.txt", "big.bin"):  # the second waits for 100 Continue first
        assert curl("/new.txt", "-T", str(root / name))[0] == 405
    assert curl("/a.txt", "-X", "DELETE")[0] == 405
    assert curl("/a.txt", "-d", "x=y")[0] == 405
    assert not (root / "new.txt").exists()


def test_wget_continues_a_half_file(box: Box, root: Path, tmp_path: Path, log: Path) -> None:
    wget = need("wget", "wget")
    whole = (root / "big.bin").read_bytes()
    half = tmp_path / "fetched" / "big.bin"
    half.parent.mkdir()
    half.write_bytes(whole[: len(whole) // 2])
    for _ in range(2):  # the second time there is nothing left to fetch
        run(wget, "-q", "--continue", box.url + "big.bin", cwd=half.parent)
        assert half.read_bytes() == whole

    def logged() -> list[tuple[str, str]]:
        return re.findall(r'big.bin HTTP/1.1" (\d+) (\d+) "-" "Wget', log.read_text())

    wait_until(lambda: len(logged()) == 2)
    assert logged()[0] == ("206", str(len(whole) // 2))
    assert logged()[1][0] == "416"


@pytest.mark.parametrize("options", [["-k"], []], ids=["keep-alive", "close"])
@pytest.mark.parametrize("path", ["a.txt", "big.bin"])
def test_ab_counts_no_failure(box: Box, options: list[str], path: str, log: Path) -> None:
    """ab speaks HTTP/1.0 with Connection: keep-alive, and counts what was kept alive."""
    count = 2000 if path == "a.txt" else 100
    path += "?" + "".join(options)
    told = run(need("ab", "apache2-utils"), *options, "-q", "-n", str(count), "-c", "8",
               box.url + path)  # fmt: skip
    figures = dict(re.findall(r"^(.+?):\s+(\d+)", told, re.MULTILINE))
    assert figures["Complete requests"] == str(count)
    assert figures["Failed requests"] == "0"
    assert "Non-2xx responses" not in figures
    assert figures.get("Keep-Alive requests") == (str(count) if options else None)
    wait_until(lambda: log.read_text().count(f'"GET /{path} HTTP/1.0" 200 ') >= count)


BROWSER = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--disable-dev-shm-usage",
]  # fmt: skip


def test_chromium_shows_the_welcome_site(start: Start, tmp_path: Path) -> None:
    chromium = need("chromium", "chromium")
    log = tmp_path / "access.log"
    box = start("--access-log", str(log), cwd=tmp_path)

    def browse(name: str, *options: str) -> str:
        profile = f"--user-data-dir={tmp_path / name}"
        return run(chromium, *BROWSER, profile, *options, box.url, seconds=120)

    page = browse("first", "--dump-dom")
    assert "<title>edgebox is running</title>" in page
    assert "It’s on the wire." in page
    picture = tmp_path / "picture.png"
    browse("second", f"--screenshot={picture}", "--window-size=800,600")
    assert picture.read_bytes().startswith(b"\x89PNG\r\n")
    assert picture.stat().st_size > 2000
    for path in ("/", "/style.css", "/logo.svg"):
        wait_until(lambda p=path: f'"GET {p} HTTP/1.1" 200 ' in log.read_text())  # type: ignore[misc]
    assert '" 5' not in re.sub(r'"[^"]*"$', "", log.read_text(), flags=re.MULTILINE)
