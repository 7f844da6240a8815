"""This machine's own /usr/share/doc from edgebox and from nginx: the answers agree.

Thousands of real files, with the names, links, sizes and dates that a distribution gives
them. nginx gets our table of media types, since its own differs by design; Server, Date,
the form of an ETag and the order of fields are each server's own and are not compared.
"""

from __future__ import annotations

import http.client
import os
import random
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

import pytest

from edgebox.http.mime import OCTET_STREAM, TYPES
from tests.box.conftest import Reply, lack, need, running, wait_until
from tests.wire import PATIENCE

pytestmark = pytest.mark.slow

DOCROOT = Path("/usr/share/doc")
ENOUGH, MOST = 300, 2200
LARGEST = 2 * 1024 * 1024  # above 1 MiB sendfile has its turn

CONFIG = """
daemon off; master_process off; pid {where}/pid; error_log {where}/nginx-error.log;
worker_rlimit_nofile 1024;
events {{ worker_connections 64; }}
http {{
    access_log off; sendfile on; keepalive_requests 1000000; absolute_redirect off;
    types_hash_max_size 8192; types_hash_bucket_size 256;
    default_type {default};
    types {{
{types}
    }}
    client_body_temp_path {where}/t; proxy_temp_path {where}/t; fastcgi_temp_path {where}/t;
    scgi_temp_path {where}/t; uwsgi_temp_path {where}/t;
    server {{ listen unix:{socket}; root {root}; index index.html; }}
}}
"""


class Session:
    """One connection to one server, used again and again."""

    def __init__(self, connection: http.client.HTTPConnection) -> None:
        self._connection = connection

    def ask(self, path: str, **fields: str) -> Reply:
        headers = {name.replace("_", "-"): value for name, value in fields.items()}
        self._connection.request("GET", path, headers=headers)
        response = self._connection.getresponse()
        told = {name.lower(): value for name, value in response.getheaders()}
        return Reply(response.status, told, response.read())

    def close(self) -> None:
        self._connection.close()


class UnixConnection(http.client.HTTPConnection):
    """A Unix socket, so that nginx needs no port, which it could not have chosen for it."""

    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=PATIENCE)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


@pytest.fixture(scope="module")
def sample() -> list[Path]:
    """Files to ask for, links among them: the same ones each time on the same machine."""
    found = []
    for directory, names, files in os.walk(DOCROOT, followlinks=True):
        names.sort()
        names[:] = [name for name in names if not name.startswith(".")]
        found += [
            path
            for path in (Path(directory, name) for name in sorted(files))
            if not path.name.startswith(".") and path.is_file() and os.access(path, os.R_OK)
            and path.stat().st_size <= LARGEST
        ]  # fmt: skip
    if len(found) < ENOUGH:
        lack(f"needs {ENOUGH} files below {DOCROOT}, has {len(found)}: install some packages")
    linked = [path for path in found if path.resolve() != path]
    others = [path for path in found if path.resolve() == path]
    random.Random(41).shuffle(others)
    return (linked[: MOST // 5] + others)[:MOST]


@pytest.fixture(scope="module")
def nginx(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    tool = need("nginx", "nginx-light")
    where = tmp_path_factory.mktemp("nginx")
    path = str(where / "s")
    types = "\n".join(f'"{kind.decode()}" "{name}";' for name, kind in TYPES.items())
    (where / "nginx.conf").write_text(
        CONFIG.format(
            where=where, types=types, default=OCTET_STREAM.decode(), socket=path, root=DOCROOT
        )
    )
    command = [tool, "-p", str(where), "-c", str(where / "nginx.conf"), "-e", str(where / "log")]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            wait_until(lambda: os.path.exists(path) or process.poll() is not None)
            assert process.poll() is None, process.stderr.read()  # type: ignore[union-attr]
            time.sleep(0.1)  # bound, and in a moment listening
            with closing(Session(UnixConnection(path))) as session:
                yield session
        finally:
            process.terminate()


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    where = tmp_path_factory.mktemp("edgebox")
    (where / "edgebox.toml").write_text(
        '[server]\nlisten = ["127.0.0.1:0"]\n[limits]\nkeep_alive_requests = 1000000\n'
        "[compression]\nenabled = false\nsidecars = false\n"
        f'[[site]]\nroot = "{DOCROOT}"\nsymlinks = "follow"\n'
    )
    with running(cwd=where) as box:
        connection = http.client.HTTPConnection("127.0.0.1", box.port, timeout=PATIENCE)
        with closing(Session(connection)) as session:
            yield session


def target(path: Path) -> str:
    return quote(os.fsencode("/" + str(path.relative_to(DOCROOT))))


def agree(ours: Reply, theirs: Reply) -> None:
    assert ours.status == theirs.status
    assert ours.body == theirs.body
    for name in ("content-type", "content-length", "last-modified", "content-range"):
        assert ours.headers.get(name) == theirs.headers.get(name), name


def test_whole_files_agree(ours: Session, nginx: Session, sample: list[Path]) -> None:
    """Body, length, type, date; and each server's own validator holds at that server."""
    for number, path in enumerate(sample):
        at = target(path)
        here, there = ours.ask(at), nginx.ask(at)
        agree(here, there)
        assert here.status == 200, at
        assert here.headers["accept-ranges"] == there.headers["accept-ranges"]
        assert here.body == path.read_bytes()
        for session, reply in ((ours, here), (nginx, there)):
            if number % 2:
                again = session.ask(at, If_None_Match=reply.headers["etag"])
            else:
                again = session.ask(at, If_Modified_Since=reply.headers["last-modified"])
            assert (again.status, again.body) == (304, b""), at
            for name in ("etag", "last-modified"):
                assert again.headers[name] == reply.headers[name]


def test_parts_agree(ours: Session, nginx: Session, sample: list[Path]) -> None:
    """Empty files and malformed ranges are left out: nginx says 416, we send the whole."""
    ranges = ("bytes=0-9", "bytes=5-", "bytes=-7", "bytes=999999999-", "bytes=1-1", "bytes=-9999")
    for number, path in enumerate(sample):
        if path.stat().st_size:
            at, wanted = target(path), ranges[number % len(ranges)]
            here, there = ours.ask(at, Range=wanted), nginx.ask(at, Range=wanted)
            if here.status == 416:
                assert (there.status, here.headers["content-range"]) == (
                    416, there.headers["content-range"],
                )  # fmt: skip
            else:
                agree(here, there)


def test_what_is_not_a_file_agrees(ours: Session, nginx: Session) -> None:
    """Directories lead to their slash, and what is not there is not there."""
    directories = sorted(path for path in DOCROOT.iterdir() if path.is_dir())[:100]
    for path in directories:
        here, there = ours.ask(target(path) + "?a=b"), nginx.ask(target(path) + "?a=b")
        assert here.status == there.status == 301
        assert here.headers["location"] == there.headers["location"]
        none = target(path) + "/none/such"
        assert ours.ask(none).status == nginx.ask(none).status == 404
