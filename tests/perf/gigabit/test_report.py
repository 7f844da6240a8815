"""A report says plainly what was reached, and the JSON has the same for programs."""

from __future__ import annotations

import dataclasses
import json

import pytest

from perf.gigabit import report
from perf.gigabit.objects import Probe
from perf.gigabit.results import Outcome

PAGE = Probe(26_890, 124.5e6, 30_000, 40_000.0, 0.1, 0, 0.5)


@pytest.fixture
def run(outcomes: dict[str, Outcome]) -> report.Run:
    found = (Probe(4000, 120e6, 9, 9000.0, 0, 0, 0.01), Probe(4200, 124.9e6, 9, 9100.0, 0, 0, 0.02))
    outcomes["edgebox"] = dataclasses.replace(
        outcomes["edgebox"], smallest=4200, probes=found, page=PAGE, page_looked_at=PAGE
    )
    outcomes["nginx"] = dataclasses.replace(
        outcomes["nginx"], probes=found[:1], page_looked_at=PAGE, faults=("3 were cut off",)
    )
    return report.Run(
        generated="2026-11-30 13:00 UTC",
        commit="1234567890",
        seconds=6.0,
        rest=3.0,
        cores="Server on core 0, clients on core 1.",
        machine={"CPU": "Example"},
        network={"congestion control": "cubic"},
        missing=("lighttpd is not installed",),
        outcomes=outcomes,
    )


def test_verdicts_are_counted_and_said_plainly(run: report.Run) -> None:
    text = report.markdown(run)
    assert "Of 9: 9 reached, 0 not reached." in text
    assert "| edgebox, 10 clients | ≤ 24 kB a connection | 20.0 kB | reached |" in text


def test_crowds_objects_and_page_have_their_tables(run: report.Run) -> None:
    text = report.markdown(run)
    assert "| 10 | edgebox | 125.0 | 118.0 | 2.0% | 20.0% | 10%, 60% | 20.0 | 5.0, 15.0 |" in text
    assert "| edgebox | 10.0 | 10.0 | 1.00 × |" in text
    assert "| edgebox | 4,200 | 124.9 | 9.1 | 4,000 | 120.0 | 1% |" in text
    assert "| nginx | more than 4,000 | – | – | 4,000 | 120.0 | 1% |" in text
    assert "| a stat a request | nginx | 124.5 | 30,000 | 40.0 | 0.100 | 0 |" in text


def test_every_table_has_as_many_cells_in_each_line_as_in_its_head(run: report.Run) -> None:
    width = 0
    for line in report.markdown(run).splitlines():
        cells = line.count("|") if line.startswith("|") else 0
        assert not cells or not width or cells == width, line
        width = cells


def test_what_is_missing_or_spoilt_is_told_and_how_to_do_it_again(run: report.Run) -> None:
    text = report.markdown(run)
    for told in (
        "- lighttpd is not installed",
        "- nginx: 3 were cut off",
        "`make gigabit PHASE=6`",
        "| congestion control | cubic |",
        "sendfile on;",
    ):
        assert told in text


def test_json_has_the_figures_of_each_server_and_phase(run: report.Run) -> None:
    told = json.loads(report.as_json(run))
    phase = told["servers"]["edgebox"]["phases"]["10"]
    assert phase["mb_per_s"] == 125.0
    assert phase["user_cpu"] == 0.02
    assert phase["kernel_cpu"] == 0.2
    assert phase["kb_per_connection"] == 20.0
    assert told["servers"]["edgebox"]["smallest_object"] == 4200
    assert told["servers"]["edgebox"]["memory"]["ratio"] == 1.0
    assert len(told["servers"]["nginx"]["seconds"]["wire"]) == 11
    assert all(verdict["reached"] for verdict in told["verdicts"])


def test_a_run_of_one_part_tells_only_that(run: report.Run) -> None:
    bare = Outcome("0.1.0", "[server]", page=PAGE)
    text = report.markdown(dataclasses.replace(run, outcomes={"edgebox": bare}, missing=()))
    assert "Crowd by crowd" not in text
    assert "smallest object" not in text
    assert "Nothing was measured that anything is wanted of." in text
