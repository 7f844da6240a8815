"""Connections to one server that are kept for the next request.

The one used last is used first: it is the least likely to be closed by the server, and the
surplus of a burst grows old and goes. Before it is used again a connection is looked at: if
there is anything to read, and nothing was asked, it is dead or worse.
"""

from __future__ import annotations

from collections import deque

from edgebox.upstream.wire import Wire


class Pool:
    """Keeps at most `size` wires, none for longer than `idle` seconds. Times are `now`."""

    def __init__(self, size: int, idle: float) -> None:
        self._size = size
        self._idle = idle
        self._wires: deque[Wire] = deque()  # the longest unused first
        self.stale = 0  # found closed, or with octets that nobody had asked for

    def take_nowait(self, now: float) -> Wire | None:
        """A connection that can be used; None if there is none."""
        while self._wires:
            wire = self._wires.pop()
            if now - wire.idle_since >= self._idle:
                wire.close()
                self.clear()  # all others are older
                return None
            if wire.is_quiet():
                return wire
            self.stale += 1
            wire.close()
        return None

    def put(self, wire: Wire, now: float) -> None:
        """Keep a connection on which everything that was asked has been answered."""
        if not self._size:
            wire.close()
            return
        wire.idle_since = now
        self._wires.append(wire)
        if len(self._wires) > self._size:
            self._wires.popleft().close()

    def sweep(self, now: float) -> None:
        """Close what is too old or was closed by the server."""
        kept: deque[Wire] = deque()
        for wire in self._wires:
            if now - wire.idle_since >= self._idle:
                wire.close()
            elif wire.is_quiet():
                kept.append(wire)
            else:
                self.stale += 1
                wire.close()
        self._wires = kept

    def clear(self) -> None:
        """Close them all."""
        while self._wires:
            self._wires.pop().close()

    def statistics(self) -> dict[str, int]:
        return {"idle": len(self._wires), "stale": self.stale}
