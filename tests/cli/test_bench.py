from __future__ import annotations

import http.server
import json
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest
from click.testing import CliRunner, Result

from edgebox.cli.main import main


class Echo(http.server.BaseHTTPRequestHandler):
    """Answers with what it was asked; remembers it, too."""

    protocol_version = "HTTP/1.1"
    asked: ClassVar[list[tuple[str, dict[str, str], bytes]]] = []

    def answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.asked.append((self.command, {k.lower(): v for k, v in self.headers.items()}, body))
        self.send_response(404 if self.path == "/missing" else 200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"ok")

    do_GET = do_POST = do_PUT = answer

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def url() -> Iterator[str]:
    Echo.asked.clear()
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Echo) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


def bench(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["bench", *arguments])


def test_one_request_is_made_and_reported(url: str) -> None:
    result = bench(url)
    assert result.exit_code == 0, result.output
    assert "Complete requests:      1\n" in result.stdout
    assert [command for command, _, _ in Echo.asked] == ["GET"]


def test_json_has_every_figure(url: str) -> None:
    found = json.loads(bench("-n", "20", "-c", "4", "-k", "--json", url).stdout)
    assert (found["complete"], found["failed"], found["kept_alive"]) == (20, 0, 20)
    assert found["statuses"] == {"200": 20}
    assert found["document_length"] == 2
    assert list(found["percentiles_ms"]) == ["50", "66", "75", "80", "90", "95", "98", "99", "100"]
    assert set(found["times_ms"]) == {"connect", "processing", "waiting", "total"}


def test_fields_cookies_and_credentials_are_sent(url: str) -> None:
    bench("-H", "X-A: 1", "-H", "Accept: text/html", "-C", "a=1", "-C", "b=2", "-A", "u:p", url)
    _, fields, _ = Echo.asked[0]
    assert fields["x-a"] == "1"
    assert fields["accept"] == "text/html"
    assert fields["cookie"] == "a=1; b=2"
    assert fields["authorization"] == "Basic dTpw"
    assert fields["connection"] == "close"


@pytest.mark.parametrize(("option", "method"), [("-p", "POST"), ("-u", "PUT")])
def test_a_file_is_sent(url: str, tmp_path: Path, option: str, method: str) -> None:
    (tmp_path / "body").write_bytes(b"x" * 1000)
    result = bench(option, str(tmp_path / "body"), "-T", "text/csv", url)
    command, fields, body = Echo.asked[0]
    assert (command, fields["content-type"], body) == (method, "text/csv", b"x" * 1000)
    assert re.search(r"^Total body sent: +1\d\d\d$", result.stdout, re.MULTILINE)


def test_files_for_a_spreadsheet_and_gnuplot_are_written(url: str, tmp_path: Path) -> None:
    csv, tsv = tmp_path / "e.csv", tmp_path / "g.tsv"
    assert bench("-n", "10", "-e", str(csv), "-g", str(tsv), url).exit_code == 0
    assert len(csv.read_text().splitlines()) == 102
    assert len(tsv.read_text().splitlines()) == 11


def test_what_is_not_2xx_is_counted_and_no_failure(url: str) -> None:
    stdout = bench("-n", "3", f"{url}missing").stdout
    assert "Non-2xx responses:      3\n" in stdout
    assert "Failed requests:        0\n" in stdout


@pytest.mark.parametrize(
    "arguments",
    [
        ["https://127.0.0.1/"], ["-n", "2", "-c", "3", "http://127.0.0.1/"], ["-c", "0", "x"],
        ["-H", "no colon", "x"], ["-A", "nobody", "x"], ["-p", "/nowhere", "x"],
    ],
    ids=" ".join,
)  # fmt: skip
def test_what_cannot_be_asked_is_a_usage_error(arguments: list[str]) -> None:
    assert bench(*arguments).exit_code == 2


def test_nobody_there_is_an_error() -> None:
    with http.server.HTTPServer(("127.0.0.1", 0), Echo) as server:
        port = server.server_port
    result = bench(f"http://127.0.0.1:{port}/")
    assert result.exit_code == 1
    assert "Connection refused" in result.stderr
