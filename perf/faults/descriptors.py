"""No descriptors: workers that may open nothing more, then more clients than are let in."""

from __future__ import annotations

import os
import resource
import selectors
import socket
import time
from collections import Counter
from pathlib import Path

from perf.faults.answer import Target, request
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
from perf.faults.outcome import (
    Figure,
    Outcome,
    Promise,
    load_of,
    nothing_wrong,
)

CLIENTS = 30
TAKEN = 8.0  # seconds
MOST = 300  # connections that the box lets in, of all its workers
FLOOD = 1500
RECOVERS = 30.0
CHANGED = {"limits": {"connections": MOST}}


def take_descriptors(app: App, scratch: Path) -> Outcome:
    """The whole part."""
    place = make_place(scratch)
    targets = targets_of(place.root)
    with running_box(place, app, CHANGED) as box:
        crowd = Crowd(box.port, targets, CLIENTS, pause=0.1, turnover=0.05)
        with crowd:
            time.sleep(2)
            short_at = time.monotonic()
            before = {pid: _forbid(pid) for pid in box.serving()}
            time.sleep(TAKEN)
            cpu = processor_seconds(box.processes())
            for pid, limits in before.items():
                resource.prlimit(pid, resource.RLIMIT_NOFILE, limits)
            answered = sum(1 for asked, took in crowd.tally.answers if asked + took > short_at)
            again = wait_until(lambda: _fresh(box, targets[0]), RECOVERS, "a new connection")
            time.sleep(1)
            statuses, open_for = _flood(box, targets[0])
            after = wait_until(lambda: _fresh(box, targets[0]), RECOVERS, "the end of the flood")
        load = load_of(crowd.tally, CLIENTS, may_cross=True)
        said = box.said("no descriptors left")
    unanswered = FLOOD - statuses.total()
    figures = (
        Figure("answers while nothing could be opened", answered),
        Figure("processor time of all its processes until then", cpu, "s"),
        Figure("a new client is answered after", again, "s"),
        Figure(f"flood of {FLOOD:,} connections: 200", statuses[200]),
        Figure(f"flood of {FLOOD:,} connections: 503", statuses[503]),
        Figure("the flood lasted", open_for, "s"),
        Figure("a new client is answered after the flood after", after, "s"),
    )
    promises = (
        nothing_wrong(load),
        Promise(
            "lost is only what met the closing of an idle connection, to make room",
            f"{load.lost} lost, {load.unexplained} of them otherwise",
            not load.unexplained and not load.refused,
        ),
        Promise("the error log says so", f"{said} lines", said > 0),
        Promise(
            "everyone in the flood is answered 200 or 503",
            f"{unanswered} are not",
            unanswered == 0 and set(statuses) <= {200, 503},
        ),
    )
    return Outcome("descriptors", load, promises, figures)


def _forbid(pid: int) -> tuple[int, int]:
    """It may open nothing more; the limits as they were."""
    limits = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    taken = {int(name) for name in os.listdir(f"/proc/{pid}/fd")}
    lowest_free = min(set(range(len(taken) + 1)) - taken)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (lowest_free, limits[1]))
    return limits


def _fresh(box: Box, target: Target) -> bool:
    status, _, body = box.ask(target.path, patience=2.0)
    return status == 200 and body == target.body


def _flood(box: Box, target: Target) -> tuple[Counter[int], float]:
    """As many at once as there are, each with one request; all stay until all are answered."""
    statuses: Counter[int] = Counter()
    begun = time.monotonic()
    with selectors.EpollSelector() as selector:
        for _ in range(FLOOD):
            sock = socket.create_connection(("127.0.0.1", box.port), timeout=RECOVERS)
            sock.sendall(request(target))
            sock.setblocking(False)
            selector.register(sock, selectors.EVENT_READ)
        answered: list[socket.socket] = []
        while len(answered) < FLOOD and time.monotonic() - begun < RECOVERS:
            for key, _ in selector.select(0.5):
                assert isinstance(key.fileobj, socket.socket)
                answered.append(key.fileobj)
                selector.unregister(key.fileobj)
                statuses[_status(key.fileobj)] += 1
        for each in [*answered, *(key.fileobj for key in selector.get_map().values())]:
            assert isinstance(each, socket.socket)
            each.close()
    return statuses, time.monotonic() - begun


def _status(sock: socket.socket) -> int:
    """Of the answer that begins to come; 0: none."""
    try:
        words = sock.recv(65536).split(b" ", 2)
    except OSError:
        return 0
    return int(words[1]) if len(words) > 1 and words[1].isdigit() else 0
