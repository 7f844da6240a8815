"""How long servers may keep us waiting, for many waits at once.

All waits of a kind are equally long, so the first to begin is the first to end, and one task
can see to them all: a dict in order of beginning is the whole queue. A cancel scope for each
wait cost 8 µs of an exchange that takes some 60, this costs 0.4 (2026-11-30).
"""

from __future__ import annotations

import trio

from edgebox.upstream.wire import Wire


class Patience:
    """Waits on wires, each of which may take `seconds`; then `Wire.expire` ends it."""

    def __init__(self, seconds: float) -> None:
        self.seconds = max(seconds, 0.001)
        self._deadlines: dict[Wire, float] = {}  # the first to end first

    def begin(self, wire: Wire, now: float | None = None) -> None:
        """Start a wait on `wire`, or start it anew; `now` for who has just read the clock."""
        self._deadlines.pop(wire, None)
        self._deadlines[wire] = (trio.current_time() if now is None else now) + self.seconds

    def end(self, wire: Wire) -> None:
        """It is over; harmless if none was begun."""
        self._deadlines.pop(wire, None)

    async def run(self) -> None:
        """Expire what is due until cancelled."""
        while True:
            now = trio.current_time()
            while self._deadlines and (first := next(iter(self._deadlines.items())))[1] <= now:
                del self._deadlines[first[0]]
                first[0].expire()
            # What begins later ends no sooner than a whole term from now.
            await trio.sleep_until(next(iter(self._deadlines.values()), now + self.seconds))

    def statistics(self) -> dict[str, int]:
        return {"waiting": len(self._deadlines)}
