from __future__ import annotations

import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgebox.bench.figures import make_figures, percentile, spread
from edgebox.bench.load import Load, parse_target
from edgebox.bench.samples import Failure, Samples

LOAD = Load(
    target=parse_target("http://box/"), octets=b"GET /", requests=4, concurrency=2, seconds=None,
    keep_alive=False, timeout=1.0, same_length=True,
)  # fmt: skip


def measured() -> Samples:
    samples = Samples()
    for total in (0.004, 0.001, 0.003, 0.002):
        samples.add(begun=0.0, connecting=0.0005, waiting=total / 2, total=total)
    samples.statuses.update([200, 200, 200, 503])
    samples.failures[Failure.TIMEOUT] = 1
    samples.seconds = 0.5
    return samples


def test_failures_are_not_counted_as_complete() -> None:
    figures = make_figures(LOAD, measured())
    assert (figures.complete, figures.failed, figures.non_2xx) == (4, 1, 1)
    assert figures.requests_per_second == 8
    assert set(figures.failures) == {why.value for why in Failure}
    assert measured().finished == 5


def test_times_are_milliseconds() -> None:
    times = make_figures(LOAD, measured()).times_ms
    assert times is not None
    assert times.total.max == pytest.approx(4)
    assert times.total.median == pytest.approx(2.5)
    assert times.connect.mean == pytest.approx(0.5)
    assert times.processing.min == pytest.approx(0.5)
    assert times.waiting.max == pytest.approx(2)


def test_a_run_without_an_answer_has_no_times() -> None:
    figures = make_figures(LOAD, Samples())
    assert (figures.times_ms, figures.percentiles_ms, figures.complete) == (None, {}, 0)


@given(st.lists(st.floats(0, 1000), min_size=1), st.integers(0, 100))
def test_a_percentile_is_a_value_that_so_many_do_not_exceed(
    values: list[float], percent: int
) -> None:
    found = percentile(sorted(values), percent)
    assert sum(value <= found for value in values) * 100 >= percent * len(values)
    assert sum(value < found for value in values) * 100 <= percent * len(values)


@given(st.lists(st.floats(0, 1000), min_size=2))
def test_a_spread_is_what_the_textbook_says(values: list[float]) -> None:
    found = spread(sorted(values))
    assert found.mean == pytest.approx(1000 * statistics.fmean(values))
    assert found.sd == pytest.approx(1000 * statistics.stdev(values), abs=1e-3)
    assert found.median == pytest.approx(1000 * statistics.median(values))
