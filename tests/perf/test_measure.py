"""A row with real servers: all stand at once, each is asked part after part, and logs are whole."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from perf.bench import BY_NAME, make_root
from perf.measure import PARTS, Bench, measure_in_turns
from perf.rows import ROWS, Row
from tests.box.conftest import need

pytestmark = pytest.mark.slow

REQUESTS = 400


@pytest.fixture
def row() -> Row:
    connect = next(row for row in ROWS if row.key == "connect")
    return replace(connect, load=replace(connect.load, connections=8, requests=REQUESTS))


@pytest.fixture
def bench() -> Iterator[Bench]:
    """Where servers that change their user can read, too."""
    with tempfile.TemporaryDirectory(prefix="edgebox-measure-") as name:
        place = Path(name)
        place.chmod(0o755)
        (place / "scratch").mkdir()
        yield Bench(make_root(place), None, 1000, place / "scratch", place / "scratch")


def test_each_gets_the_whole_load(row: Row, bench: Bench) -> None:
    need("ab", "apache2-utils")
    nginx = need("nginx", "nginx-light")
    peers = [(BY_NAME["edgebox"], sys.executable), (BY_NAME["nginx"], nginx)]
    samples = measure_in_turns(row, peers, bench)
    assert list(samples) == ["edgebox", "nginx"]
    for sample in samples.values():
        assert sample.fault == ""
        assert sample.value is not None
        assert sample.value > 0
        assert sample.requests == REQUESTS // PARTS * PARTS
        assert sample.details["log_lines"] >= REQUESTS
    assert not list(bench.scratch.iterdir())


def test_who_does_not_start_is_told_and_spoils_nobody_else(row: Row, bench: Bench) -> None:
    need("ab", "apache2-utils")
    peers = [(BY_NAME["nginx"], "/bin/false"), (BY_NAME["edgebox"], sys.executable)]
    samples = measure_in_turns(row, peers, bench)
    assert samples["nginx"].value is None
    assert "ended with 1 at start" in samples["nginx"].fault
    assert samples["edgebox"].fault == ""
