"""Rows that no load tool can do: connections held open, and downloads read slowly.

Plain blocking sockets, one after another: what is measured is the server's memory while
they are open, not how fast they came. All of them end with a reset, so that ten thousand
ports do not wait out their TIME_WAIT.
"""

from __future__ import annotations

import contextlib
import re
import socket
import struct
import subprocess
import time
from collections.abc import Iterator, Sequence

RESET = struct.pack("ii", 1, 0)  # SO_LINGER: on, zero seconds
ETHERNET = 1460  # octets: without it a loopback segment holds 64 kB, and so do buffers
TICK = 0.1  # seconds between two reads of a slow download


def request(port: int, target: str) -> bytes:
    """A minimal keep-alive request."""
    return f"GET {target} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode()


def exchange(client: socket.socket, head: bytes, size: int) -> None:
    """One request, and its answer read whole; ValueError unless it is a 200 of `size` octets."""
    client.sendall(head)
    answer = client.recv(65536)
    while (end := answer.find(b"\r\n\r\n")) < 0 or len(answer) < end + 4 + size:
        more = client.recv(65536)
        if not more:
            raise ValueError("the connection ended within an answer")
        answer += more
    if not answer.startswith(b"HTTP/1.1 200 ") or len(answer) != end + 4 + size:
        raise ValueError(f"an unexpected answer: {answer[:40]!r}")


@contextlib.contextmanager
def opened(port: int, count: int, maxseg: int | None = None) -> Iterator[list[socket.socket]]:
    """`count` connections to `port`, reset at the end."""
    clients: list[socket.socket] = []
    try:
        for _ in range(count):
            client = socket.socket()
            clients.append(client)
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            if maxseg is not None:
                client.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, maxseg)
            client.settimeout(5)
            client.connect(("127.0.0.1", port))
        yield clients
    finally:
        for client in clients:
            client.close()


def read_slowly(clients: Sequence[socket.socket], rate: int, seconds: float) -> int:
    """Reads each connection at about `rate` octets a second; returns the octets that came."""
    portion = bytearray(int(rate * TICK))
    total = 0
    for client in clients:
        client.setblocking(False)
    end = time.monotonic() + seconds
    while (now := time.monotonic()) < end:
        for client in clients:
            with contextlib.suppress(BlockingIOError):
                total += client.recv_into(portion)
        time.sleep(max(0.0, now + TICK - time.monotonic()))
    return total


def socket_memory(text: str) -> tuple[int, int]:
    """Kernel octets and the number of sockets in `ss -tnmH`: read, write, forward, backlog.

    From skmem (ss(8)): r is receive memory in use, t and w what is sent or queued (w holds
    t too), f is set aside ahead, o options, bl backlog. Pages that sendfile borrowed from
    the page cache count in w, although they are not copies.
    """
    total = sockets = 0
    for found in re.finditer(r"skmem:\(([^)]*)\)", text):
        fields = dict(re.findall(r"([a-z]+)(\d+)", found[1]))
        total += sum(int(fields.get(name, 0)) for name in ("r", "w", "f", "o", "bl"))
        sockets += 1
    return total, sockets


def server_sockets_memory(port: int) -> tuple[int, int]:
    """The same of every established connection whose near end is `port`."""
    said = subprocess.run(
        ["ss", "-tnmH", "state", "established", f"sport = :{port}"],
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    return socket_memory(said.stdout)
