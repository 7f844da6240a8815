"""How long things took, in buckets that are as wide in proportion everywhere.

The bounds are the E6 series of preferred numbers (IEC 60063), 10 µs to 100 s: each is about
1.47 times the one before, so a percentile read from the buckets is off by a fifth at most,
and a person can read them. Whole numbers only, so that histograms of many processes add up
exactly. Knows no clock: whoever measures passes seconds.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import accumulate

_E6 = (10, 15, 22, 33, 47, 68)
# In seconds; what took longer than the last is in the bucket after it.
BOUNDS: tuple[float, ...] = (*(m * 10**e / 10**6 for e in range(7) for m in _E6), 100.0)
WORDS = len(BOUNDS) + 2  # numbers that say it all: the buckets, the overflow, the sum


class Histogram:
    """`counts[i]`: how many took at most BOUNDS[i] and more than the bound before.

    `nanoseconds`: all of them together.
    """

    __slots__ = ("counts", "nanoseconds")

    def __init__(self, words: Sequence[int] = ()) -> None:
        """Empty, or from what `words` gave."""
        self.counts = list(words[:-1]) or [0] * (WORDS - 1)
        self.nanoseconds = words[-1] if words else 0

    def record(self, seconds: float, times: int = 1) -> None:
        """`times` things took `seconds` each."""
        self.counts[bisect_left(BOUNDS, seconds)] += times
        self.nanoseconds += int(seconds * 1e9) * times

    @property
    def count(self) -> int:
        return sum(self.counts)

    @property
    def seconds(self) -> float:
        """The sum of all."""
        return self.nanoseconds / 1e9

    @property
    def words(self) -> list[int]:
        """WORDS whole numbers, which add up as histograms do."""
        return [*self.counts, self.nanoseconds]

    def clear(self) -> None:
        """Forget everything."""
        self.counts = [0] * (WORDS - 1)
        self.nanoseconds = 0

    def merge(self, other: Histogram) -> None:
        """Count what `other` has, too."""
        for index, count in enumerate(other.counts):
            self.counts[index] += count
        self.nanoseconds += other.nanoseconds

    def since(self, earlier: Histogram) -> Histogram:
        """What came after `earlier`, a former state of this one."""
        return Histogram([a - b for a, b in zip(self.words, earlier.words, strict=True)])

    def spread(self, times: int) -> Histogram:
        """`times` things that took as long, in proportion, as those of this sample.

        Nothing where the sample is empty.
        """
        sampled = self.count
        if not sampled or not times:
            return Histogram()
        counts = [count * times // sampled for count in self.counts]
        counts[self.counts.index(max(self.counts))] += times - sum(counts)
        return Histogram([*counts, self.nanoseconds * times // sampled])

    def percentile(self, percent: float) -> float:
        """Seconds that `percent` of 100 were done within; 0.0 where there is nothing.

        Between the bounds of a bucket it assumes an even spread in proportion.
        """
        below, rank = 0, self.count * percent / 100
        for index, upto in enumerate(accumulate(self.counts)):
            if upto >= rank and upto > below:
                upper = BOUNDS[min(index, len(BOUNDS) - 1)]
                lower = BOUNDS[index - 1] if index else upper / 1.5
                share = max(0.0, rank - below) / (upto - below)
                return lower * (upper / lower) ** share if lower < upper else upper
            below = upto
        return 0.0

    def statistics(self) -> dict[str, float]:
        """Count, mean and percentiles in seconds."""
        count = self.count
        named = {f"p{percent}": self.percentile(percent) for percent in (50, 90, 95, 99)}
        return {"count": count, "mean": self.seconds / count if count else 0.0} | named


def merged(histograms: Iterable[Histogram]) -> Histogram:
    """All of them as one."""
    whole = Histogram()
    for histogram in histograms:
        whole.merge(histogram)
    return whole
