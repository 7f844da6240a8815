"""Clients that ask the same thing over and over, and know what became of each request."""

from __future__ import annotations

import socket
import threading
import time
from dataclasses import dataclass

PATIENCE = 30.0  # seconds for one answer

REQUEST = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"


@dataclass
class Tally:
    """`lost`: requests that were sent and not answered, with what came instead."""

    answered: int = 0
    refused: int = 0  # connections; nothing was sent on these
    lost: list[str] | None = None

    def __post_init__(self) -> None:
        self.lost = []


class Crowd:
    """So many clients, each on a keep-alive connection of its own, in threads.

    A client behaves: after an answer with Connection: close it opens another connection, and
    one that was closed while it had nothing asked for is no loss.
    """

    def __init__(self, port: int, clients: int, pause: float = 0.005) -> None:
        self._port = port
        self._pause = pause
        self._over = threading.Event()
        self._lock = threading.Lock()
        self.tally = Tally()
        self._threads = [threading.Thread(target=self._ask) for _ in range(clients)]

    def __enter__(self) -> Crowd:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()

    def _ask(self) -> None:
        sock = None
        while not self._over.is_set():
            try:
                sock = sock or socket.create_connection(("127.0.0.1", self._port), PATIENCE)
            except OSError:
                with self._lock:
                    self.tally.refused += 1
                continue
            why, keep = _exchange(sock)
            with self._lock:
                if why:
                    assert self.tally.lost is not None
                    self.tally.lost.append(why)
                else:
                    self.tally.answered += 1
            if why or not keep:
                sock.close()
                sock = None
            time.sleep(self._pause)
        if sock is not None:
            sock.close()


def _exchange(sock: socket.socket) -> tuple[str, bool]:
    """One request; why it was lost, and whether another may follow."""
    try:
        sock.sendall(REQUEST)
        answer = b""
        while b"\r\n\r\n" not in answer:
            piece = sock.recv(65536)
            if not piece:
                return f"closed after {len(answer)} octets", False
            answer += piece
        head, _, body = answer.partition(b"\r\n\r\n")
        if not head.startswith(b"HTTP/1.1 200 "):
            return head.partition(b"\r\n")[0].decode(), False
        length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
        while len(body) < length:
            piece = sock.recv(65536)
            if not piece:
                return "closed in the body", False
            body += piece
    except OSError as problem:
        return repr(problem), False
    return "", b"connection: close" not in head.lower()
