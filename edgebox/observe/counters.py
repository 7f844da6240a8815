"""What a worker has done since it started, as plain numbers.

The express lane counts one thing: how often it sent each answer that it remembers. All else
is summed up from these tallies once a second, when the answers are forgotten anyway.
"""

from __future__ import annotations

from dataclasses import dataclass

from edgebox.observe.histogram import Histogram
from edgebox.observe.hottest import Hottest
from edgebox.observe.kinds import KINDS


@dataclass(slots=True, eq=False)
class Tally:
    """One rendered answer of `octets`, head included, and how often it was sent."""

    kind: str
    url: bytes
    status: int
    octets: int
    count: int = 0


class Counters:
    """Counted by the request path, read by whoever tells. Nothing here decides."""

    __slots__ = (
        "_tallies", "accepted", "batches", "busy", "by_class", "express", "first", "hottest",
        "kinds", "octets", "requests", "shed", "starved", "total",
    )  # fmt: skip

    def __init__(self) -> None:
        self.accepted = 0  # connections
        self.busy = 0  # connections refused at the limit
        self.shed = 0  # idle connections closed to make room
        self.starved = 0  # times that accept found no descriptor
        self.requests = 0  # answered in tasks
        self.express = 0  # answered in the express lane
        self.octets = 0  # sent, heads included
        self.by_class = [0] * 6  # index 2: answers with a 2xx status
        self.kinds = {kind: [0, 0] for kind in KINDS}  # answers and octets
        self.hottest = Hottest()
        # Seconds from a request's head to the first octet of its answer, and to the last.
        self.first = {kind: Histogram() for kind in KINDS}
        self.total = {kind: Histogram() for kind in KINDS}
        self.batches = Histogram()  # of the lane, a sample: each request with its batch's time
        self._tallies: list[Tally] = []

    def answered(self, status: int, octets: int) -> None:
        """One answer went out from a task."""
        self.requests += 1
        self.octets += octets
        self.by_class[status // 100] += 1

    def served(self, kind: str, octets: int, first: float, total: float) -> None:
        """It was an answer of that kind; the times are as of `first` and `total`."""
        if kind:
            count = self.kinds[kind]
            count[0] += 1
            count[1] += octets
            self.first[kind].record(first)
            self.total[kind].record(total)

    def open_tally(self, tally: Tally) -> Tally:
        """`tally` counts from now on, until the epoch turns."""
        self._tallies.append(tally)
        return tally

    def handed_on(self, tally: Tally) -> None:
        """The lane sent a part of this answer: a task sends the rest, and will be `answered`."""
        if tally.kind:
            count = self.kinds[tally.kind]
            count[0] += 1
            count[1] += tally.octets
        self.hottest.note(tally.url, 1, tally.octets)

    def fold(self) -> None:
        """Sum up what the lane has sent since the last time."""
        lane = dict.fromkeys(KINDS, 0)
        for tally in self._tallies:
            count = tally.count
            if not count:
                continue
            tally.count = 0
            octets = count * tally.octets
            self.express += count
            self.octets += octets
            self.by_class[tally.status // 100] += count
            self.hottest.note(tally.url, count, octets)
            if tally.kind:
                lane[tally.kind] += count
                self.kinds[tally.kind][0] += count
                self.kinds[tally.kind][1] += octets
        for kind, count in lane.items():
            # In one piece: the first octet left with the last.
            times = self.batches.spread(count)
            self.first[kind].merge(times)
            self.total[kind].merge(times)

    def turn(self) -> None:
        """The epoch has turned: no answer of before will be sent again."""
        self.fold()
        self._tallies.clear()
        self.batches.clear()
        self.hottest.turn()

    def statistics(self) -> dict[str, int]:
        self.fold()
        names = ("accepted", "busy", "shed", "starved", "requests", "express", "octets")
        named = {name: getattr(self, name) for name in names}
        return named | {f"{n}xx": count for n, count in enumerate(self.by_class) if n}
