"""A crowd: clients that ask for the same thing at the same moment and read it to the end.

One thread, one epoll, sockets connected beforehand, so that what is timed is the answers.
Every octet is compared with what it should be: by memcmp(3), because a thousand clients of
ten megabytes are ten gigabytes, and the crowd must not be slower than what serves it.
"""

from __future__ import annotations

import ctypes
import re
import select
import socket
import time
from collections import Counter
from dataclasses import dataclass

from perf.connections import opened, request

PORTION = 1 << 18  # octets read at a time
LONGEST_HEAD = 8192
PATIENCE = 120.0  # seconds for all of it

_memcmp = ctypes.CDLL(None).memcmp
_memcmp.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)


@dataclass(frozen=True)
class Outing:
    """How it went: seconds from the first request to the last first and the last last octet."""

    begun: float
    ended: float
    faults: tuple[str, ...] = ()


class Body:
    """What each client must get."""

    def __init__(self, octets: bytes) -> None:
        self.size = len(octets)
        self._octets = ctypes.create_string_buffer(octets, len(octets))
        self._start = ctypes.addressof(self._octets)

    def agrees(self, position: int, address: int, length: int) -> bool:
        """Whether `length` octets of this process at `address` are those from `position` on."""
        if position + length > self.size:
            return False
        return int(_memcmp(address, self._start + position, length)) == 0


class Client:
    """One of them: `receive` each time that something came."""

    def __init__(self, near: socket.socket) -> None:
        self.near = near
        self.begun: float | None = None
        self.ended: float | None = None
        self.fault = ""
        self._head = b""
        self._position = -1  # in the body; negative before it

    @property
    def over(self) -> bool:
        return self.ended is not None or bool(self.fault)

    def receive(self, buffer: bytearray, address: int, body: Body) -> None:
        """Reads once into `buffer`, which begins at `address`, and judges what came."""
        try:
            count = self.near.recv_into(buffer)
        except BlockingIOError:
            return
        except OSError as error:
            self.fault = type(error).__name__
            return
        if not count:
            self.fault = "ended early"
            return
        skipped = self._skip_head(bytes(buffer[:count]), body) if self._position < 0 else 0
        if self.fault or self._position < 0:
            return
        length = count - skipped
        if not body.agrees(self._position, address + skipped, length):
            self.fault = "wrong octets"
            return
        self._position += length
        now = time.monotonic()
        if self.begun is None and length:
            self.begun = now
        if self._position == body.size:
            self.ended = now

    def _skip_head(self, octets: bytes, body: Body) -> int:
        """How many of `octets` belong to the head; `_position` is 0 once that is whole."""
        before = len(self._head)
        self._head += octets[: LONGEST_HEAD - before]
        end = self._head.find(b"\r\n\r\n") + 4
        if end < 4:
            self.fault = "" if len(self._head) < LONGEST_HEAD else "no end of the head"
            return len(octets)
        head = self._head[:end]
        length = re.search(rb"\r\ncontent-length: *(\d+)\r\n", head, re.I)
        if not head.startswith(b"HTTP/1.1 200 "):
            self.fault = head.partition(b"\r\n")[0].decode("latin-1")
        elif length is None or int(length[1]) != body.size:
            self.fault = "a Content-Length that is wrong or not there"
        self._position = 0
        return end - before


def ask(port: int, target: str, count: int, body: Body) -> Outing:
    """`count` clients GET `target` at once; returns when each has its answer or failed."""
    buffer = bytearray(PORTION)
    address = ctypes.addressof((ctypes.c_char * PORTION).from_buffer(buffer))
    with opened(port, count) as sockets, select.epoll() as poll:
        crowd = {near.fileno(): Client(near) for near in sockets}
        for number, client in crowd.items():
            client.near.setblocking(False)
            poll.register(number, select.EPOLLIN)
        head = request(port, target)
        started = time.monotonic()
        for client in crowd.values():
            client.near.sendall(head)
        waiting = len(crowd)
        while waiting and (left := started + PATIENCE - time.monotonic()) > 0:
            for number, _ in poll.poll(left, 256):
                client = crowd[number]
                client.receive(buffer, address, body)
                if client.over:
                    poll.unregister(number)
                    waiting -= 1
    clients = crowd.values()
    faults = Counter(client.fault for client in clients if client.fault)
    if waiting:
        faults[f"not done after {PATIENCE:.0f} s"] = waiting
    return Outing(
        max((client.begun or started for client in clients), default=started) - started,
        max((client.ended or started for client in clients), default=started) - started,
        tuple(f"{times} × {fault}" for fault, times in faults.most_common()),
    )
