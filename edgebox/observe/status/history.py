"""What the totals were, second by second: rates and recent percentiles come from differences.

Two minutes of a few counters, and a minute of histograms in steps of ten seconds, so that a
page has its curves and percentiles at the first look. Time comes in as `now`.
"""

from __future__ import annotations

from collections import deque

from edgebox.observe.histogram import Histogram, merged
from edgebox.observe.kinds import KINDS
from edgebox.observe.pages import Totals

SECONDS = 120
LONGEST_RATE = 10
STEP = 10
STEPS = 6
NAMES = (
    "requests", "express", "octets", "accepted", "4xx", "5xx", "hit", "miss", "stale", "file",
    "hit_octets", "miss_octets", "stale_octets", "file_octets",
    "upstream_requests", "upstream_failures",
)  # fmt: skip
_CURVES = ("requests", "octets")


class History:
    """Samples of totals, the latest last."""

    def __init__(self) -> None:
        self._samples: deque[tuple[float, dict[str, int]]] = deque(maxlen=LONGEST_RATE + 1)
        self._curves = {name: deque[float](maxlen=SECONDS) for name in _CURVES}
        self._histograms: deque[dict[str, Histogram]] = deque(maxlen=STEPS)
        self._latest: dict[str, Histogram] = {}
        self._until_step = 0

    def add(self, now: float, totals: Totals) -> None:
        """The totals at `now`, seconds of a clock that never jumps; once a second or so."""
        latest = {name: totals.numbers[name] for name in NAMES}
        if self._samples:
            then, before = self._samples[-1]
            for name, curve in self._curves.items():
                curve.append(round((latest[name] - before[name]) / max(now - then, 0.001), 1))
        self._samples.append((now, latest))
        self._latest = totals.histograms
        if self._until_step == 0:
            self._histograms.append(totals.histograms)
            self._until_step = STEP
        self._until_step -= 1

    def rates(self, seconds: int = 5) -> dict[str, float]:
        """Each of NAMES a second, over the last `seconds` (LONGEST_RATE at most).

        Zeros before there are two samples.
        """
        if len(self._samples) < 2:
            return dict.fromkeys(NAMES, 0.0)
        then, before = self._samples[max(0, len(self._samples) - 1 - seconds)]
        now, latest = self._samples[-1]
        elapsed = max(now - then, 0.001)
        return {name: (latest[name] - before[name]) / elapsed for name in NAMES}

    def curves(self) -> dict[str, list[float]]:
        """Requests and octets in each second of the last two minutes, the latest last."""
        return {name: list(curve) for name, curve in self._curves.items()}

    def latency(self) -> dict[str, dict[str, dict[str, float]]]:
        """Count, mean and percentiles of the last minute: by kind and by "first" and "total".

        "all" is every kind together.
        """
        if not self._latest:
            return {}
        earlier = self._histograms[0]
        told: dict[str, dict[str, dict[str, float]]] = {}
        for end in ("first", "total"):
            recent = {
                kind: self._latest[f"{kind}_{end}"].since(earlier[f"{kind}_{end}"])
                for kind in KINDS
            }
            recent["all"] = merged(recent.values())
            for kind, histogram in recent.items():
                told.setdefault(kind, {})[end] = histogram.statistics()
        return told

    def statistics(self) -> dict[str, int]:
        return {"samples": len(self._samples)}
