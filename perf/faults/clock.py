"""The wall clock is set back an hour, set forward a day, and stands still.

Only CLOCK_REALTIME of the box's processes is touched, by shim.c. How old an answer really is
shows from the X-Made that the app puts in it, by CLOCK_BOOTTIME. What is asked of the box is
RFC 9111, section 4.2.3, with residence time by a clock that nobody sets: never older than it
may be, whatever the wall clock does.
"""

from __future__ import annotations

import os
import struct
import subprocess
import time
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from pathlib import Path

from perf.faults.app import body_of
from perf.faults.box import (
    App,
    Box,
    make_place,
    processor_seconds,
    running_box,
    targets_of,
    wait_until,
)
from perf.faults.crowd import Crowd
from perf.faults.outcome import Figure, Outcome, Promise, load_of, nothing_lost, nothing_wrong

SOURCE = Path(__file__).with_name("shim.c")
CLIENTS = 20
MAY_BE = 2  # seconds that the asked for answer is fresh
SLACK = 1.0  # HTTP counts in whole seconds
LASTS = 5.0  # seconds of each clock
BILLION = 1_000_000_000


@dataclass(frozen=True)
class Clock:
    """What the box's wall clock does; `frozen` at that fraction of a second."""

    name: str
    moved: int = 0  # seconds
    frozen: float | None = None


# Just before a second's end a clock that stands still leaves the shortest sleep until the next.
CLOCKS = (
    Clock("as it is"),
    Clock("an hour back", moved=-3600),
    Clock("a day forward", moved=86400),
    Clock("stopped", frozen=0.5),
    Clock("stopped at a second's end", frozen=0.9999),
    Clock("as it is again"),
)


@dataclass
class Seen:
    """What a client saw under one clock."""

    oldest: float = 0.0  # seconds since the answer was made
    date_off: float = 0.0  # seconds between Date and the clock that the box has
    logged: int = 0
    edit: float = 0.0  # seconds until a change of a file showed
    cpu: float = 0.0  # processor seconds a second
    faults: list[str] = field(default_factory=list)


def build_shim(compiler: str, scratch: Path) -> Path:
    """The library to preload. Raises CalledProcessError."""
    library = scratch / "shim.so"
    command = [compiler, "-O2", "-shared", "-fPIC", "-o", str(library), str(SOURCE)]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    return library


def set_clock(file: Path, clock: Clock) -> float | None:
    """Have it be so; the time that it stands still at."""
    frozen = None if clock.frozen is None else int(time.time()) + clock.frozen
    octets = struct.pack("qq", clock.moved * BILLION, int((frozen or 0) * BILLION))
    fd = os.open(file, os.O_WRONLY | os.O_CREAT)
    os.pwrite(fd, octets, 0)  # in place: it is mapped
    os.close(fd)
    return frozen


def set_clocks(app: App, scratch: Path, compiler: str) -> Outcome:
    """The whole part."""
    place = make_place(scratch)
    file = scratch / "clock"
    set_clock(file, CLOCKS[0])
    environment = {"LD_PRELOAD": str(build_shim(compiler, scratch)), "EDGEBOX_CLOCK": str(file)}
    seen: dict[str, Seen] = {}
    with (
        running_box(place, app, environment=environment) as box,
        Crowd(box.port, targets_of(place.root), CLIENTS, pause=0.1) as crowd,
    ):
        for clock in CLOCKS:
            frozen = set_clock(file, clock)
            seen[clock.name] = _watch(box, clock, frozen)
        serving = len(box.serving())
    load = load_of(crowd.tally, CLIENTS)
    figures = []
    for name, it in seen.items():
        figures += [
            Figure(f"{name}: oldest answer of those that may be {MAY_BE} s old", it.oldest, "s"),
            Figure(f"{name}: Date off by at most", it.date_off, "s"),
            Figure(f"{name}: an edited file shows after", it.edit, "s"),
            Figure(f"{name}: lines logged", it.logged),
            Figure(f"{name}: processor time", it.cpu, "s/s"),
        ]
    oldest = max(it.oldest for it in seen.values())
    off = max(it.date_off for it in seen.values())
    least = min(it.logged for it in seen.values())
    faults = [f"{name}: {fault}" for name, it in seen.items() for fault in it.faults]
    promises = (
        nothing_wrong(load),
        nothing_lost(load),
        Promise(
            f"nothing older than {MAY_BE} s is called fresh (whole seconds)",
            f"{oldest:.2f} s",
            oldest <= MAY_BE + SLACK,
        ),
        Promise(
            "Date is the box's own clock (whole seconds)", f"{off:.2f} s off", off <= 2 * SLACK
        ),
        Promise("logs go on", f"{least} lines at the least", least > 0),
        Promise("no worker is taken for hung", f"{serving} serve", serving == 2),
        Promise("every question is answered", "; ".join(faults[:3]) or "all", not faults),
    )
    return Outcome("clock", load, promises, tuple(figures))


def _watch(box: Box, clock: Clock, frozen: float | None) -> Seen:
    """Ask again and again for one answer, and look how old it is."""
    seen, path = Seen(), f"/app/{MAY_BE}/clock"
    time.sleep(1.5)  # the second in which the clock was set, and the next
    logged = _lines(box.place.access_log)
    begun, before = time.monotonic(), processor_seconds(box.processes())
    while time.monotonic() - begun < LASTS - 1.5:
        asked_at = time.clock_gettime(time.CLOCK_BOOTTIME)
        status, fields, body = box.ask(path)
        if status != 200 or body != body_of(path):
            seen.faults.append(f"status {status}, {len(body)} octets")
            continue
        # As of when it was asked for: how busy the machine is makes no answer older.
        seen.oldest = max(seen.oldest, asked_at - float(fields["X-Made"]))
        _, fields, _ = box.ask("/small.html")  # the Date of a file is ours, not the app's
        shown = parsedate_to_datetime(fields["Date"]).timestamp() if fields else 0.0
        is_time = frozen if frozen is not None else time.time() + clock.moved
        seen.date_off = max(seen.date_off, abs(int(is_time) - shown))
        time.sleep(0.05)
    passed = time.monotonic() - begun
    seen.cpu = (processor_seconds(box.processes()) - before) / passed
    seen.edit = _edit(box)
    seen.logged = _lines(box.place.access_log) - logged
    return seen


def _edit(box: Box) -> float:
    """Seconds until every one of some answers has what was written into a file."""
    body = f"<p>{time.monotonic_ns()}</p>\n".encode() * 30
    (box.place.root / "edited.html").write_bytes(body)
    return wait_until(
        lambda: all(box.ask("/edited.html")[2] == body for _ in range(4)), 30, "an edited file"
    )


def _lines(log: Path) -> int:
    return log.read_bytes().count(b"\n")
