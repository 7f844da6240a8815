"""The epoch: whole seconds, however late the loop is to notice that one has begun."""

from __future__ import annotations

import time

import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

import edgebox.epoch
from edgebox.epoch import LEAST, SLACK, Epoch, in_step


@given(st.integers(0, 2**40), st.lists(st.floats(-SLACK / 2, SLACK / 2), max_size=50))
def test_moments_are_whole_seconds_apart_whatever_the_delays(
    begin: int, delays: list[float]
) -> None:
    first = begin / 1024
    moment = first
    for number, delay in enumerate(delays, 1):
        moment = in_step(moment, round((first + number + delay) * 1024) / 1024)
        assert moment == first + number


@pytest.mark.parametrize("jump", [0.5, -0.5, 3600.5, -3600.4])
def test_a_clock_that_was_set_leaves_the_step(jump: float) -> None:
    assert in_step(100.0, 101.0 + jump) == 101.0 + jump
    assert in_step(101.0 + jump, 102.1 + jump) == 102.0 + jump


def test_a_turn_tells_who_wants_to_know() -> None:
    epoch, heard = Epoch(b"edgebox"), []
    epoch.on_forget(lambda: heard.append("forget"))
    epoch.on_turn(lambda: heard.append("turn"))
    epoch.turn()
    assert heard == ["forget", "turn"]
    assert epoch.stamp.startswith(b"Date: ")
    assert epoch.stamp.endswith(b"GMT\r\nServer: edgebox\r\n")


async def test_a_clock_that_has_stopped_at_a_seconds_end_does_not_spin(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: trio.testing.MockClock
) -> None:
    class Stopped:
        CLOCK_BOOTTIME = time.CLOCK_BOOTTIME
        monotonic, clock_gettime = time.monotonic, time.clock_gettime

        @staticmethod
        def time() -> float:
            return 1_000_000_000.9999

    monkeypatch.setattr(edgebox.epoch, "time", Stopped)
    epoch = Epoch()
    with trio.move_on_after(10):
        await epoch.run()
    assert 0 < epoch.number <= 10 / LEAST + 1
