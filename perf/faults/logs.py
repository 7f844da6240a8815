"""The access log goes nowhere: a pipe whose reader has stopped, and a device that is full.

Every line is accounted for in the end: read from the pipe, or dropped and counted.
"""

from __future__ import annotations

import fcntl
import os
import threading
import time
from pathlib import Path

from perf.faults.box import App, Box, make_place, running_box, targets_of, wait_until
from perf.faults.crowd import Crowd
from perf.faults.outcome import (
    Figure,
    Load,
    Outcome,
    Promise,
    load_of,
    nothing_lost,
    nothing_wrong,
)

CLIENTS = 30
STOPPED, FULL = 6.0, 5.0  # seconds
DROPS = 60.0
BACKLOG = "64 KiB"  # of lines held for the reader: a few seconds' worth
RECOVERS = 30.0
SAID = "lines of the access log were lost"


class Reader:
    """Reads a named pipe in a thread, or leaves it alone, and counts lines."""

    def __init__(self, path: Path) -> None:
        os.mkfifo(path)
        self._fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        fcntl.fcntl(self._fd, fcntl.F_SETPIPE_SZ, 4096)  # so that it is soon full
        self.lines = 0
        self.reads = threading.Event()
        self.reads.set()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._over.is_set():
            self.reads.wait()
            try:
                octets = os.read(self._fd, 1 << 16)
            except BlockingIOError:
                octets = b""
            self.lines += octets.count(b"\n")
            if not octets:
                time.sleep(0.01)

    def close(self) -> None:
        self.reads.set()
        self._over.set()
        self._thread.join()
        os.close(self._fd)


def stop_log_reader(app: App, scratch: Path) -> Outcome:
    """The pipe, then the device."""
    place = make_place(scratch / "pipe")
    pipe = scratch / "access.pipe"
    reader = Reader(pipe)
    try:
        log = {"log": {"access": str(pipe), "error": str(place.error_log), "backlog": BACKLOG}}
        with running_box(place, app, log) as box:
            with Crowd(box.port, targets_of(place.root), CLIENTS, pause=0.05) as crowd:
                time.sleep(2)
                reader.reads.clear()
                time.sleep(STOPPED)
                wait_until(lambda: _dropped(box), DROPS, "a dropped line")
                read = reader.lines
                reader.reads.set()
                goes_on = wait_until(lambda: reader.lines > read, RECOVERS, "the log")
                time.sleep(2)
            answered = crowd.tally.answered
            dropped = _when_still(box, reader)
            said = box.said(SAID)
        load = load_of(crowd.tally, CLIENTS)
        lines = reader.lines
    finally:
        reader.close()
    full, full_dropped, full_said = _full_device(app, scratch / "full")
    unaccounted = answered - lines - dropped
    figures = (
        Figure("pipe: lines read", lines),
        Figure("pipe: lines dropped and counted", dropped),
        Figure("pipe: goes on after", goes_on, "s"),
        Figure("/dev/full: requests answered right", full.right),
        Figure("/dev/full: lines dropped and counted", full_dropped),
    )
    promises = (
        nothing_wrong(load),
        nothing_lost(load),
        Promise("the same with /dev/full", f"{full.lost} lost, {full.wrong} wrong",
                not full.lost and not full.wrong),
        Promise("every line is read, or dropped and counted",
                f"{unaccounted} of {answered:,} are neither", unaccounted == 0),
        Promise("with /dev/full all are dropped and counted",
                f"{full_dropped:,} of {full.sent:,}", full_dropped == full.sent),
        Promise("the error log says how many", f"{said} and {full_said} lines",
                said > 0 and full_said > 0),
    )  # fmt: skip
    return Outcome("logs", load, promises, figures)


def _when_still(box: Box, reader: Reader) -> int:
    """Lines dropped, once no more are read."""
    before = -1
    while before != reader.lines:
        before = reader.lines
        time.sleep(2.5)  # a worker tells of itself once a second
    return _dropped(box)


def _dropped(box: Box) -> int:
    return int(box.told()["counters"]["log_lines_dropped"])


def _full_device(app: App, scratch: Path) -> tuple[Load, int, int]:
    place = make_place(scratch)
    log = {"log": {"access": "/dev/full", "error": str(place.error_log)}}
    with running_box(place, app, log) as box:
        with Crowd(box.port, targets_of(place.root), CLIENTS, pause=0.05) as crowd:
            time.sleep(FULL)
        time.sleep(2.5)
        return load_of(crowd.tally, CLIENTS), _dropped(box), box.said(SAID)
