"""What the control socket tells of the box, out of real shared pages."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest

from edgebox import __version__
from edgebox.observe.histogram import Histogram
from edgebox.observe.pages import Pages
from edgebox.ops.control.reports import Reports

Connect = Callable[[], Any]


@pytest.fixture
def pages() -> Iterator[Pages]:
    made = Pages.create()
    yield made
    made.close()


@pytest.fixture
def reports(loop: Any, pages: Pages) -> Reports:
    made: Reports = loop.do(lambda: Reports(loop.control, pages, lambda: {"pid": 7}))
    return made


def publish(pages: Pages, slot: int, beat: float = 0.0, **numbers: int) -> None:
    histogram = Histogram()
    histogram.record(0.002)
    sheet = {"hot": [["x/a", 3, 30]], "upstreams": [], "errors": [[5, "error", f"of {slot}"]]}
    pages.slot(slot).claim(os.getpid(), 2)
    pages.slot(slot).publish(numbers, {"hit_total": histogram}, msgspec.json.encode(sheet))
    pages.slot(slot).beat(beat)


def test_status_is_all_workers_together_and_each(
    loop: Any, pages: Pages, reports: Reports, connect: Connect
) -> None:
    publish(pages, 0, beat=90.0, requests=10, connections=1)
    publish(pages, 3, beat=99.5, requests=5, connections=2)
    loop.now = 100.0
    told = connect().ask(verb="status")
    assert told["ok"] is True
    assert told["totals"]["requests"] == 15
    assert (told["version"], told["host"]) == (__version__, os.uname().nodename)
    assert told["gauges"]["connections"] == 3
    assert [(w["slot"], w["generation"], w["requests"]) for w in told["workers"]] == [
        (0, 2, 10),
        (3, 2, 5),
    ]
    assert told["sheet"]["hot"] == [["x/a", 6, 60]]
    assert told["silent"] == {"0": 10.0, "3": 0.5}
    assert told["supervisor"]["pid"] == 7
    assert told["supervisor"]["control"]["clients_now"] == 1


def test_rates_come_of_turns(loop: Any, pages: Pages, reports: Reports, connect: Connect) -> None:
    for second in range(3):
        publish(pages, 0, requests=100)  # each time a new process
        loop.now = float(second)
        loop.do(lambda: reports.turn() or True)
    told = connect().ask(verb="stats")
    assert told["rates"]["requests"] == 100.0
    assert told["counters"]["requests"] == 300
    assert "connections" in told["gauges"]
    assert "connections" not in told["counters"]
    assert told["latency"]["hit_total"]["count"] == 3
    assert connect().ask(verb="status")["curves"]["requests"] == [100.0, 100.0]


def test_a_box_without_workers_tells_so(reports: Reports, connect: Connect) -> None:
    told = connect().ask(verb="status")
    assert (told["ok"], told["workers"], told["silent"]) == (True, [], {})


def test_who_is_still_starting_is_not_silent(
    loop: Any, pages: Pages, reports: Reports, connect: Connect
) -> None:
    publish(pages, 0, beat=99.0)
    publish(pages, 1, beat=90.0)
    ours, theirs = socket.socketpair()
    loop.do(lambda: loop.control.attach(1, ours) or True)
    loop.now = 100.0
    assert connect().ask(verb="status")["silent"] == {"0": 1.0}
    theirs.sendall(b'{"event": "ready"}\n')
    while "1" not in connect().ask(verb="status")["silent"]:
        pass
    theirs.close()
