"""The suite's results as a page; the suite itself runs in tests/box."""

from __future__ import annotations

from pathlib import Path

import pytest

from perf.cachetests.suite import Case, Listing, Published, Suite, SuiteError, obtain
from perf.cachetests.table import render

LISTING = Listing(
    [
        Case("a", "required", "Freshness", False),
        Case("b", "optimal", "Freshness", False),
        Case("c", "required", "CDN", True),
        Case("d", "check", "Freshness", False),
        Case("e", "required", "Vary", False),
    ],
    [
        Published("Browser", "browser", "1", ["a", "b", "e"]),
        Published("Low", "rev-proxy", "2.0", ["a"]),
        Published("High", "cdn", "", ["a", "b", "d"]),
    ],
)


def test_the_page_counts_by_kind_and_by_group_and_gives_reasons() -> None:
    ours = {"a": True, "b": True, "c": True, "d": ["Assertion", "no"], "e": ["Setup", "x"]}
    page = render(LISTING, ours, {"e": "It is wrong."}, "suite 1")
    assert "Suite: suite 1." in page
    assert "Browser" not in page
    lines = page.splitlines()
    at = lines.index("| cache | required (2) | optimal (1) | CDN-Cache-Control (1) |")
    assert lines[at + 2 : at + 5] == [
        "| edgebox | 1 | 1 | 1 |",
        "| High | 1 | 1 | 0 |",
        "| Low 2.0 | 1 | 0 | 0 |",
    ]
    assert "| group | tests | edgebox | High | Low |" in lines
    assert "| Freshness | 2 | 2 | 2 | 1 |" in lines
    assert lines[-1] == "- `e` (required): It is wrong."


def test_both_layouts_of_the_suite_are_known(tmp_path: Path) -> None:
    assert Suite(tmp_path, "old")._engine == tmp_path
    (tmp_path / "test-engine").mkdir()
    assert Suite(tmp_path, "new")._engine == tmp_path / "test-engine"


def test_without_node_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SuiteError, match="apt-get install nodejs npm"):
        obtain(tmp_path)
