"""The totals as OpenMetrics text, or in the older form that Prometheus calls 0.0.4.

One table says what each number is called, and what it means; docs/metrics.md is checked
against it. Nothing is labelled by URL or client: series must stay few. Pure.
https://github.com/prometheus/OpenMetrics, version 1.0.0.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import accumulate

from edgebox.observe.histogram import BOUNDS, Histogram
from edgebox.observe.kinds import KINDS
from edgebox.observe.status.snapshot import Snapshot

OPEN_METRICS = b"application/openmetrics-text; version=1.0.0; charset=utf-8"
PLAIN = b"text/plain; version=0.0.4; charset=utf-8"


@dataclass(frozen=True, slots=True)
class Family:
    """A metric: `series` are names of the pages' numbers, by the labels that they stand for."""

    name: str
    help: str
    series: dict[str, str]
    type: str = "counter"
    unit: str = ""
    scale: float = field(default=1, kw_only=True)


def _one(number: str) -> dict[str, str]:
    return {"": number}


def _by(label: str, numbers: dict[str, str]) -> dict[str, str]:
    return {f'{label}="{value}"': number for value, number in numbers.items()}


_RESULTS = {kind: kind for kind in KINDS}
FAMILIES = (
    Family(
        "edgebox_requests", "Requests answered, by the lane that answered.",
        _by("lane", {"express": "express", "task": "tasks_answered"}),
    ),
    Family(
        "edgebox_responses", "Answers by class of status.",
        _by("class", {f"{n}xx": f"{n}xx" for n in range(1, 6)}),
    ),
    Family(
        "edgebox_sent_bytes", "Octets sent to clients, heads included.", _one("octets"),
        unit="bytes",
    ),
    Family("edgebox_results", "Answers by where they came from.", _by("result", _RESULTS)),
    Family(
        "edgebox_result_bytes", "Octets sent, by where the answer came from.",
        _by("result", {kind: f"{kind}_octets" for kind in KINDS}), unit="bytes",
    ),
    Family("edgebox_connections_accepted", "Connections accepted.", _one("accepted")),
    Family("edgebox_connections_refused", "Connections that got 503 at the limit.", _one("busy")),
    Family(
        "edgebox_connections_shed", "Idle connections closed to make room.", _one("shed"),
    ),
    Family(
        "edgebox_descriptors_exhausted", "Times that accept found no descriptor left.",
        _one("starved"),
    ),
    Family(
        "edgebox_cache_collapsed", "Requests that waited for another's fetch.",
        _one("cache_collapsed"),
    ),
    Family("edgebox_cache_renewed", "Stored answers found still valid.", _one("cache_renewed")),
    Family("edgebox_cache_stored", "Answers fetched that may be stored.", _one("cache_stored")),
    Family("edgebox_cache_passed", "Answers that went to one client only.", _one("cache_passed")),
    Family(
        "edgebox_disk_lookups", "Look-ups in the disk cache.",
        _by("result", {"hit": "disk_hits", "miss": "disk_misses"}),
    ),
    Family("edgebox_disk_written", "Answers written to the disk cache.", _one("disk_written")),
    Family(
        "edgebox_ram_evicted", "Objects that made room for others in RAM.", _one("ram_evicted"),
    ),
    Family("edgebox_ram_refused", "Objects that RAM had no room for.", _one("ram_refused")),
    Family("edgebox_upstream_requests", "Requests upstreams answered.", _one("upstream_requests")),
    Family(
        "edgebox_upstream_failures", "Requests upstreams failed.", _one("upstream_failures"),
    ),
    Family(
        "edgebox_upstream_connections", "Connections to upstreams, new and used again.",
        _by("use", {"new": "upstream_connections", "again": "upstream_reused"}),
    ),
    Family(
        "edgebox_log_lines_dropped", "Log lines lost, since their file could not be written.",
        _one("log_lines_dropped"),
    ),
    Family(
        "edgebox_log_events", "Warnings and errors, those too that the log held back.",
        _by("level", {"warning": "warnings", "error": "errors"}),
    ),
    Family(
        "edgebox_connections", "Connections now, by what they do.",
        _by("state", {"idle": "idle", "busy": "tasks"}), "gauge",
    ),
    Family(
        "edgebox_connections_limit", "Connections that there may be.", _one("connections_limit"),
        "gauge",
    ),
    Family(
        "edgebox_ram_bytes", "Octets that edgebox holds in RAM on purpose.", _one("ram_held"),
        "gauge", "bytes",
    ),
    Family(
        "edgebox_ram_budget_bytes", "Octets of RAM that it may hold.", _one("ram_budget"),
        "gauge", "bytes",
    ),
    Family("edgebox_ram_objects", "Objects in RAM.", _one("ram_objects"), "gauge"),
    Family(
        "edgebox_disk_bytes", "Octets in the disk cache.", _one("disk_held"), "gauge", "bytes",
    ),
    Family(
        "edgebox_disk_limit_bytes", "Octets that the disk cache may take.", _one("disk_limit"),
        "gauge", "bytes",
    ),
    Family(
        "edgebox_upstream_open_connections", "Connections to upstreams now.",
        _by("state", {"idle": "upstream_idle", "busy": "upstream_active"}), "gauge",
    ),
    Family("edgebox_workers", "Worker processes alive.", _one("workers"), "gauge"),
    Family(
        "edgebox_loop_lag_seconds", "How late the slowest worker's loop was last second.",
        _one("lag_us"), "gauge", "seconds", scale=1e-6,
    ),
    Family(
        "edgebox_uptime_seconds", "Seconds since the box was started.", _one("uptime"), "gauge",
        "seconds",
    ),
    Family(
        "edgebox_plan_bytes_per_second", "Octets of payload that the link carries by the plan; "
        "left out where its speed is not known.", _one("goodput"), "gauge",
    ),
)  # fmt: skip

