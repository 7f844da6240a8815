"""Where an answer's body ends, as octets come in: one small reader for each way. Pure."""

from __future__ import annotations

from typing import Protocol

from edgebox.http.headers import Fields
from edgebox.upstream.dechunk import Dechunker
from edgebox.upstream.errors import Malformed
from edgebox.upstream.reply import Ending, Reply


class Content(Protocol):
    """Follows one body.

    `done`: its last octet was seen; `surplus`: and more was fed than that. `trailers`: once
    done, its trailer fields. `until_close`: it is never done, the connection's end is its own.
    """

    done: bool
    surplus: bool
    trailers: Fields

    @property
    def until_close(self) -> bool: ...

    def feed(self, data: bytes) -> bytes | Malformed:
        """The content in the next octets; b"" where they hold none."""
        ...


class Measured:
    """`length` octets."""

    __slots__ = ("_left", "done", "surplus", "trailers")

    until_close = False

    def __init__(self, length: int) -> None:
        self._left = length
        self.done = not length
        self.surplus = False
        self.trailers: Fields = ()

    def feed(self, data: bytes) -> bytes:
        if len(data) > self._left:
            self.surplus = True
            data = data[: self._left]
        self._left -= len(data)
        self.done = not self._left
        return data


class Endless:
    """Whatever comes until the connection ends."""

    __slots__ = ("done", "surplus", "trailers")

    until_close = True

    def __init__(self) -> None:
        self.done = False
        self.surplus = False
        self.trailers: Fields = ()

    def feed(self, data: bytes) -> bytes:
        return data


def content_of(reply: Reply) -> Content:
    """The reader for the body of `reply`."""
    match reply.ending:
        case Ending.LENGTH:
            return Measured(reply.length or 0)
        case Ending.CHUNKED:
            return Dechunker()
        case Ending.CLOSE:
            return Endless()
        case _:
            return Measured(0)
