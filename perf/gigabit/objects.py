"""Small objects over the wire: how small may they be, and what does the article's page cost?

Below some size requests are what runs out, not the link. It is found by bisection: wrk on
its own core asks for one object over 64 connections, and the shaper tells whether the link
was full meanwhile. `smallest` is pure but for what it is given to ask.
"""

from __future__ import annotations

import math
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass

from perf import loads
from perf.gigabit import sample
from perf.gigabit.network import RATE, SERVER_ADDRESS, inside, wire
from perf.gigabit.sample import Watch
from perf.gigabit.servers import PORT
from perf.processes import spent, usage
from perf.rows import PAGE, Load

CONNECTIONS = 64
FULL = 0.99  # of the shaper's rate
SMALLEST, LARGEST = 128, 32_768  # octets: 220,000 and 3,700 answers a second fill a gigabit
CLOSE = 1.04  # neighbours of the bisection: nearer ones cannot be told apart
SETTLE = 0.5  # seconds at either end of a load that do not count
TRIES = 2  # a neighbour on the machine may spoil one


@dataclass(frozen=True)
class Probe:
    """One load: octets a second on the wire, and what the server did for each request.

    `cpu` in nanoseconds, `switches` context switches of either kind, `disk` octets read from
    a disk during all of it. `idle`: the share of the server's core that was left over; where
    there is much of it and the link is not full, the load tool was the limit. `fault` empty: every
    answer was whole and right.
    """

    size: int
    wire: float
    requests: int
    cpu: float
    switches: float
    disk: int
    idle: float
    fault: str = ""

    @property
    def full(self) -> bool:
        return not self.fault and self.wire >= FULL * RATE


def probe(watch: Watch, size: int, seconds: float) -> Probe:
    """Loads the server with requests for its object of `size` octets; OSError, ValueError."""
    name = object_name(size)
    path = watch.server.setting.root / name
    if not path.exists():
        path.write_bytes(b"x" * size)
    load = Load(connections=CONNECTIONS, seconds=seconds, target=f"/{name}", size=size)
    command = loads.command(load, f"http://{SERVER_ADDRESS}:{PORT}")
    processes = watch.server.processes
    cpu, disk = usage(processes), sample.read_from_disk(processes)
    with inside(watch.network.client):
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
    try:
        time.sleep(SETTLE)
        before, began = wire(watch.network), time.monotonic()
        core = sample.core_now(watch.core)
        time.sleep(max(SETTLE, seconds - 2 * SETTLE))
        after, ended = wire(watch.network), time.monotonic()
        idle = (sample.core_now(watch.core).idle - core.idle) / (ended - began)
        said, _ = process.communicate(timeout=30 + 2 * seconds)
    finally:
        process.kill()
        process.wait()
    outcome = loads.read(load, said)
    difference = spent(cpu, usage(watch.server.processes))
    faults = [*outcome.faults]
    if difference.lost_processes:
        faults.append(f"processes ended: {difference.lost_processes}")
    requests = max(1, outcome.requests)
    return Probe(
        size,
        (after.octets - before.octets) / (ended - began),
        outcome.requests,
        difference.nanoseconds / requests,
        (difference.voluntary + difference.involuntary) / requests,
        sample.read_from_disk(watch.server.processes) - disk,
        idle,
        "; ".join(faults),
    )


def object_name(size: int) -> str:
    return "page.html" if size == PAGE else f"object-{size}.html"


def smallest(fills: Callable[[int], bool], low: int, high: int) -> int | None:
    """The smallest size that fills the link, to within CLOSE; None if not even `high` does."""
    if not fills(high):
        return None
    while high / low > CLOSE and high - low > 1:
        middle = round(math.sqrt(low * high))
        if fills(middle):
            high = middle
        else:
            low = middle
    return high


def find_smallest(watch: Watch, seconds: float) -> tuple[int | None, list[Probe]]:
    """The same of a running server, and every load that it took."""
    probes: list[Probe] = []

    def fills(size: int) -> bool:
        for _ in range(TRIES):
            probes.append(probe(watch, size, seconds))
            if probes[-1].full:
                return True
        return False

    return smallest(fills, SMALLEST, LARGEST), probes