HISTOGRAMS = {
    "edgebox_first_byte_seconds": ("first", "From a request's head to the first octet of answer."),
    "edgebox_request_seconds": ("total", "From a request's head to the last octet of its answer."),
}


def render(snapshot: Snapshot, histograms: dict[str, Histogram], *, openly: bool) -> bytes:
    """The text; `openly`: OpenMetrics, else the older form."""
    numbers = _numbers(snapshot)
    lines: list[str] = []
    for family in FAMILIES:
        if any(numbers[number] is None for number in family.series.values()):
            continue
        lines += _head(family.name, family.type, family.help, family.unit, openly)
        suffix = "_total" if family.type == "counter" else ""
        for labels, number in family.series.items():
            value: float = numbers[number] or 0
            if family.scale != 1:
                value *= family.scale
            lines.append(f"{family.name}{suffix}{_braced(labels)} {value}")
    for name, (end, text) in HISTOGRAMS.items():
        lines += _head(name, "histogram", text, "seconds", openly)
        for kind in KINDS:
            lines += _buckets(name, f'result="{kind}"', histograms[f"{kind}_{end}"])
    build = ("edgebox_build", "info") if openly else ("edgebox_build_info", "gauge")
    lines += _head(*build, "The version that is running.", "", openly)
    lines.append(f'edgebox_build_info{{version="{snapshot.version}"}} 1')
    lines.append("# EOF")
    return "\n".join(lines).encode() + b"\n"


def _numbers(snapshot: Snapshot) -> dict[str, int | None]:
    """What the families' series are named after; None is not known."""
    numbers = snapshot.totals | snapshot.gauges
    plan = snapshot.board.get("plan")
    goodput = plan.get("goodput") if isinstance(plan, dict) else None
    return numbers | {
        "tasks_answered": numbers["requests"] - numbers["express"],
        "workers": len(snapshot.workers),
        "uptime": snapshot.uptime,
        "goodput": goodput if isinstance(goodput, int) else None,
    }


def _head(name: str, kind: str, text: str, unit: str, openly: bool) -> Iterator[str]:
    # The older form has a counter's suffix in its name, and no units.
    shown = f"{name}_total" if kind == "counter" and not openly else name
    yield f"# TYPE {shown} {kind}"
    if unit and openly:
        yield f"# UNIT {name} {unit}"
    yield f"# HELP {shown} {text}"


def _buckets(name: str, labels: str, histogram: Histogram) -> Iterator[str]:
    upto = list(accumulate(histogram.counts))
    for bound, count in zip(BOUNDS, upto, strict=False):
        yield f'{name}_bucket{{{labels},le="{bound}"}} {count}'
    yield f'{name}_bucket{{{labels},le="+Inf"}} {upto[-1]}'
    yield f"{name}_count{{{labels}}} {upto[-1]}"
    yield f"{name}_sum{{{labels}}} {histogram.seconds}"


def _braced(labels: str) -> str:
    return f"{{{labels}}}" if labels else ""
