"""Two things that went wrong once: an upload that an app left unread, and a part of a film."""

from __future__ import annotations

import http.client
from collections.abc import Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest

from tests.box.conftest import Before, ServeApp, ask

pytestmark = pytest.mark.slow


def test_a_body_that_an_app_left_unread_costs_the_next_client_nothing(
    before: Before, serve_app: ServeApp
) -> None:
    """gunicorn hangs up on what is unread beyond 64 KiB, after its answer and unannounced."""
    box = before(serve_app("streams:app").url)
    for _ in range(100):
        for path, body, status in (("/refuse", b"x" * 65536, 403), ("/say", b"hi", 204)):
            with closing(http.client.HTTPConnection("127.0.0.1", box.port)) as connection:
                connection.request("POST", path, body)
                assert connection.getresponse().status == status


class Film(BaseHTTPRequestHandler):
    """Two megabytes, or "bytes=N-M" of them."""

    def do_GET(self) -> None:
        whole = bytes(range(256)) * 8192
        wanted = self.headers["Range"]
        first, last = map(int, wanted[6:].split("-")) if wanted else (0, len(whole) - 1)
        self.send_response(206 if wanted else 200)
        self.send_header("Cache-Control", self.path.partition("?")[2])
        self.send_header("Content-Length", str(last + 1 - first))
        if wanted:
            self.send_header("Content-Range", f"bytes {first}-{last}/{len(whole)}")
        self.end_headers()
        self.wfile.write(whole[first : last + 1])

    def log_message(self, *ignored: object) -> None:
        pass


@pytest.fixture
def film() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Film) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("cc", ["no-store", "private", "max-age=600"])
def test_a_part_of_what_is_not_stored_is_a_part_the_first_time_too(
    before: Before, film: str, cc: str
) -> None:
    """Players seek and downloads resume only where a range gets a 206.

    Range and conditions are taken off the first fetch, since it may have to be stored.
    """
    box = before(film, cache={"dir": ""})
    part = ask(box, f"/film?{cc}", range="bytes=256-259")
    assert (part.status, part.body) == (206, bytes(range(4)))
