"""What a part of the test found: counts of its load, figures, and what is promised of it. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from perf.faults.tally import Blow, Tally, explained, percentile


@dataclass(frozen=True)
class Load:
    """Requests of one load. `unexplained`: those lost that need not have been."""

    clients: int
    sent: int
    right: int
    named: dict[str, int]
    lost: int
    unexplained: int
    wrong: int
    refused: int
    median_ms: float
    longest_s: float
    mishaps: tuple[str, ...]  # the first few, for whoever looks for the cause


@dataclass(frozen=True)
class Figure:
    """Something that was measured."""

    what: str
    value: float
    unit: str = ""


@dataclass(frozen=True)
class Promise:
    """Something promised, and whether it was kept."""

    what: str
    found: str
    kept: bool


@dataclass(frozen=True)
class Outcome:
    """All of one part."""

    key: str
    load: Load | None
    promises: tuple[Promise, ...]
    figures: tuple[Figure, ...]


MISHAPS = 12


def load_of(
    tally: Tally, clients: int, blows: Sequence[Blow] = (), *, may_cross: bool = False
) -> Load:
    """The counts of `tally`, `blows` being what was killed meanwhile.

    `may_cross`: idle connections had to be closed, and requests on their way met that.
    """
    unexplained = [
        mishap
        for mishap in tally.lost
        if not explained(mishap, blows) and not (may_cross and mishap.crossed)
    ]
    told = [f"lost {m.path}: {m.why}" for m in unexplained]
    told += [f"wrong {m.path}: {m.why}" for m in tally.wrong]
    waits = [took for _, took in tally.answers]
    return Load(
        clients=clients,
        sent=tally.sent,
        right=tally.right,
        named={str(status): count for status, count in sorted(tally.named.items())},
        lost=len(tally.lost),
        unexplained=len(unexplained),
        wrong=len(tally.wrong),
        refused=tally.refused,
        median_ms=round(percentile(waits, 0.5) * 1000, 2),
        longest_s=round(max(waits, default=0.0), 2),
        mishaps=tuple(told[:MISHAPS]),
    )


def nothing_wrong(load: Load) -> Promise:
    return Promise("no answer is wrong", f"{load.wrong} of {load.sent:,}", not load.wrong)


def nothing_lost(load: Load) -> Promise:
    """But for what `load` has an explanation for."""
    refused = f", {load.refused} connections refused" if load.refused else ""
    return Promise(
        "no request is lost", f"{load.unexplained} of {load.sent:,}{refused}",
        not load.unexplained and not load.refused,
    )  # fmt: skip


def spread(what: str, seconds: Sequence[float]) -> list[Figure]:
    """Median and worst of some times."""
    if not seconds:
        return []
    median, worst = percentile(seconds, 0.5), max(seconds)
    return [Figure(f"{what}, median", median, "s"), Figure(f"{what}, worst", worst, "s")]
