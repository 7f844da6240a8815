"""CACHE.md tells what was measured, where and when, and nothing of what was not."""

from __future__ import annotations

import json
from pathlib import Path

from perf import cache_page, disk_million, herd
from perf.herd import Herd, Round

MILLION = {
    "generated": "2026-11-30 12:00 UTC",
    "commit": "abc",
    "answers": 1_000_000,
    "machine": {"cores": "2"},
    "findings": [["hit", "40.0 µs"]],
}


def test_each_file_has_its_part(tmp_path: Path) -> None:
    (tmp_path / cache_page.MILLION).write_text(json.dumps(MILLION))
    cache_page.write(tmp_path)
    page = (tmp_path / cache_page.PAGE).read_text()
    assert "1,000,000 answers" in page
    assert "| hit | 40.0 µs |" in page
    assert "commit abc" in page
    assert "crowd" not in page


def test_a_herd_is_told_as_it_was_printed(tmp_path: Path) -> None:
    herds = [Herd("edgebox", "small", (Round(2.0, 0.1, 2.2, 0.5, 1, 0.3),))]
    options = herd.parse(["--peers", "edgebox"])
    (tmp_path / cache_page.HERD).write_text(herd.as_json(herds, options, {"cores": "2"}))
    cache_page.write(tmp_path)
    page = (tmp_path / cache_page.PAGE).read_text()
    assert herd.markdown(herds).strip() in page
    assert "1,000 clients" in page
    assert "- cores: 2" in page


def test_only_a_full_run_replaces_what_is_published(tmp_path: Path) -> None:
    assert disk_million.parse([]).out == disk_million.HERE / disk_million.PUBLISHED
    assert disk_million.parse(["--quick"]).out is None
    assert disk_million.parse(["--count", "10"]).out is None
    assert disk_million.parse(["--quick", "--out", "x"]).out == Path("x")
    assert disk_million.parse(["--keep", str(tmp_path)]).directory == tmp_path
