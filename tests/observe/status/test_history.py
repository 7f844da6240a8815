from __future__ import annotations

from edgebox.observe.histogram import Histogram
from edgebox.observe.pages import GAUGES, HISTOGRAMS, NUMBERS, Totals
from edgebox.observe.status.history import SECONDS, History


def totals(requests: int, *, hits: int = 0, seconds: float = 0.001) -> Totals:
    numbers = dict.fromkeys((*NUMBERS, *GAUGES), 0) | {"requests": requests, "octets": requests}
    histograms = {name: Histogram() for name in HISTOGRAMS}
    histograms["hit_total"].record(seconds, hits)
    return Totals(numbers, histograms)


def test_a_rate_is_that_of_the_last_seconds() -> None:
    history = History()
    for second in range(20):
        history.add(second, totals(100 * second if second < 10 else 1000 * second))
    assert history.rates(5)["requests"] == 1000


def test_with_one_sample_there_is_no_rate_yet() -> None:
    history = History()
    assert history.rates()["requests"] == 0
    assert history.curves() == {"requests": [], "octets": []}
    assert history.latency() == {}
    history.add(1, totals(5))
    assert history.rates()["requests"] == 0
    assert history.curves() == {"requests": [], "octets": []}


def test_a_curve_has_a_value_a_second_and_forgets() -> None:
    history = History()
    for second in range(2 * SECONDS):
        history.add(second + 0.001 * (second % 3), totals(7 * second))
    curve = history.curves()["requests"]
    assert len(curve) == SECONDS
    assert all(6.9 < value < 7.1 for value in curve)


def test_a_late_second_is_no_peak() -> None:
    history = History()
    for second in (0, 1, 2, 5, 6):
        history.add(second, totals(10 * second))
    assert history.curves()["requests"] == [10, 10, 10, 10]


def test_percentiles_are_those_of_the_last_minute() -> None:
    history = History()
    history.add(0, totals(0, hits=1000, seconds=5.0))
    for second in range(1, 40):
        told = totals(0, hits=1000, seconds=5.0)
        told.histograms["hit_total"].record(0.001, second)
        history.add(second, told)
    latency = history.latency()
    assert latency["hit"]["total"]["count"] == 39
    assert latency["hit"]["total"]["p99"] <= 0.001
    assert latency["all"]["total"]["count"] == 39
    for second in range(40, 200):
        history.add(second, told)
    assert history.latency()["hit"]["total"]["count"] == 0
