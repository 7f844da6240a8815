"""A connection while one exchange has it, and what its server hears of how that went."""

from __future__ import annotations

from typing import Protocol

from edgebox.upstream.errors import UpstreamError
from edgebox.upstream.wire import Wire


class Lessor(Protocol):
    """Whoever lends connections to one server."""

    @property
    def name(self) -> str: ...
    def take_back(self, wire: Wire, reusable: bool) -> None: ...
    def answered(self) -> None: ...
    def failed(self, error: UpstreamError) -> None: ...


class Lease:
    """`wire` of `server`, until `end`. `reused`: it has carried an exchange before."""

    __slots__ = ("_over", "reused", "server", "wire")

    def __init__(self, server: Lessor, wire: Wire, reused: bool) -> None:
        self.server = server
        self.wire = wire
        self.reused = reused
        self._over = False

    def end(self, reusable: bool) -> None:
        """Give the connection back, to be used again or to be closed; harmless once it was."""
        if not self._over:
            self._over = True
            self.server.take_back(self.wire, reusable)
