"""What is asked for most: a bounded count by URL that forgets the past little by little.

Each few seconds all counts shrink by the same factor, so that a steady rate settles at what
it makes in a minute. What is full loses its colder half: a URL among the first twenty of
thousands is not missed for that.
"""

from __future__ import annotations

from heapq import nlargest

from edgebox.http.message import Request

MOST = 2048  # URLs
LONGEST = 200  # octets of one that are kept
PERIOD = 10  # turns between two shrinkings
_KEEP = 0.5 ** (PERIOD / 60)  # a half is left after a minute
_TO_MINUTE = (1 - _KEEP) * 60 / PERIOD


def url_of(request: Request) -> bytes:
    """The name that a request's URL is counted under: host and path, without the query.

    Queries make of one page so many that none would be hot.
    """
    return request.host + request.target.raw_path


class Hottest:
    """Hits and octets by URL."""

    def __init__(self) -> None:
        self._counts: dict[bytes, list[float]] = {}
        self._turns = 0

    def note(self, url: bytes, hits: int, octets: int) -> None:
        """`hits` answers went out for `url`, `octets` in all."""
        url = url[:LONGEST]
        count = self._counts.get(url)
        if count is None:
            count = self._counts[url] = [0.0, 0.0]
            if len(self._counts) > MOST:
                self._prune()
        count[0] += hits
        count[1] += octets

    def turn(self) -> None:
        """A second has gone by."""
        self._turns += 1
        if self._turns % PERIOD == 0:
            kept = self._counts.items()
            self._counts = {u: [h * _KEEP, o * _KEEP] for u, (h, o) in kept if h > 0.1}

    def most(self, count: int) -> list[tuple[str, int, int]]:
        """The `count` hottest: URL, hits and octets, of about the last minute."""
        best = nlargest(count, self._counts.items(), key=lambda item: item[1][0])
        return [
            (url.decode("latin-1"), round(hits * _TO_MINUTE), round(octets * _TO_MINUTE))
            for url, (hits, octets) in best
        ]

    def statistics(self) -> dict[str, int]:
        return {"urls": len(self._counts)}

    def _prune(self) -> None:
        best = nlargest(MOST // 2, self._counts.items(), key=lambda item: item[1][0])
        self._counts = dict(best)
