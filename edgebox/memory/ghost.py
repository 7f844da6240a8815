"""What more RAM would bring, and less would cost: names of evicted objects, without the objects.

A ghost is a name and how many bytes had been evicted when it went. If it is asked for again,
the bytes evicted since then are the RAM that would have kept it (Mattson's stack distance,
1970, as far as a counter gives it). An object that is here has, likewise, the bytes that were
used since its own last use: with so much RAM it would still be a hit.

Both counters see a byte twice that was used twice, so distances err on the large side: more
RAM brings at least what is said, and less costs at most that. Nothing here holds an object,
and nothing is asked when the lane repeats an answer.
"""

from __future__ import annotations

from collections.abc import Hashable

# Names at most; each takes some 120 bytes, two integers in a dict, so that all of them take
# less than 2 MiB. Where more are evicted, only each second, fourth, … name is noted.
GHOSTS = 16_384

BARS = 64 * 8  # of the histograms: eight for each doubling of a distance
FORGET = 100_000  # uses after which what was counted before weighs half

# Of the RAM that there is: what is told of.
SHARES = (0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 2.0, 4.0)


class Ghosts:
    """Counts for one working set. Sizes and distances are bytes."""

    def __init__(self, most: int = GHOSTS) -> None:
        self.used = 0  # all that was used so far; an object keeps it as of its last use
        self._most = most
        self._mask = 0  # names whose hash has a bit of these are not noted
        self._ghosts: dict[int, int] = {}  # hash of a name → what had been evicted before it
        self._evicted = 0
        self._hits = [0] * BARS  # uses of what was here, by distance
        self._returns = [0] * BARS  # likewise, of what had been evicted
        self._misses = 0
        self._counted = 0

    def hit(self, used: int, held: int) -> None:
        """An object that is here was used, for the first time since `used` was as given.

        `held`: what is here in all, for nothing can lie deeper.
        """
        distance = self.used - used
        self._hits[_bar(distance if distance < held else held)] += 1
        self._count()

    def missed(self, name: Hashable) -> None:
        """An object was wanted that is not here, and is now put here."""
        before = self._ghosts.pop(hash(name), None)
        self._misses += 1
        if before is not None:
            self._returns[_bar(self._evicted - before)] += self._mask + 1
        self._count()

    def evicted(self, name: Hashable, size: int, capacity: int) -> None:
        """An object had to make room."""
        before, mark = self._evicted, hash(name)
        self._evicted += size
        if mark & self._mask:
            return
        ghosts = self._ghosts
        ghosts.pop(mark, None)
        ghosts[mark] = before
        oldest = next(iter(ghosts))
        if self._evicted - ghosts[oldest] > SHARES[-1] * capacity:
            del ghosts[oldest]  # more RAM than we tell of
        elif len(ghosts) > self._most:
            self._mask = 2 * self._mask + 1
            self._ghosts = {m: at for m, at in ghosts.items() if not m & self._mask}

    def what_if(self, capacity: int, held: int) -> list[tuple[int, float]]:
        """(bytes of RAM, hit ratio with so much), the least RAM first; [] if nothing was used.

        Hits are uses in a second of their own: what the lane repeats within one is not asked.
        """
        here = sum(self._hits)
        asked = here + self._misses
        if not asked:
            return []
        points = []
        for share in SHARES:
            size = int(capacity * share)
            if size >= held:
                hits = here + _up_to(self._returns, size - capacity)
            else:
                hits = _up_to(self._hits, size)
            points.append((size, hits / asked))
        return points

    def statistics(self) -> dict[str, int]:
        return {
            "ghosts": len(self._ghosts),
            "hits": sum(self._hits),
            "misses": self._misses,
            "one_in": self._mask + 1,
            "returns": sum(self._returns),
        }

    def _count(self) -> None:
        self._counted += 1
        if self._counted >= FORGET:
            self._counted = 0
            self._misses //= 2
            self._hits = [count // 2 for count in self._hits]
            self._returns = [count // 2 for count in self._returns]


def _bar(distance: int) -> int:
    """The number of the bar for a distance: its highest bit, and the three after that."""
    bits = distance.bit_length()
    return bits << 3 | distance >> bits - 4 & 7 if bits > 3 else distance


def _up_to(bars: list[int], size: int) -> int:
    """What was counted in bars that hold no distance above `size`."""
    return sum(bars[: _bar(size + 1)]) if size >= 0 else 0
