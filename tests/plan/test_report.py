"""Promises of the report: every number with its reason and sum, and what to do about it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from edgebox.config.schema import Config, Limits
from edgebox.plan import report
from edgebox.plan.facts import Facts
from edgebox.plan.planner import plan


def test_every_number_ceiling_and_command_is_in_the_text(box: Callable[[str], Facts]) -> None:
    found = plan(box("bad-cable"), Config())
    text = report.text(found)
    for number in found.numbers:
        assert f"\n{number.key} " in text
    for ceiling in found.ceilings:
        assert f"\n  {ceiling.resource} " in text
    for advice in found.advice:
        for command in advice.commands:
            assert f"\n    {command}\n" in text


def test_the_first_lines_say_what_runs_out_and_what_next(box: Callable[[str], Facts]) -> None:
    first, second = report.verdict(plan(box("bonded-pair"), Config()))
    assert first.startswith("First to run out: the disk, at 60.7")
    assert second.startswith("Next: the link, at 235.4 MB/s")


def test_an_unknown_link_is_said_before_anything_is_made_of_the_rest() -> None:
    assert report.verdict(plan(Facts(), Config()))[0].startswith("The link's speed is unknown")


def test_without_ceilings_nothing_is_claimed() -> None:
    found = replace(plan(Facts(), Config()), bottleneck=None)
    assert report.verdict(found) == ["What runs out first is unknown."]


def test_explain_shows_the_sum_and_who_says_each_input(box: Callable[[str], Facts]) -> None:
    text = "\n".join(report.explain(plan(box("board-100m"), Config()), "limits.connections"))
    assert "4,096 − 64 − 512" in text
    assert "descriptors a process  4,096  (the machine)" in text
    assert "limits.send_rate       1 kB/s  (edgebox.toml)" in text


def test_explain_knows_what_was_meant(box: Callable[[str], Facts]) -> None:
    found = plan(box("wifi"), Config())
    with pytest.raises(KeyError, match=r"did you mean limits\.connections\?"):
        report.explain(found, "limit.conections")
    with pytest.raises(KeyError, match=r"there are nic\.speed"):
        report.explain(found, "zzzzzz")


def test_numbers_that_are_set_or_assumed_are_marked(box: Callable[[str], Facts]) -> None:
    asked = Config(limits=Limits(connections=12))
    found = plan(box("nothing-known"), asked)
    assert report.number_text(found.number("limits.connections")) == "12 (set)"
    assert report.number_text(found.number("files.watches")) == "2,048 (assumed)"
    assert report.number_text(found.number("nic.speed")) == "unknown"


def test_a_comparison_shows_what_moves_and_only_that(box: Callable[[str], Facts]) -> None:
    now = plan(box("container-512m"), Config())
    then = plan(box("bare-metal-1g"), Config())
    text = report.comparison(now, then, "another box")
    assert "With another box:" in text
    keys = [row[0] for row in report.differences(now, then)]
    assert "limits.connections" in keys
    assert "server.workers" not in keys
    assert all(now.value(key) != then.value(key) for key in keys)


def test_a_change_that_moves_nothing_says_so(box: Callable[[str], Facts]) -> None:
    now = plan(box("wifi"), Config())
    assert report.comparison(now, now, "disk=nvme").endswith("Nothing else would change.\n")


def test_a_box_that_lacks_nothing_gets_no_advice(box: Callable[[str], Facts]) -> None:
    found = replace(plan(box("wifi"), Config()), advice=())
    assert report.advice(found) == [
        "Nothing outside edgebox would help that can be seen from here."
    ]


def test_what_other_memory_would_bring_is_told_against_what_there_is(
    box: Callable[[str], Facts],
) -> None:
    found = plan(box("container-512m"), Config())
    here = int(found.value("files.working_set") or 0)
    points = ((here // 2, 0.61), (here, 0.8), (here * 2, 0.86))
    told = report.other_memory(replace(found, what_if=points))
    assert told == [
        "With 145 MiB of RAM, 80.0% of objects are there when they are wanted:",
        "  −72.5 MiB → −19.0 %",
        "  +145 MiB → +6.0 %",
    ]
    assert told[2] in report.text(replace(found, what_if=points))
    assert "With 145" not in report.text(found)
    assert report.other_memory(found)
