"""What the samples amount to: counts, rates, spreads and percentiles. Pure.

Times are milliseconds here, as in ab's report; JSON has exactly these records.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from msgspec import Struct

from edgebox.bench.load import Load
from edgebox.bench.samples import Failure, Samples

PERCENTS = (50, 66, 75, 80, 90, 95, 98, 99, 100)  # ab's


class Spread(Struct, frozen=True):
    """Milliseconds."""

    min: float
    mean: float
    sd: float
    median: float
    max: float


class Times(Struct, frozen=True):
    """Parts of a request: to a connection, from there to the end, to the first octet, all."""

    connect: Spread
    processing: Spread
    waiting: Spread
    total: Spread


class Figures(Struct, frozen=True):
    """The whole of a run. Lengths and sizes are octets; `*_rate` are octets a second."""

    url: str
    server: str
    document_length: int
    concurrency: int
    seconds: float
    complete: int
    failed: int
    failures: dict[str, int]  # by kind, every kind
    non_2xx: int
    statuses: dict[str, int]
    kept_alive: int
    reconnected: int
    received: int
    content: int
    sent: int
    requests_per_second: float
    receive_rate: float
    send_rate: float
    times_ms: Times | None  # None: no request had an answer
    percentiles_ms: dict[str, float]
    interrupted: bool


def make_figures(load: Load, samples: Samples) -> Figures:
    """Everything the report says."""
    seconds = samples.seconds or 1e-9
    ordered = sorted(samples.total)
    target = load.target
    return Figures(
        url=f"http://{target.authority}{target.path}",
        server=samples.server,
        document_length=samples.length or 0,
        concurrency=load.concurrency,
        seconds=samples.seconds,
        complete=samples.complete,
        failed=samples.failed,
        failures={why.value: samples.failures[why] for why in Failure},
        non_2xx=sum(n for status, n in samples.statuses.items() if not 200 <= status < 300),
        statuses={str(status): n for status, n in sorted(samples.statuses.items())},
        kept_alive=samples.kept,
        reconnected=samples.reconnected,
        received=samples.received,
        content=samples.content,
        sent=samples.sent,
        requests_per_second=samples.complete / seconds,
        receive_rate=samples.received / seconds,
        send_rate=samples.sent / seconds,
        times_ms=_times(samples, ordered) if ordered else None,
        percentiles_ms={str(p): 1000 * percentile(ordered, p) for p in PERCENTS if ordered},
        interrupted=samples.interrupted,
    )


def percentile(ordered: Sequence[float], percent: float) -> float:
    """The least of the values that so many percent do not exceed (nearest rank)."""
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)]


def _times(samples: Samples, ordered: list[float]) -> Times:
    processing = [t - c for t, c in zip(samples.total, samples.connecting, strict=True)]
    return Times(
        connect=spread(sorted(samples.connecting)),
        processing=spread(sorted(processing)),
        waiting=spread(sorted(samples.waiting)),
        total=spread(ordered),
    )


def spread(ordered: Sequence[float]) -> Spread:
    """Seconds in ascending order, at least one, summed up in milliseconds."""
    count = len(ordered)
    mean = math.fsum(ordered) / count
    variance = math.fsum((value - mean) ** 2 for value in ordered) / max(1, count - 1)
    middle = (ordered[(count - 1) // 2] + ordered[count // 2]) / 2
    return Spread(
        *(1000 * value for value in (ordered[0], mean, math.sqrt(variance), middle, ordered[-1]))
    )
