"""A small run, made up: edgebox at 8.0, nginx at 10.0, the floor at 6.0 µs in the row "hot"."""

from __future__ import annotations

import pytest

from perf.report import Run
from perf.results import Sample, result
from perf.rows import ROWS


@pytest.fixture
def made_up_run() -> Run:
    hot = next(row for row in ROWS if row.key == "hot")
    idle = next(row for row in ROWS if row.key == "idle")
    fast = result(
        hot,
        {
            "edgebox": [
                Sample(9.0, requests=100, seconds=1.0, switches=0.01),
                Sample(8.0, requests=200, seconds=1.0, switches=0.02),
                Sample(1.0, fault="socket errors: read 3"),
                Sample(7.0, requests=300, seconds=1.0, switches=0.03),
            ],
            "nginx": [Sample(10.0)],
            "lighttpd": [Sample(None, fault="ended with 255 at start: no such key")],
            "floor": [Sample(6.0)],
        },
    )
    return Run(
        generated="2026-11-30 13:00 UTC",
        commit="1234567890",
        rounds=4,
        quick=False,
        cores="Server on core 0, load tool on core 1.",
        machine={"CPU": "Example", "cores": "2"},
        versions={"edgebox": "0.1.0", "nginx": "1.22", "lighttpd": "1.4", "floor": "gcc 12"},
        tools={"wrk": "4.1.0"},
        missing=("h2o: h2o is not installed",),
        configs={"nginx": "sendfile on;"},
        results=(fast, result(idle, {"edgebox": [Sample(1600.0)]})),
    )
