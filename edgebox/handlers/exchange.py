"""One request as a handler gets it, with what it may do to the client before it answers."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Protocol

from msgspec import Struct, field

from edgebox.http.faults import Fault
from edgebox.http.headers import Fields
from edgebox.http.message import Request
from edgebox.observe.access_log import Asked


class BodyRefused(Exception):
    """A request's body cannot be read to its end. `fault` None: the client is gone."""

    def __init__(self, fault: Fault | None) -> None:
        super().__init__(fault.text if fault is not None else "the client is gone")
        self.fault = fault


class RequestBody(Protocol):
    """What comes behind a head. `length` is None for a chunked body, 0 for none."""

    finished: bool

    @property
    def length(self) -> int | None: ...

    def read(self) -> AsyncGenerator[bytes, None]:
        """Pieces of content as they arrive. Raises BodyRefused."""
        ...

    async def discard(self, limit: int) -> Fault | None:
        """Read it off, up to `limit` octets; None when the next request may follow."""
        ...


class Exchange(Struct, frozen=True):
    """`peer` is the client's address; `interim` sends a 1xx response ahead of the answer.

    Whoever asks an upstream notes in `asked` how that went.
    """

    request: Request
    body: RequestBody
    peer: bytes
    interim: Callable[[int, Fields], Awaitable[None]]
    asked: Asked = field(default_factory=Asked)
