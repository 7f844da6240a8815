"""Servers that say exactly what a test wants, on real sockets."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress

import pytest

from tests.wire import PATIENCE

# Answers a request (its number on this connection, its octets); None closes.
Script = Callable[[int, bytes], bytes | None]


class Scripted:
    """A server of threads. `requests` are the octets of each, `connections` their number."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.port = self._listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}/"
        self.requests: list[bytes] = []
        self.connections = 0

    def run(self) -> None:
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:  # closed: the end
                return
            self.connections += 1
            threading.Thread(target=self._converse, args=(sock,), daemon=True).start()

    def _converse(self, sock: socket.socket) -> None:
        sock.settimeout(PATIENCE)
        with sock, suppress(OSError):
            for number in range(1_000_000):
                octets = b""
                while b"\r\n\r\n" not in octets:
                    piece = sock.recv(65536)
                    if not piece:
                        return
                    octets += piece
                head, _, body = octets.partition(b"\r\n\r\n")
                length = head.lower().partition(b"content-length:")[2].split(b"\r\n")[0]
                while len(body) < int(length or 0):
                    body += sock.recv(65536)
                octets = head + b"\r\n\r\n" + body
                self.requests.append(octets)
                answer = self._script(number, octets)
                if answer is None:
                    return
                sock.sendall(answer)
                if b"Connection: close" in head + answer or b"\r\n\r\nuntil" in answer:
                    return

    def close(self) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()


@contextmanager
def scripted(script: Script) -> Iterator[Scripted]:
    server = Scripted(script)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.close()
        thread.join(PATIENCE)


@pytest.fixture
def serve() -> Iterator[Callable[[Script], Scripted]]:
    """Start servers that end with the test."""
    with ExitStack() as stack:
        yield lambda script: stack.enter_context(scripted(script))
