"""A report says plainly what was reached, what was not, and what could not be measured."""

from __future__ import annotations

import dataclasses
import json

from perf import report
from perf.report import Run


def test_verdicts_are_counted_and_said_plainly(made_up_run: Run) -> None:
    text = report.markdown(made_up_run)
    assert "Of 4 targets: 3 reached, 1 not reached." in text
    assert "| ≤ 0.80 × nginx | 0.80 | reached |" in text
    assert "| ≤ 1.00 × the best peer (nginx) | 0.80 | reached |" in text
    assert "| ≤ 1.35 × floor | 1.33 | reached |" in text
    assert "| ≤ 1,500 octets | 1,600 | **not reached** |" in text


def test_the_table_holds_medians_and_ratios_and_marks_what_is_invalid(made_up_run: Run) -> None:
    heads = "| load | edgebox | nginx | lighttpd | floor | ÷ nginx | ÷ best peer | ÷ floor |"
    row = "| 449 B, keep-alive, 64 connections | 8.0 | 10.0 | invalid | 6.0 | 0.80 | 0.80 | 1.33 |"
    text = report.markdown(made_up_run)
    assert heads in text
    assert row in text


def test_every_table_has_as_many_cells_in_each_line_as_in_its_head(made_up_run: Run) -> None:
    width = 0
    for line in report.markdown(made_up_run).splitlines():
        cells = line.count("|") if line.startswith("|") else 0
        assert not cells or not width or cells == width, line
        width = cells


def test_what_was_lost_when_something_broke_stands_beside_the_speeds(made_up_run: Run) -> None:
    assert "When something breaks" not in report.markdown(made_up_run)
    told = dataclasses.replace(made_up_run, breakage="1 of 100 lost")
    assert "## When something breaks\n\n1 of 100 lost\n\n## " in report.markdown(told)


def test_what_is_missing_or_spoilt_is_told(made_up_run: Run) -> None:
    text = report.markdown(made_up_run)
    assert "- h2o: h2o is not installed" in text
    assert "- hot, edgebox (3 of 4 rounds clean): socket errors: read 3" in text
    assert "- hot, lighttpd (0 of 1 rounds clean): ended with 255 at start: no such key" in text


def test_machine_versions_commands_and_configurations_are_there(made_up_run: Run) -> None:
    text = report.markdown(made_up_run)
    for told in (
        "Example",
        "| nginx | 1.22 |",
        "| wrk | 4.1.0 |",
        "sendfile on;",
        "wrk -t 1 -c 64",
    ):
        assert told in text


def test_json_holds_the_same_for_programs(made_up_run: Run) -> None:
    told = json.loads(report.as_json(made_up_run))
    hot = told["rows"][0]
    assert hot["figures"]["edgebox"]["median"] == 8.0
    assert (hot["figures"]["edgebox"]["low"], hot["figures"]["edgebox"]["high"]) == (7.0, 9.0)
    assert hot["figures"]["lighttpd"]["median"] is None
    assert [target["reached"] for target in hot["targets"]] == [True, True, True]
    assert told["rows"][1]["unit"] == "octets"
    assert told["peers"]["nginx"] == {"version": "1.22", "config": "sendfile on;"}
    assert told["machine"]["CPU"] == "Example"


def test_a_quick_run_says_that_it_is_not_to_be_quoted(made_up_run: Run) -> None:
    assert "not to be quoted" not in report.markdown(made_up_run)
    assert "not to be quoted" in report.markdown(dataclasses.replace(made_up_run, quick=True))
