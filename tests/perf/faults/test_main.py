"""The command line says what is run, and only a full run replaces the results."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

import pytest

from perf.faults import __main__ as command
from perf.faults.__main__ import HERE, RELOADS, UPGRADES, main, parse, run_parts, table_of_parts
from perf.faults.box import App, BoxFailed
from perf.faults.outcome import Outcome
from perf.faults.report import TITLES


def test_without_a_word_it_is_the_whole_test() -> None:
    options = parse([])
    assert (options.seconds, options.reloads, options.upgrades) == (120, RELOADS, UPGRADES)
    assert options.parts == tuple(TITLES) == tuple(table_of_parts(options))
    assert options.out == HERE


def test_for_how_long_processes_are_killed_leaves_it_whole() -> None:
    assert parse(["--seconds", "10"]).out == HERE


@pytest.mark.parametrize("words", [["--parts", "logs"], ["--reloads", "5"], ["--upgrades", "1"]])
def test_a_part_writes_nothing_unless_told_where(words: list[str]) -> None:
    assert parse(words).out is None
    assert parse([*words, "--out", "/tmp/x"]).out == Path("/tmp/x")


def test_parts_keep_their_order() -> None:
    assert parse(["--parts", "logs,disk"]).parts == ("disk", "logs")


@pytest.mark.parametrize("words", [["--parts", "fire"], ["--seconds", "0"], ["--reloads", "0"]])
def test_what_it_does_not_know_is_refused(words: list[str]) -> None:
    with pytest.raises(SystemExit):
        main(words)


def test_what_cannot_be_done_or_does_not_recover_is_told_and_the_rest_is_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "running_app", nullcontext)

    def good(app: App, scratch: Path) -> Outcome:
        assert scratch.is_dir()
        return Outcome(scratch.name, None, (), ())

    def lacking(app: App, scratch: Path) -> Outcome:
        raise OSError("gcc is not installed")

    def lasting(app: App, scratch: Path) -> Outcome:
        raise BoxFailed("the log did not come within 30 s")

    parts = {"disk": good, "clock": lacking, "logs": lasting, "reloads": good}
    disk, clock, logs, reloads = run_parts(tuple(parts), parts, tmp_path)
    assert disk == Outcome("disk", None, (), ())
    assert clock == f"{TITLES['clock']}: gcc is not installed"
    assert isinstance(logs, Outcome)
    assert not logs.promises[0].kept
    assert reloads == Outcome("reloads", None, (), ())
