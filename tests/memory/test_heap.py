"""When a crowd is said to have left."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgebox.memory.heap import AFTER, CROWD, Level, Tide, give_back


def levels(*counts: int) -> list[Level]:
    tide = Tide()
    return [tide.turn(count) for count in counts]


def test_a_crowd_that_left_is_told_of_soon_and_again_until_nothing_of_it_is_left() -> None:
    told = levels(0, 5000, 5000, *[40, 60] * 50)
    assert told[:3] == [Level.LOW, Level.HIGH, Level.HIGH]
    left = told[3:]
    assert [turn for turn, level in enumerate(left, 1) if level is Level.GONE] == list(AFTER)
    assert set(left[AFTER[-1] :]) == {Level.LOW}


def test_while_they_come_back_nothing_is_done() -> None:
    assert Level.GONE not in levels(*[5000, 40] * 40)


def test_one_of_two_crowds_may_leave() -> None:
    """What is left is a crowd itself, and leaves later."""
    told = levels(9000, *[4000] * 100, *[10] * 100)
    assert told.count(Level.GONE) == 2 * len(AFTER)


@given(st.lists(st.integers(0, CROWD - 1)))
def test_a_few_are_no_crowd(counts: list[int]) -> None:
    assert set(levels(*counts)) <= {Level.LOW}


@given(st.lists(st.sampled_from([0, CROWD, 3 * CROWD]), max_size=300))
def test_work_is_bounded_by_who_has_left(counts: list[int]) -> None:
    left = sum(max(0, a - b) for a, b in pairwise(counts))
    assert levels(*counts).count(Level.GONE) * CROWD <= left * len(AFTER)


def test_giving_back_needs_no_particular_c_library(monkeypatch: pytest.MonkeyPatch) -> None:
    give_back()

    class Other:
        def __init__(self, _: object) -> None: ...

    monkeypatch.setattr("ctypes.CDLL", Other)
    give_back()
