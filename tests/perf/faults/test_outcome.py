"""The counts of a load say what was lost with a reason, and what without."""

from __future__ import annotations

from perf.faults.outcome import MISHAPS, load_of, nothing_lost, nothing_wrong, spread
from perf.faults.tally import Blow, Mishap, Tally


def test_a_loss_is_explained_by_a_death_or_not_at_all(tally: Tally) -> None:
    load = load_of(tally, 8, [Blow(10.0, frozenset({4001}))])
    assert (load.sent, load.right, load.named) == (100, 95, {"503": 3})
    assert (load.lost, load.unexplained) == (2, 1)
    assert load.mishaps == ("lost /b: closed, 0.01 s after",)
    assert (load.median_ms, load.longest_s) == (490.0, 0.98)
    assert not nothing_lost(load).kept
    assert nothing_wrong(load).kept


def test_a_crossed_request_is_explained_only_where_connections_had_to_go(tally: Tally) -> None:
    assert load_of(tally, 8, may_cross=True).unexplained == 1
    assert load_of(tally, 8).unexplained == 2


def test_a_refused_connection_breaks_the_promise(tally: Tally) -> None:
    tally.lost, tally.refused = [], 1
    assert not nothing_lost(load_of(tally, 8)).kept


def test_a_wrong_answer_breaks_the_promise_and_is_told(tally: Tally) -> None:
    tally.wrong = [Mishap(1.0, 1, "/c", "another body")] * (MISHAPS + 5)
    load = load_of(tally, 8)
    assert not nothing_wrong(load).kept
    assert len(load.mishaps) == MISHAPS


def test_times_are_told_by_median_and_worst() -> None:
    assert [(f.what, f.value) for f in spread("it took", [3.0, 1.0, 2.0])] == [
        ("it took, median", 2.0),
        ("it took, worst", 3.0),
    ]
    assert spread("it took", []) == []
