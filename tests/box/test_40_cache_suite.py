"""The public suite http-cache-tests: every required and optimal test passes, but for waivers.

Runs the copy on npm, or the checkout that EDGEBOX_CACHE_TESTS names, against `edgebox serve
--upstream` before the suite's own origin.
"""

from __future__ import annotations

import os
import tomllib
from pathlib import Path

import pytest

from perf.cachetests.suite import CHECKOUT, PACKAGE, Suite, SuiteError, obtain
from tests.box.conftest import Start

WAIVERS = Path(__file__).parent / "cache_suite" / "waivers.toml"


def waivers_of(table: str) -> dict[str, str]:
    return tomllib.loads(WAIVERS.read_text())[table]  # type: ignore[no-any-return]


@pytest.fixture(scope="session")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Suite:
    try:
        return obtain(tmp_path_factory.mktemp("cachetests"))
    except SuiteError as problem:
        if os.environ.get("EDGEBOX_NO_SKIP") or os.environ.get(CHECKOUT):
            raise
        pytest.skip(str(problem))


@pytest.mark.parametrize("table", ["waivers", "npm"])
def test_waivers_are_sorted_and_have_reasons(table: str) -> None:
    waivers = waivers_of(table)
    assert list(waivers) == sorted(waivers)
    assert all(reason.endswith(".") for reason in waivers.values())


@pytest.mark.slow
def test_every_required_and_optimal_test_passes(suite: Suite, start: Start, tmp_path: Path) -> None:
    waivers = waivers_of("waivers") | (waivers_of("npm") if suite.version == PACKAGE else {})
    with suite.origin() as origin:
        box = start("--upstream", origin, cwd=tmp_path)
        results = suite.run(box.url.rstrip("/"))
    asserted = {c.id for c in suite.list().tests if c.kind in ("required", "optimal")}
    assert len(asserted) > 200
    failed = {i: results.get(i) for i in asserted if results.get(i) is not True}
    assert {i: why for i, why in failed.items() if i not in waivers} == {}
    needless = [i for i in waivers if i in asserted and i not in failed]
    assert needless == [], "these pass: waive them no longer"
