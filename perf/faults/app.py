"""The app server behind the box: `python -m perf.faults.app PORT`.

What it answers follows from the path alone, so that a client can check it: /app/N/… may be kept
for N seconds, none where N is 0. X-Made is CLOCK_BOOTTIME, which no fault here touches: how
old an answer is, whatever clocks say.
"""

from __future__ import annotations

import socketserver
import sys
import time
from email.utils import formatdate

SIZE = 2_000  # octets of a body, at least


def body_of(path: str) -> bytes:
    """What is at `path`."""
    line = f"{path}\n".encode()
    return line * (SIZE // len(line) + 1)


def answer(path: str, made: float) -> bytes:
    """The whole answer, made at `made`."""
    body = body_of(path)
    seconds = path.split("/")[2]
    control = f"max-age={seconds}" if seconds != "0" else "no-store"
    head = (
        f"HTTP/1.1 200 OK\r\nDate: {formatdate(usegmt=True)}\r\nContent-Type: text/plain\r\n"
        f"Cache-Control: {control}\r\nX-Made: {made:.3f}\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


class _Handler(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        while line := self.rfile.readline():
            path = line.split(b" ")[1].decode("latin-1")
            while self.rfile.readline().strip():
                pass
            self.wfile.write(answer(path, time.clock_gettime(time.CLOCK_BOOTTIME)))


class _Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = 256

    def handle_error(self, request: object, client_address: object) -> None:
        """A box that closes its connection is nothing to tell."""


if __name__ == "__main__":
    with _Server(("127.0.0.1", int(sys.argv[1])), _Handler) as server:
        server.serve_forever()
