"""The crowd downloads again and again, counts what comes, and is gone when it is done."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from perf.gigabit.client import COMPILER, ClientFailed, Count, Crowd, build, downloading

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which(COMPILER) is None, reason="no C compiler"),
]

SIZE = 300_000


class Handler(BaseHTTPRequestHandler):
    """200 octets of head or more, then SIZE of body; 503 for /busy."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        if self.path == "/busy":
            self.send_error(503)
            return
        self.send_response(200)
        self.send_header("Content-Length", str(SIZE))
        self.end_headers()
        try:
            self.wfile.write(bytes(SIZE))
        except OSError:  # the crowd went away
            self.close_connection = True

    def log_message(self, format: str, *values: object) -> None:
        pass


class Quiet(ThreadingHTTPServer):
    def handle_error(self, request: object, client_address: object) -> None:
        pass  # resets are how a crowd ends


@pytest.fixture
def port() -> Iterator[int]:
    with Quiet(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_address[1]
        server.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(COMPILER, tmp_path_factory.mktemp("client"))


def wait_until(crowd: Crowd, wanted: Callable[[Count], bool]) -> Count:
    deadline = time.monotonic() + 10
    while not wanted(count := crowd.ask()):
        assert time.monotonic() < deadline, count
        time.sleep(0.02)
    return count


def test_each_client_downloads_the_whole_again_and_again(program: Path, port: int) -> None:
    with downloading(program, "127.0.0.1", port, "/", 5) as crowd:
        count = wait_until(crowd, lambda c: c.answered >= 15 and c.least >= SIZE)
        assert count.lost == 0
        assert count.taking <= 5
        assert count.moving <= 5
        # Whole bodies and the beginnings of five more: the heads are not among the octets.
        assert (count.answered - 5) * SIZE <= count.octets <= count.answered * SIZE
    assert crowd.said == ""


def test_what_is_no_answer_is_a_lost_client_with_a_reason(program: Path, port: int) -> None:
    with downloading(program, "127.0.0.1", port, "/busy", 3) as crowd:
        count = wait_until(crowd, lambda c: c.lost == 3)
        assert (count.taking, count.octets, count.answered) == (0, 0, 0)
    assert "HTTP/1.1 503" in crowd.said


def test_a_crowd_that_cannot_begin_says_why(program: Path) -> None:
    with (
        pytest.raises(ClientFailed, match="not an address"),
        downloading(program, "nowhere", 1, "/", 3) as crowd,
    ):
        for _ in range(100):
            crowd.ask()
            time.sleep(0.02)


def test_a_program_that_does_not_compile_says_so(tmp_path: Path) -> None:
    with pytest.raises(ClientFailed, match="the compiler said"):
        build(COMPILER, tmp_path / "nowhere")
