"""A small app server in this process that counts what it is asked, by path."""

from __future__ import annotations

from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class CountingApp(ThreadingHTTPServer):
    """On a port that the kernel chose; the handler counts in `asked`."""

    daemon_threads = True

    def __init__(self, handler: type[BaseHTTPRequestHandler]) -> None:
        super().__init__(("127.0.0.1", 0), handler)
        self.asked: Counter[str] = Counter()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class QuietHandler(BaseHTTPRequestHandler):
    """Keeps connections, and leaves standard error to the test."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        pass
