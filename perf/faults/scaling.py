"""One worker on one core against two on two, with a load generator that takes its share.

On a machine of two cores, requests a second say as much of the load generator as of the server.
So what is compared is what does not depend on it: the server's processor time for a request,
and so how many requests a second of its time is good for. If that is the same with two workers
as with one, nothing is shared that they would wait for.
"""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

from perf.faults.box import App, make_place, running_box
from perf.faults.outcome import Figure, Outcome, Promise
from perf.processes import spent, usage
from perf.server import pinned

SECONDS = 6
CONNECTIONS = 64
ROUNDS = 2
WITHIN = 1.15  # × the processor time of a request with one worker


def scale(app: App, scratch: Path, wrk: str) -> Outcome:
    """Both, in turn, twice."""
    cores = sorted(os.sched_getaffinity(0))
    rates: dict[int, list[float]] = {1: [], 2: []}
    costs: dict[int, list[float]] = {1: [], 2: []}
    for turn in range(ROUNDS):
        for workers in (1, 2):
            rate, cost = _measure(app, scratch / f"{workers}-{turn}", wrk, workers, cores)
            rates[workers].append(rate)
            costs[workers].append(cost)
    one, two = min(costs[1]), min(costs[2])
    figures = []
    for workers in (1, 2):
        name = f"{workers} worker{'s' if workers > 1 else ''}"
        figures += [
            Figure(f"{name}: requests a second", max(rates[workers])),
            Figure(f"{name}: processor time of a request", min(costs[workers]) * 1e6, "µs"),
            Figure(f"{name}: requests a second of its time", 1 / min(costs[workers])),
        ]
    promise = Promise(
        f"with two workers a request costs at most {WITHIN:.2f} × what it does with one",
        f"{two / one:.2f} ×",
        two <= WITHIN * one,
    )
    return Outcome("scaling", None, (promise,), tuple(figures))


def _measure(
    app: App, scratch: Path, wrk: str, workers: int, cores: list[int]
) -> tuple[float, float]:
    """Requests a second, and the server's processor seconds a request."""
    place = make_place(scratch)
    changed = {"server": {"workers": workers}, "limits": {"keep_alive_requests": 1_000_000}}
    with running_box(place, app, changed) as box:
        for pid, core in zip(sorted(box.serving()), cores, strict=False):
            for thread in os.listdir(f"/proc/{pid}/task"):
                os.sched_setaffinity(int(thread), {core})
        # With one worker the load has the other core to itself.
        with pinned(cores[-1] if workers == 1 else None):
            _run(wrk, box.port, 1)
            before = usage(box.processes())
            requests, seconds = _run(wrk, box.port, SECONDS)
            after = usage(box.processes())
    return requests / seconds, spent(before, after).nanoseconds / 1e9 / requests


def _run(wrk: str, port: int, seconds: int) -> tuple[int, float]:
    """Requests answered, and in how many seconds. Raises ValueError where some were not."""
    said = subprocess.run(
        [wrk, "-t1", f"-c{CONNECTIONS}", f"-d{seconds}s", "--timeout", "30s",
         f"http://127.0.0.1:{port}/small.html"],
        capture_output=True, text=True, timeout=seconds + 60, check=True,
    ).stdout  # fmt: skip
    found = re.search(r"(\d+) requests in ([\d.]+)s", said)
    if found is None or "Non-2xx" in said or "Socket errors" in said:
        raise ValueError(f"wrk was not answered cleanly: {said}")
    return int(found[1]), float(found[2])
