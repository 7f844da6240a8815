from __future__ import annotations

from edgebox.observe.counters import Counters, Tally


def tally(kind: str = "file", status: int = 200, octets: int = 100, url: bytes = b"a/") -> Tally:
    return Tally(kind, url, status, octets)


def test_what_the_lane_tallied_is_in_all_figures_at_the_next_look() -> None:
    counters = Counters()
    hot, cold = counters.open_tally(tally()), counters.open_tally(tally("hit", 404, 10, b"b/"))
    hot.count += 3
    cold.count += 1
    assert counters.statistics() | {"express": 4, "octets": 310, "2xx": 3, "4xx": 1} == (
        counters.statistics()
    )
    assert counters.kinds["file"] == [3, 300]
    assert counters.kinds["hit"] == [1, 10]
    assert [row[0] for row in counters.hottest.most(9)] == ["a/", "b/"]
    hot.count += 1
    counters.turn()
    assert counters.statistics()["express"] == 5


def test_after_a_turn_a_tally_of_before_counts_for_nothing() -> None:
    counters = Counters()
    old = counters.open_tally(tally())
    counters.turn()
    old.count += 5
    assert counters.statistics()["express"] == 0


def test_the_lanes_times_are_those_of_its_batches_by_kind() -> None:
    counters = Counters()
    counters.batches.record(0.001, 10)
    counters.open_tally(tally("hit")).count += 90
    counters.open_tally(tally("file")).count += 9
    counters.turn()
    assert counters.total["hit"].count == counters.first["hit"].count == 90
    assert counters.total["file"].count == 9
    assert counters.total["miss"].count == 0
    assert 0.0006 < counters.total["hit"].percentile(50) <= 0.001
    assert counters.batches.count == 0


def test_a_task_tells_its_own_times_and_failures_have_no_kind() -> None:
    counters = Counters()
    counters.answered(200, 50)
    counters.served("miss", 50, 0.1, 0.2)
    counters.answered(502, 20)
    counters.served("", 20, 0.1, 0.2)
    assert counters.kinds["miss"] == [1, 50]
    assert sum(answers for answers, _ in counters.kinds.values()) == 1
    assert (counters.first["miss"].seconds, counters.total["miss"].seconds) == (0.1, 0.2)
    assert counters.statistics()["requests"] == 2


def test_what_the_lane_hands_on_is_counted_once() -> None:
    counters = Counters()
    half = counters.open_tally(tally("hit", octets=1000))
    counters.handed_on(half)
    counters.answered(200, 1000)  # as the task does when it is through
    counters.turn()
    assert counters.statistics()["requests"] == 1
    assert counters.statistics()["express"] == 0
    assert counters.statistics()["octets"] == 1000
    assert counters.kinds["hit"] == [1, 1000]
