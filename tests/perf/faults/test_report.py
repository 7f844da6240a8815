"""FAULTS.md tells everything that was counted, and faults.json too."""

from __future__ import annotations

import json
from dataclasses import replace

import msgspec
import pytest

from perf.faults import report
from perf.faults.outcome import Figure, Outcome


@pytest.fixture
def run(outcome: Outcome) -> report.Run:
    return report.Run(
        generated="2026-11-30 13:00 UTC", commit="1234567890",
        command="python -m perf.faults", took=330.0, shared=False,
        machine={"CPU": "Example"}, missing=("gcc is not installed",),
        outcomes=(outcome,),
    )  # fmt: skip


def test_the_table_has_every_count(run: report.Run) -> None:
    text = report.markdown(run)
    title = report.TITLES["killing"]
    assert f"| {title} | 8 | 100 | 95 | 3 × 503 | 2 | 1 | 0 | 0 | 0.98 |" in text
    assert "- lost /b: closed, 0.01 s after" in text
    assert "Of 3: 2 kept, 1 broken." in text
    assert "| killed | 3 |  |" in text
    assert "| until another one works, worst | 1.50 | s |" in text
    assert "- gcc is not installed" in text
    assert "`python -m perf.faults`, which took 5.5 minutes" in text


def test_in_short_it_is_what_was_lost_and_how_soon_all_was_well(run: report.Run) -> None:
    text = report.summary(msgspec.json.decode(report.as_json(run), type=report.Run))
    assert f"| {report.TITLES['killing']} | 8 | 100 | 95 | 3 × 503 | 2 | 1 |" in text
    assert f"| {report.TITLES['killing']} | until another one works, worst | 1.50 |" in text
    assert "killed | 3" not in text


def test_times_of_a_shared_machine_are_marked(run: report.Run) -> None:
    assert "in use by others" not in report.markdown(run)
    assert "in use by others" in report.markdown(replace(run, shared=True))


def test_a_broken_promise_is_told_with_what_was_found(outcome: Outcome) -> None:
    (line,) = report.broken([outcome])
    assert line == f"{report.TITLES['killing']}: no request is lost: 1 of 100"


@pytest.mark.parametrize(
    ("figure", "told"),
    [
        (Figure("x", 1234.0), "1,234"),
        (Figure("x", 1.234, "s"), "1.23"),
        (Figure("x", 1234.5, "µs"), "1,234"),
    ],
)
def test_counts_are_whole_and_measures_are_not(figure: Figure, told: str) -> None:
    assert report.number(figure) == told


def test_every_part_has_words_of_its_own() -> None:
    assert report.TITLES.keys() == report.ABOUT.keys()


def test_the_json_has_it_all(run: report.Run) -> None:
    told = json.loads(report.as_json(run))
    assert told["outcomes"][0]["load"]["lost"] == 2
    assert told["outcomes"][0]["promises"][1]["kept"] is False
