from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from edgebox.observe.histogram import BOUNDS, WORDS, Histogram, merged

SECONDS = st.floats(0, 1000, allow_nan=False)


def holding(values: list[float]) -> Histogram:
    histogram = Histogram()
    for value in values:
        histogram.record(value)
    return histogram


def test_bounds_grow_by_the_same_proportion_and_can_be_read() -> None:
    steps = [b / a for a, b in pairwise(BOUNDS)]
    assert all(1.38 < step < 1.51 for step in steps)
    assert (BOUNDS[0], BOUNDS[-1]) == (1e-05, 100.0)
    assert {str(b) for b in BOUNDS} >= {"0.001", "0.0015", "0.0022", "1.0", "4.7"}


def test_what_takes_as_long_as_a_bound_is_within_it() -> None:
    histogram = holding([0.001, 0.0010001, 1e9])
    assert histogram.counts[BOUNDS.index(0.001)] == 1
    assert histogram.counts[BOUNDS.index(0.0015)] == 1
    assert histogram.counts[-1] == 1


@given(st.lists(SECONDS), st.lists(SECONDS))
def test_two_merged_are_as_one_that_saw_all(first: list[float], second: list[float]) -> None:
    both = merged([holding(first), holding(second)])
    assert both.words == holding(first + second).words
    assert both.since(holding(first)).words == holding(second).words
    assert len(both.words) == WORDS
    assert Histogram(both.words).words == both.words


@given(st.lists(st.floats(2e-5, 90), min_size=1, max_size=200), st.floats(0.1, 100))
def test_a_percentile_is_off_by_no_more_than_its_bucket(
    values: list[float], percent: float
) -> None:
    rank = max(1, -(-len(values) * percent // 100))
    exact = sorted(values)[int(min(rank, len(values))) - 1]
    told = holding(values).percentile(percent)
    assert exact / 1.5 <= told <= exact * 1.5


@given(st.lists(SECONDS, min_size=1))
def test_percentiles_grow_and_nothing_has_none(values: list[float]) -> None:
    histogram = holding(values)
    told = [histogram.percentile(p) for p in (1, 50, 90, 95, 99, 100)]
    assert told == sorted(told)
    assert Histogram().percentile(50) == 0.0
    assert Histogram().statistics()["mean"] == 0.0


@given(st.lists(SECONDS, min_size=1, max_size=50), st.integers(0, 10**6))
def test_a_sample_is_spread_to_exactly_as_many_as_there_were(
    values: list[float], times: int
) -> None:
    sample = holding(values)
    spread = sample.spread(times)
    assert spread.count == times
    assert all(not count or sample.counts[at] for at, count in enumerate(spread.counts))
    assert Histogram().spread(times).count == 0


def test_cleared_it_is_empty() -> None:
    histogram = holding([1.0, 2.0])
    histogram.clear()
    assert histogram.words == [0] * WORDS
