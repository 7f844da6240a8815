"""One worker on one core against two on two, each core with a load generator of its own.

A machine of two cores has none to spare for the load. So each worker shares its core with one
load generator, whatever the number of workers: what a request costs and how often it has to give
way is the same then, and two cores should answer twice as many.
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
WANTED = 1.7  # × the requests a second of one worker


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
    one, two = max(rates[1]), max(rates[2])
    figures = []
    for workers in (1, 2):
        name = f"{workers} worker{'s' if workers > 1 else ''}"
        figures += [
            Figure(f"{name}: requests a second", max(rates[workers])),
            Figure(f"{name}: processor time of a request", min(costs[workers]) * 1e6, "µs"),
        ]
    promise = Promise(
        f"two workers on two cores answer at least {WANTED:.1f} × as many as one on one",
        f"{two / one:.2f} ×",
        two >= WANTED * one,
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
        _run(wrk, box.port, cores[:workers], 1)
        before = usage(box.processes())
        rate, requests = _run(wrk, box.port, cores[:workers], SECONDS)
        after = usage(box.processes())
    return rate, spent(before, after).nanoseconds / 1e9 / requests


def _run(wrk: str, port: int, cores: list[int], seconds: int) -> tuple[float, int]:
    """Requests a second and requests, by a wrk on each core. ValueError: some were not answered."""
    command = [
        wrk, "-t1", f"-c{CONNECTIONS}", f"-d{seconds}s", "--timeout", "30s",
        f"http://127.0.0.1:{port}/small.html",
    ]  # fmt: skip
    running = []
    for core in cores:
        with pinned(core):
            running.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
    rate, requests = 0.0, 0
    for load in running:
        said, _ = load.communicate(timeout=seconds + 60)
        found = re.search(r"(\d+) requests in ([\d.]+)s", said)
        if found is None or "Non-2xx" in said or "Socket errors" in said:
            raise ValueError(f"wrk was not answered cleanly: {said}")
        requests += int(found[1])
        rate += int(found[1]) / float(found[2])
    return rate, requests
