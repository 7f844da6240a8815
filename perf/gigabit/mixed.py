"""A small object beside bulk downloads: how long does it take when the link is full?

One kept connection asks for 10 kB every few milliseconds, first alone, then while a hundred clients
download the large file. It stands for the page that somebody waits for; what it measures is
whose queue it has to pass. `judge` is pure.
"""

from __future__ import annotations

import contextlib
import os
import socket
import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from perf.gigabit import objects, phases
from perf.gigabit.client import downloading
from perf.gigabit.network import SERVER_ADDRESS, inside, wire
from perf.gigabit.sample import Watch
from perf.gigabit.servers import PORT

SIZE = 10_000  # octets
CLIENTS = 100
PAUSE = 0.003  # seconds between an answer and the next request
WARMING = 100  # requests that do not count: the first ones find nothing remembered
PATIENCE = 10.0  # seconds for one answer


@dataclass(frozen=True)
class Latency:
    """Seconds from a request to its last octet, and octets a second on the wire meanwhile."""

    requests: int
    median: float
    p99: float
    wire: float


def judge(times: Sequence[float], wire: float) -> Latency:
    """The figures of so many answers; ValueError for less than two."""
    if len(times) < 2:
        raise ValueError("no answers to tell anything of")
    p99 = statistics.quantiles(times, n=100, method="inclusive")[98]
    return Latency(len(times), statistics.median(times), p99, wire)


def measure(watch: Watch, plan: phases.Plan) -> tuple[Latency, Latency]:
    """Alone, and beside the crowd. OSError, ValueError, ClientFailed."""
    path = watch.server.setting.root / objects.object_name(SIZE)
    path.write_bytes(b"x" * SIZE)
    with inside(watch.network.client):
        alone = probe(watch, plan.seconds)
        with downloading(plan.program, SERVER_ADDRESS, PORT, plan.target, CLIENTS) as crowd:
            until = time.monotonic() + phases.WHOLE_WITHIN
            while crowd.ask().taking < CLIENTS and time.monotonic() < until:
                time.sleep(0.2)
            time.sleep(phases.SETTLE)
            busy = probe(watch, plan.seconds)
    return alone, busy


def probe(watch: Watch, seconds: float) -> Latency:
    """Asks for as long as that, in this thread's namespace."""
    head = f"GET /{objects.object_name(SIZE)} HTTP/1.1\r\nHost: {SERVER_ADDRESS}:{PORT}\r\n\r\n"
    times: list[float] = []
    with socket.create_connection((SERVER_ADDRESS, PORT), PATIENCE) as sock, ahead():
        for _ in range(WARMING):
            fetch(sock, head.encode())
        before, began = wire(watch.network), time.monotonic()
        while time.monotonic() < began + seconds:
            times.append(fetch(sock, head.encode()))
            time.sleep(PAUSE)
        passed = time.monotonic() - began
        octets = wire(watch.network).octets - before.octets
    return judge(times, octets / passed)


def fetch(sock: socket.socket, head: bytes) -> float:
    """One request and its answer; seconds that it took. ValueError for another answer."""
    buffer = bytearray(65536)
    began = time.perf_counter()
    sock.sendall(head)
    got = sock.recv_into(buffer)
    end = buffer.find(b"\r\n\r\n", 0, got)
    if not buffer.startswith(b"HTTP/1.1 200 ") or end < 0:
        raise ValueError(f"an unexpected answer: {bytes(buffer[:40])!r}")
    left = end + 4 + SIZE - got
    while left > 0:
        count = sock.recv_into(buffer)
        if not count:
            raise ValueError("the connection ended within an answer")
        left -= count
    return time.perf_counter() - began


@contextlib.contextmanager
def ahead() -> Iterator[None]:
    """Before everything else on this core: what the crowd's process does is no part of it."""
    before = os.sched_getscheduler(0), os.sched_getparam(0)
    with contextlib.suppress(PermissionError):
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(10))
    try:
        yield
    finally:
        with contextlib.suppress(PermissionError):
            os.sched_setscheduler(0, *before)
