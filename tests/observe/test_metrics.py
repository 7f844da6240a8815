from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client import Metric, openmetrics
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openly
from prometheus_client.parser import text_string_to_metric_families as parse_plainly

from edgebox.observe.histogram import BOUNDS
from edgebox.observe.metrics import FAMILIES, HISTOGRAMS, OPEN_METRICS, PLAIN, render
from edgebox.observe.pages import NUMBERS, Pages
from edgebox.observe.status.snapshot import Snapshot
from tests.observe.conftest import COUNTED, Look

DOCS = Path(__file__).parent.parent.parent / "docs" / "metrics.md"


def text(pages: Pages, snapshot: Snapshot, *, openly: bool = True) -> str:
    return render(snapshot, pages.totals().histograms, openly=openly).decode()


def samples(families: Iterator[Metric]) -> dict[str, float]:
    """Values by name and labels."""
    return {
        f"{s.name}{sorted(s.labels.items()) or ''}": s.value for f in families for s in f.samples
    }


def test_openmetrics_is_what_its_parser_says_it_is(pages: Pages, look: Look) -> None:
    families = {family.name: family for family in parse_openly(text(pages, look()))}
    assert families["edgebox_requests"].type == "counter"
    assert families["edgebox_sent_bytes"].unit == "bytes"
    assert families["edgebox_request_seconds"].type == "histogram"
    assert families["edgebox_build"].type == "info"
    assert all(family.documentation for family in families.values())
    assert OPEN_METRICS.decode() == openmetrics.exposition.CONTENT_TYPE_LATEST.replace(
        "1.0.1", "1.0.0"
    )


def test_both_forms_have_the_same_values(pages: Pages, look: Look) -> None:
    openly = samples(parse_openly(text(pages, look())))
    plainly = samples(parse_plainly(text(pages, look(), openly=False)))
    assert openly == plainly
    assert openly["edgebox_requests_total[('lane', 'express')]"] == 2 * COUNTED["express"]
    assert openly["edgebox_connections[('state', 'idle')]"] == 10
    assert openly["edgebox_workers"] == 2
    assert openly["edgebox_loop_lag_seconds"] == pytest.approx(0.008)
    assert openly["edgebox_uptime_seconds"] == 107
    assert openly["edgebox_plan_bytes_per_second"] == 117_600_000


def test_a_histogram_is_cumulative_and_whole(pages: Pages, look: Look) -> None:
    (family,) = (
        f for f in parse_openly(text(pages, look())) if f.name == "edgebox_request_seconds"
    )
    buckets = [s for s in family.samples if s.labels.get("result") == "hit"]
    counts = [s.value for s in buckets if s.name.endswith("_bucket")]
    assert len(counts) == len(BOUNDS) + 1
    assert counts == sorted(counts)
    assert counts[-1] == 200
    (total,) = (s.value for s in buckets if s.name.endswith("_sum"))
    assert total == pytest.approx(4.0)


def test_the_plan_is_left_out_where_the_speed_is_not_known(pages: Pages, look: Look) -> None:
    pages.board.publish({}, {}, b'{"plan":{"goodput":null}}')
    assert "edgebox_plan" not in text(pages, look())


def test_every_counter_is_told_of(pages: Pages) -> None:
    told = {number for family in FAMILIES for number in family.series.values()}
    assert set(NUMBERS) - {"requests"} <= told


def test_every_metric_is_in_the_documentation_and_no_other() -> None:
    names = {f"{f.name}{'_total' if f.type == 'counter' else ''}" for f in FAMILIES}
    names |= {*HISTOGRAMS, "edgebox_build_info"}
    assert set(re.findall(r"^\| `(edgebox_\w+)`", DOCS.read_text(), re.MULTILINE)) == names


@pytest.mark.slow
def test_prometheus_has_nothing_to_complain_of(pages: Pages, look: Look) -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("needs promtool: apt-get install prometheus")
    done = subprocess.run(
        [promtool, "check", "metrics"],
        input=text(pages, look(), openly=False), capture_output=True, text=True, timeout=30,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    assert PLAIN.startswith(b"text/plain; version=0.0.4")
