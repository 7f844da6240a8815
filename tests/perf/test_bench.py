"""The command line chooses rows and peers; only a full run replaces the published results."""

from __future__ import annotations

from pathlib import Path

import pytest

from perf import bench
from perf.caches import CACHES, NAMES
from perf.report import Run
from perf.rows import PAGE, PATHS, ROWS, SMALL


def test_by_default_all_peers_and_all_rows_but_the_optional_ones() -> None:
    options = bench.parse([])
    assert options.peers == NAMES
    assert options.rows == tuple(row for row in ROWS if row.default)
    assert (options.rounds, options.out) == (3, bench.HERE)


def test_servers_that_no_row_is_for_are_left_out() -> None:
    cached = bench.parse(["--rows", "cached"])
    assert set(cached.peers) == {peer.name for peer in CACHES}
    assert bench.parse(["--rows", "hot", "--peers", "varnish,nginx"]).peers == ("nginx",)


def test_rows_that_need_a_compiler_are_left_out_without_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(bench, "find", lambda tool: None if tool == "gcc" else f"/bin/{tool}")
    options, tools, missing = bench.without_missing_tools(bench.parse(["--rows", "hot,cached"]))
    assert [row.key for row in options.rows] == ["hot"]
    assert "floor" not in tools
    assert "cached: gcc is not installed" in missing


def test_both_configurations_of_a_server_are_shown() -> None:
    shown = bench.examples("nginx", 20_000)
    assert "root ROOT;" in shown
    assert "proxy_cache_path MEMORY/cache" in shown
    assert "varnishd" in bench.examples("varnish", 20_000)


@pytest.mark.parametrize(
    "part", [["--rows", "hot"], ["--peers", "nginx"], ["--quick"], ["--rounds", "1"]]
)
def test_a_part_of_the_run_does_not_replace_the_published_results(part: list[str]) -> None:
    assert bench.parse(part).out is None
    assert bench.parse([*part, "--out", "elsewhere"]).out == Path("elsewhere")


def test_rows_come_in_the_order_asked_for_and_quick_ones_are_small() -> None:
    options = bench.parse(["--rows", "idle,connect", "--quick"])
    assert [row.key for row in options.rows] == ["idle", "connect"]
    assert max(row.load.requests for row in options.rows) <= 5_000
    assert max(row.load.connections for row in options.rows) <= 200
    assert options.rounds == 1


@pytest.mark.parametrize("arguments", [["--rows", "hto"], ["--peers", "apache"]])
def test_an_unknown_name_is_refused(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        bench.parse(arguments)
    assert f"unknown: {arguments[1]}" in capsys.readouterr().err


def test_the_docroot_has_what_the_loads_ask_for(tmp_path: Path) -> None:
    root = bench.make_root(tmp_path)
    assert (root / "small.html").stat().st_size == SMALL
    assert (root / "page.html").stat().st_size == PAGE
    assert len(list((root / "paths").iterdir())) == PATHS
    for row in ROWS:
        assert (root / row.load.target[1:]).stat().st_size == row.load.size


def test_the_three_files_are_written_where_asked(tmp_path: Path, made_up_run: Run) -> None:
    bench.write(made_up_run, tmp_path / "out")
    names = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert names == ["RESULTS.md", "results.json", "results.svg"]


def test_a_partial_run_prints_its_tables(
    made_up_run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    bench.write(made_up_run, None)
    printed = capsys.readouterr()
    assert "| ≤ 0.80 × nginx | 0.80 | reached |" in printed.out
    assert "nothing written" in printed.err
