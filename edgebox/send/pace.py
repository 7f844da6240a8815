"""The slowest a client may read: a minimum rate, counted in windows.

One deadline for a whole answer would cut off honest slow readers of large files; one
that restarts with each octet lets a client hold a connection for ever at an octet a
minute. So progress counts only once a window's worth has gone out.
"""

from __future__ import annotations


class Pace:
    """Deadline of a transfer that must move `rate` octets a second, window by window.

    `window` is in seconds, and is also the grace before the rate counts. Rate 0: any
    progress will do. Times are `trio.current_time()`.
    """

    __slots__ = ("_due", "_moved", "deadline", "window")

    def __init__(self, rate: int, window: float, now: float) -> None:
        self.window = window
        self._due = max(1, int(rate * window))
        self._moved = 0
        self.deadline = now + window

    def progress(self, octets: int, now: float) -> None:
        """`octets` more have moved."""
        self._moved += octets
        if self._moved >= self._due:
            self._moved = 0
            self.deadline = now + self.window
