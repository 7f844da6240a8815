"""What the upstream said, and when: the material that decisions are made of.

Two clocks are read together. The wall clock is what HTTP dates are compared with, and may
jump; the steady clock (CLOCK_BOOTTIME or CLOCK_MONOTONIC) measures how long things lay
here, and never does.
"""

from __future__ import annotations

from typing import NamedTuple

from msgspec import Struct

from edgebox.http.dates import parse_date
from edgebox.http.headers import Headers


class Instant(NamedTuple):
    """One moment on both clocks, in seconds: since 1970, and since no matter when."""

    wall: float
    steady: float


class Answer(Struct, frozen=True):
    """The head of a final response, when its request was sent and when the head was here."""

    status: int
    headers: Headers
    sent: Instant
    received: Instant

    def date(self) -> int:
        """Its Date; where that is missing or no date, the time of receipt (RFC 9110 §6.6.1)."""
        date = self.date_in(b"date")
        return int(self.received.wall) if date is None else date

    def date_in(self, name: bytes) -> int | None:
        """The date in the first line of a field; None if it is absent or no date."""
        lines = self.headers.all(name)
        return parse_date(lines[0], int(self.received.wall)) if lines else None
