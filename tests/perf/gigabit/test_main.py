"""The command line says what is run, and only a full run replaces the results."""

from __future__ import annotations

from pathlib import Path

import pytest

from perf.gigabit.__main__ import CROWDS, HERE, main, make_root, parse
from perf.gigabit.servers import NAMES
from perf.gigabit.turn import PARTS, SIZE


def test_without_a_word_it_is_the_whole_test() -> None:
    options = parse([])
    assert options.crowds == CROWDS == (10, 100, 1000, 10_000)
    assert options.servers == NAMES
    assert options.parts == PARTS
    assert options.seconds == 15
    assert options.out == HERE


def test_the_length_of_a_phase_leaves_it_whole() -> None:
    assert parse(["--phase", "300"]).out == HERE
    assert parse(["--phase", "300"]).seconds == 300


@pytest.mark.parametrize(
    "words", [["--clients", "10"], ["--servers", "nginx"], ["--parts", "downloads"]]
)
def test_a_part_writes_nothing_unless_told_where(words: list[str]) -> None:
    assert parse(words).out is None
    assert parse([*words, "--out", "/tmp/x"]).out == Path("/tmp/x")


def test_servers_and_crowds_keep_their_order() -> None:
    options = parse(["--servers", "lighttpd,edgebox", "--clients", "100,10,100"])
    assert options.servers == ("edgebox", "lighttpd")
    assert options.crowds == (10, 100)


@pytest.mark.parametrize(
    "words",
    [
        ["--servers", "apache"],
        ["--parts", "all"],
        ["--clients", "many"],
        ["--clients", "0"],
        ["--phase", "1"],
    ],
)
def test_what_it_does_not_know_is_refused(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        parse(words)
    assert "error:" in capsys.readouterr().err


def test_without_root_it_says_so_and_ends(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert main(["--servers", "edgebox"]) == 1
    assert "no gigabit:" in capsys.readouterr().err


def test_the_large_file_is_made_of_holes(tmp_path: Path) -> None:
    root = make_root(tmp_path)
    told = (root / "big.bin").stat()
    assert told.st_size == SIZE
    assert told.st_blocks * 512 < 1_000_000
