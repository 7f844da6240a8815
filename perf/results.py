"""Samples become figures, figures become verdicts. Pure.

A figure is the median of the clean rounds; a round that saw an error counts for nothing and
is told. A verdict compares the medians that the reader sees, so that it can be checked by
dividing two numbers of the table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

from perf.rows import Row
from perf.targets import BEST, FLOOR, NOTHING, SUBJECT, Target, targets_of


@dataclass(frozen=True)
class Sample:
    """One round of one row with one peer; `value` in the row's unit, None where it failed."""

    value: float | None
    fault: str = ""
    requests: int = 0
    seconds: float = 0.0
    p99: float | None = None  # seconds, as the load tool saw it
    switches: float | None = None  # context switches of the server per request
    details: Mapping[str, float] = field(default_factory=dict)


def joined(parts: Sequence[Sample]) -> Sample:
    """The parts of one load as one sample: each weighs as much as it has requests."""
    requests = sum(part.requests for part in parts)
    faults = dict.fromkeys(part.fault for part in parts if part.fault)
    names = dict.fromkeys(name for part in parts for name in part.details)

    def mean(values: Sequence[float | None]) -> float | None:
        known = [(v, part.requests) for v, part in zip(values, parts, strict=True) if v is not None]
        weight = sum(count for _, count in known)
        return sum(v * count for v, count in known) / weight if weight else None

    return Sample(
        mean([part.value for part in parts]),
        "; ".join(faults),
        requests,
        sum(part.seconds for part in parts),
        max((part.p99 for part in parts if part.p99 is not None), default=None),
        mean([part.switches for part in parts]),
        {name: sum(part.details.get(name, 0) for part in parts) for name in names},
    )


@dataclass(frozen=True)
class Figure:
    """A peer in a row: median and span of the clean rounds, and what spoilt the others."""

    peer: str
    samples: tuple[Sample, ...]

    @property
    def clean(self) -> tuple[float, ...]:
        return tuple(s.value for s in self.samples if s.value is not None and not s.fault)

    @property
    def median(self) -> float | None:
        return median(self.clean) if self.clean else None

    @property
    def faults(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(s.fault for s in self.samples if s.fault))

    @property
    def switches(self) -> float | None:
        found = [s.switches for s in self.samples if s.switches is not None and not s.fault]
        return median(found) if found else None

    @property
    def rate(self) -> float | None:
        """Requests a second of wall clock: told for interest, never compared."""
        found = [s.requests / s.seconds for s in self.samples if s.seconds and not s.fault]
        return median(found) if found else None


@dataclass(frozen=True)
class Verdict:
    """A target held against the run; `measured` None: it could not be measured, and why."""

    target: Target
    measured: float | None
    against: str = ""  # whose median it was divided by, once "the best peer" has a name
    why_not: str = ""

    @property
    def reached(self) -> bool | None:
        return None if self.measured is None else self.measured <= self.target.at_most


@dataclass(frozen=True)
class Result:
    """One row of the run."""

    row: Row
    figures: Mapping[str, Figure]
    verdicts: tuple[Verdict, ...]


def result(row: Row, samples: Mapping[str, Sequence[Sample]]) -> Result:
    """What the rounds of one row come to."""
    figures = {peer: Figure(peer, tuple(taken)) for peer, taken in samples.items()}
    return Result(row, figures, tuple(judge(target, figures) for target in targets_of(row.key)))


def judge(target: Target, figures: Mapping[str, Figure]) -> Verdict:
    """One target against the medians of its row."""
    own = median_of(figures, SUBJECT)
    if own is None:
        return Verdict(target, None, why_not=f"{SUBJECT} gave no figure")
    if target.against == NOTHING:
        return Verdict(target, own)
    against = best_peer(figures) if target.against == BEST else target.against
    other = None if against is None else median_of(figures, against)
    if against is None or not other:
        return Verdict(target, None, why_not=f"{against or 'no peer'} gave no figure")
    return Verdict(target, own / other, against)


def median_of(figures: Mapping[str, Figure], peer: str) -> float | None:
    """The peer's median in a row, None where it has none."""
    return figures[peer].median if peer in figures else None


def best_peer(figures: Mapping[str, Figure]) -> str | None:
    """The server with the smallest median, edgebox and the floor apart."""
    known = {
        name: value
        for name, figure in figures.items()
        if name not in (SUBJECT, FLOOR) and (value := figure.median) is not None
    }
    return min(known, key=lambda name: known[name]) if known else None
