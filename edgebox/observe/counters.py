"""What a worker has done since it started, as plain numbers."""

from __future__ import annotations


class Counters:
    """Counted by the request path, read by whoever tells. Nothing here decides."""

    __slots__ = (
        "accepted", "busy", "by_class", "express", "octets", "requests", "shed", "starved",
    )  # fmt: skip

    def __init__(self) -> None:
        self.accepted = 0  # connections
        self.busy = 0  # connections refused at the limit
        self.shed = 0  # idle connections closed to make room
        self.starved = 0  # times that accept found no descriptor
        self.requests = 0
        self.express = 0  # of these, answered in the express lane
        self.octets = 0  # sent, heads included
        self.by_class = [0] * 6  # index 2: answers with a 2xx status

    def answered(self, status: int, octets: int) -> None:
        """One answer went out from a task."""
        self.requests += 1
        self.octets += octets
        self.by_class[status // 100] += 1

    def statistics(self) -> dict[str, int]:
        named = {name: getattr(self, name) for name in self.__slots__ if name != "by_class"}
        return named | {f"{n}xx": count for n, count in enumerate(self.by_class) if n}
