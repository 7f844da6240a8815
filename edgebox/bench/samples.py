"""What a run measured: four numbers a request, and counts. No clock of its own.

Flat arrays of floats: a request costs 24 octets, so that a million fit anywhere.
"""

from __future__ import annotations

from array import array
from collections import Counter
from enum import Enum


class Failure(Enum):
    """Why a request has no answer that counts as one."""

    CONNECT = "connect"  # the connection was refused or broke before it stood
    RECEIVE = "receive"  # the connection ended before the answer was whole
    LENGTH = "length"  # whole, but of another length than the first
    TIMEOUT = "timeout"  # not whole within the time for one request
    MALFORMED = "malformed"  # not HTTP/1.1


class Samples:
    """Filled by the runner as answers come in.

    A request whose answer was whole has a place in the arrays, also if its length failed.
    Times are seconds: `connecting` (0 on a kept connection), `waiting` from the request's last
    octet to the answer's first, `total` for all of it; `begun` is when, since the run began.
    """

    def __init__(self) -> None:
        self.begun = array("d")
        self.connecting = array("f")
        self.waiting = array("f")
        self.total = array("f")
        self.failures: Counter[Failure] = Counter()
        self.statuses: Counter[int] = Counter()
        self.kept = 0  # answers after which the connection could be used again
        self.reconnected = 0  # kept connections that the server closed before the next request
        self.received = 0  # octets, heads included
        self.content = 0  # octets of bodies, without their chunks
        self.sent = 0
        self.length: int | None = None  # of the first answer's body
        self.server = ""  # the first answer's Server field
        self.seconds = 0.0  # that the run took
        self.interrupted = False

    @property
    def complete(self) -> int:
        return len(self.total)

    @property
    def failed(self) -> int:
        return sum(self.failures.values())

    @property
    def finished(self) -> int:
        """Requests that came to an end, good or bad."""
        return len(self.total) + self.failed - self.failures[Failure.LENGTH]

    def add(self, begun: float, connecting: float, waiting: float, total: float) -> None:
        """A whole answer."""
        self.begun.append(begun)
        self.connecting.append(connecting)
        self.waiting.append(waiting)
        self.total.append(total)
