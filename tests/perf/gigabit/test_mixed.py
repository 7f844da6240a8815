"""A small object beside bulk is told by its slowest hundredth, and held to what it took alone."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from dataclasses import replace

import pytest

from perf.gigabit.mixed import SIZE, Latency, fetch, judge
from perf.gigabit.report import mixed_table
from perf.gigabit.results import Outcome, verdicts

ALONE = Latency(1000, 0.0003, 0.001, 1e6)


def test_p99_is_the_slowest_hundredth() -> None:
    found = judge([0.001] * 980 + [0.1] * 20, 5.0)
    assert (found.requests, found.median, found.p99, found.wire) == (1000, 0.001, 0.1, 5.0)
    assert judge([0.001] * 995 + [0.1] * 5, 5.0).p99 == pytest.approx(0.001)


def test_no_answers_are_no_figures() -> None:
    with pytest.raises(ValueError, match="no answers"):
        judge([], 1.0)


@pytest.mark.parametrize(("p99", "reached"), [(0.0029, True), (0.0031, False)])
def test_beside_bulk_it_may_take_three_times_as_long(p99: float, reached: bool) -> None:
    beside = replace(ALONE, p99=p99, wire=124e6)
    outcome = Outcome("", "", alone=ALONE, beside=beside)
    (verdict,) = verdicts({"edgebox": outcome})
    assert verdict.reached is reached
    assert "10,000 B beside 100 downloads" in verdict.what
    assert f"{p99 * 1e3:.2f}" in mixed_table({"edgebox": outcome})


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    here, there = socket.socketpair()
    with here, there:
        here.settimeout(5)
        yield here, there


def test_an_answer_is_read_to_its_last_octet(pair: tuple[socket.socket, socket.socket]) -> None:
    here, there = pair

    def answer() -> None:
        there.recv(100)
        for part in (b"HTTP/1.1 200 OK\r\n\r\nxx", b"x" * (SIZE - 3), b"x"):
            there.sendall(part)

    thread = threading.Thread(target=answer)
    thread.start()
    assert fetch(here, b"GET / HTTP/1.1\r\n\r\n") > 0
    thread.join()
    here.setblocking(False)
    with pytest.raises(BlockingIOError):
        here.recv(1)


def test_another_answer_is_refused(pair: tuple[socket.socket, socket.socket]) -> None:
    here, there = pair
    there.sendall(b"HTTP/1.1 503 Busy\r\n\r\n")
    with pytest.raises(ValueError, match="503"):
        fetch(here, b"GET / HTTP/1.1\r\n\r\n")
