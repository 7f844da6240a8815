"""The epoch: one second of wall clock, after which nothing is repeated unexamined.

HTTP counts in whole seconds, so an answer built in this second is right until the
next one begins: its Date, its Age, its freshness. A clock task turns the epoch; on
each turn the express lane forgets its answers, logs are flushed, idle connections
age. An invalidation (a file changed, a purge) makes the lane forget at once.
Nothing on the hot path asks the time: it reads these attributes.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

import trio

from edgebox.http.dates import format_date

# Seconds between two turns: a clock that has stopped just before a second's end must not spin us.
LEAST = 0.02
SLACK = 0.25  # seconds that a moment may be off; a clock being slewed drifts 1 in 2,000


class Moment(NamedTuple):
    """One second, on every clock that somebody goes by.

    `wall`: seconds since 1970, what HTTP dates are about; it may jump. `monotonic`:
    time.monotonic(), what files are watched by. `steady`: the same, but counting on while
    the machine is suspended, since what is stored grows old meanwhile.
    """

    wall: int
    monotonic: float
    steady: float


class Epoch:
    """The current second and who wants to know when it ends.

    `stamp` are the Date and Server lines of every answer of this second.
    """

    __slots__ = ("_on_forget", "_on_turn", "_server", "moment", "number", "stamp")

    def __init__(self, server: bytes = b"") -> None:
        self._server = b"Server: %s\r\n" % server if server else b""
        self._on_turn: list[Callable[[], None]] = []
        self._on_forget: list[Callable[[], None]] = []
        self.number = 0
        self.moment = Moment(0, 0.0, 0.0)
        self._read_clocks()

    @property
    def now(self) -> int:
        """Wall time in whole seconds."""
        return self.moment.wall

    def on_turn(self, call: Callable[[], None]) -> None:
        """Have `call` run once a second, after the clock has moved."""
        self._on_turn.append(call)

    def on_forget(self, call: Callable[[], None]) -> None:
        """Have `call` run whenever remembered answers are no longer to be repeated."""
        self._on_forget.append(call)

    def forget(self) -> None:
        """Something that answers were built from has changed."""
        for call in self._on_forget:
            call()

    def turn(self) -> None:
        """Begin the next epoch."""
        self.number += 1
        self._read_clocks()
        self.forget()
        for call in self._on_turn:
            call()

    async def run(self) -> None:
        """Turn at each whole second of the wall clock, until cancelled."""
        while True:
            # A clock set back must not hold the epoch longer than a second: sleep is monotonic.
            await trio.sleep(max(LEAST, 1 - time.time() % 1))
            self.turn()

    def _read_clocks(self) -> None:
        wall = time.time()
        # As of when this second began, however late we are to notice; in 1,024ths, so that
        # differences are exact.
        steady = round((time.clock_gettime(time.CLOCK_BOOTTIME) - wall % 1) * 1024) / 1024
        if self.number:
            steady = in_step(self.moment.steady, steady)
        self.moment = Moment(int(wall), time.monotonic(), steady)
        self.stamp = b"Date: %s\r\n%s" % (format_date(self.moment.wall), self._server)


def in_step(before: float, now: float) -> float:
    """`now`, moved to whole seconds after `before` where it nearly is that already.

    Ages are differences of such moments, cut to whole seconds: what lay here for three
    turns must not be called two seconds old for the sake of a millisecond. A clock that
    was set leaves the step, and the next moments follow it.
    """
    elapsed = now - before
    whole = round(elapsed)
    return before + whole if abs(elapsed - whole) < SLACK else now
