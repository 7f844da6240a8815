"""A connection while one exchange has it, and what its server hears of how that went."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from edgebox.upstream.errors import UpstreamError
from edgebox.upstream.wire import Wire


class Lessor(Protocol):
    """Whoever lends connections to one server."""

    @property
    def name(self) -> str: ...
    def take_back(self, wire: Wire, reusable: bool) -> None: ...
    def answered(self, seconds: float) -> None: ...
    def failed(self, error: UpstreamError) -> None: ...


class Lease:
    """`wire` of `server` from `began` until `end`. `reused`: it has carried an exchange before.

    `when_over` is called once, at the end.
    """

    __slots__ = ("began", "over", "reused", "server", "when_over", "wire")

    def __init__(self, server: Lessor, wire: Wire, began: float, reused: bool) -> None:
        self.server = server
        self.wire = wire
        self.reused = reused
        self.began = began
        self.over = False
        self.when_over: Callable[[], None] | None = None

    def answered(self, now: float) -> None:
        """The head of an answer has come."""
        self.server.answered(now - self.began)

    def end(self, reusable: bool) -> None:
        """Give the connection back, to be used again or to be closed; harmless once it was."""
        if not self.over:
            self.over = True
            self.server.take_back(self.wire, reusable)
            if self.when_over is not None:
                self.when_over()
