"""One look at the whole box, as plain values that become the page's JSON.

Put together from the shared pages, by whichever worker is asked, once a second at most.
"""

from __future__ import annotations

import msgspec

from edgebox import __version__
from edgebox.observe.pages import Pages, Reading
from edgebox.observe.status.history import History
from edgebox.observe.status.sheets import Sheet, merge, read_sheet

_SUMS = (
    "connections", "idle", "tasks", "connections_limit", "ram_held", "ram_budget", "ram_capacity",
    "ram_objects", "upstream_active", "upstream_idle",
)  # fmt: skip
_SHARED = ("disk_held", "disk_limit", "lag_us")  # one disk for all; the latest loop


class Workman(msgspec.Struct):
    """One worker."""

    slot: int
    pid: int
    generation: int
    uptime: int
    requests: int
    connections: int
    ram: int
    lag_ms: float
    draining: bool


class Snapshot(msgspec.Struct):
    """`time`: wall seconds. `rates` are a second, `latency` of the last minute, in seconds.

    `curves`: the last two minutes, a value a second, the latest last. `board`: what the
    supervisor tells, {"plan": …}; its warnings and errors are in `sheet` with all others.
    """

    time: int
    host: str
    version: str
    uptime: int
    totals: dict[str, int]
    gauges: dict[str, int]
    rates: dict[str, float]
    curves: dict[str, list[float]]
    latency: dict[str, dict[str, dict[str, float]]]
    workers: list[Workman]
    sheet: Sheet
    board: dict[str, object]


def take(pages: Pages, history: History, now: int, host: str) -> Snapshot:
    """The box, called `host`, at wall second `now`."""
    readings = list(pages.readings())
    told = pages.board.read()
    board = dict(told.sheet) if told is not None else {}
    errors = {"errors": board.pop("errors", [])}
    started = [r.numbers["started"] for _, r in readings if r.numbers["started"]]
    if isinstance(first := board.get("started"), int):
        started.append(first)
    totals = pages.totals().numbers
    gauges = {name: totals[name] for name in _SUMS}
    for name in _SHARED:
        gauges[name] = max((r.numbers[name] for _, r in readings), default=0)
    return Snapshot(
        time=now,
        host=host,
        version=__version__,
        uptime=max(0, now - min(started, default=now)),
        totals=totals,
        gauges=gauges,
        rates=history.rates(),
        curves=history.curves(),
        latency=history.latency(),
        workers=[_workman(slot, reading, now) for slot, reading in readings],
        sheet=merge([read_sheet(each) for each in (errors, *(r.sheet for _, r in readings))]),
        board=board,
    )


def _workman(slot: int, reading: Reading, now: int) -> Workman:
    numbers = reading.numbers
    return Workman(
        slot=slot,
        pid=reading.pid,
        generation=reading.generation,
        uptime=max(0, now - (numbers["started"] or now)),
        requests=numbers["requests"],
        connections=numbers["connections"],
        ram=numbers["ram_held"],
        lag_ms=numbers["lag_us"] / 1000,
        draining=bool(numbers["draining"]),
    )
