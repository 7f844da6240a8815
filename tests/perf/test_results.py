"""Medians, ratios and verdicts are what a reader would work out from the table by hand."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perf.caches import lineup
from perf.report import Run
from perf.results import Figure, Sample, Verdict, best_peer, joined, judge, result
from perf.rows import ROWS
from perf.targets import BEST, NOTHING, TARGETS, Target


def figures(**medians: float | None) -> dict[str, Figure]:
    return {name: Figure(name, (Sample(value),)) for name, value in medians.items()}


def test_parts_of_a_load_weigh_as_much_as_they_have_requests() -> None:
    parts = [
        Sample(10.0, "", 100, 1.0, 0.02, 0.5, {"upstream_requests": 3}),
        Sample(20.0, "reset 1", 300, 2.0, 0.01, 0.1, {"upstream_requests": 4}),
        Sample(None, "reset 1"),
    ]
    whole = joined(parts)
    assert (whole.value, whole.switches) == (17.5, 0.2)
    assert (whole.requests, whole.seconds, whole.p99) == (400, 3.0, 0.02)
    assert whole.fault == "reset 1"
    assert whole.details == {"upstream_requests": 7}
    assert joined([Sample(None, "it never started")]).value is None


def test_a_round_with_a_fault_does_not_move_the_median(made_up_run: Run) -> None:
    figure = made_up_run.results[0].figures["edgebox"]
    assert figure.median == 8.0
    assert figure.clean == (9.0, 8.0, 7.0)
    assert figure.switches == 0.02
    assert figure.rate == 200
    assert figure.faults == ("socket errors: read 3",)


def test_a_ratio_is_one_median_by_another() -> None:
    verdict = judge(Target("hot", 0.80, "nginx"), figures(edgebox=8.0, nginx=10.0))
    assert verdict.measured == 0.8
    assert verdict.reached is True
    assert judge(verdict.target, figures(edgebox=8.1, nginx=10.0)).reached is False


def test_the_best_peer_is_a_server_and_neither_edgebox_nor_the_floor() -> None:
    row = figures(edgebox=1.0, floor=0.5, nginx=10.0, lighttpd=8.0, h2o=None)
    assert best_peer(row) == "lighttpd"
    assert judge(Target("hot", 1.0, BEST), row) == Verdict(
        Target("hot", 1.0, BEST), 0.125, "lighttpd"
    )


def test_a_plain_bound_is_held_against_the_median_itself() -> None:
    assert judge(Target("idle", 1500), figures(edgebox=1500.0)).reached is True
    assert judge(Target("idle", 1500), figures(edgebox=1501.0)).reached is False


@pytest.mark.parametrize(
    ("target", "row"),
    [
        (Target("hot", 0.8, "nginx"), figures(nginx=10.0)),
        (Target("hot", 0.8, "nginx"), figures(edgebox=8.0)),
        (Target("hot", 0.8, "nginx"), figures(edgebox=8.0, nginx=None)),
        (Target("hot", 0.8, BEST), figures(edgebox=8.0, floor=6.0)),
        (Target("idle", 1500), figures(edgebox=None)),
    ],
)
def test_what_could_not_be_measured_is_neither_reached_nor_missed(
    target: Target, row: dict[str, Figure]
) -> None:
    verdict = judge(target, row)
    assert verdict.reached is None
    assert verdict.why_not


@settings(max_examples=50)
@given(st.lists(st.floats(0.1, 1000), min_size=1, max_size=7))
def test_a_median_lies_within_its_rounds(values: list[float]) -> None:
    median = Figure("nginx", tuple(map(Sample, values))).median
    assert median is not None
    assert min(values) <= median <= max(values)


def test_every_target_names_a_row_and_a_server_that_this_row_is_for() -> None:
    rows = {row.key: row for row in ROWS}
    for target in TARGETS:
        names = {peer.name for peer in lineup(rows[target.row])}
        assert target.against in names | {BEST, NOTHING}
        assert "edgebox" in names


def test_a_result_has_a_verdict_for_each_target_of_its_row() -> None:
    for row in ROWS:
        verdicts = result(row, {}).verdicts
        assert [v.target for v in verdicts] == [t for t in TARGETS if t.row == row.key]
