"""A request and a response, free of any wire.

A response is status, fields and body. It carries no Date, Server, Connection,
Content-Length or Transfer-Encoding: those belong to one rendering of it (`send/framing`),
so the same response can go out as HTTP/1.0, HTTP/1.1 or, later, HTTP/2.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Protocol

from msgspec import Struct

from edgebox.http.headers import Fields, Headers
from edgebox.http.target import Target


class Request(Struct, frozen=True):
    """A request head that was checked and taken apart.

    `method` is as sent (b"GET"); `minor` is 0 or 1 for HTTP/1.minor; `host` is the
    effective authority's host, lower case, without port (RFC 9112 §3.3), b"" for an
    HTTP/1.0 request that names none.
    """

    method: bytes
    target: Target
    host: bytes
    headers: Headers
    minor: int = 1


class FileHandle(Protocol):
    """An open regular file that is counted: whoever got it must `release()` it once."""

    def fileno(self) -> int: ...
    def release(self) -> None: ...


class FileSlice(Struct, frozen=True):
    """`length` octets of an open file from `offset`."""

    file: FileHandle
    offset: int
    length: int


class StreamBroken(Exception):
    """A stream ended before its message did. The message says who failed, for the log."""


class Stream(Struct, frozen=True):
    """Octets that arrive over time; `length` is None where only the end tells.

    `chunks` raises StreamBroken where the rest will never come. `close` ends whatever
    feeds it, and is awaited once, whether or not it was read to its end. `trailers` gives
    the trailer fields, once the chunks are through.
    """

    chunks: AsyncIterator[bytes]
    length: int | None = None
    close: Callable[[], Awaitable[None]] | None = None
    trailers: Callable[[], Fields] | None = None


class Duplex(Protocol):
    """Octets both ways: a connection that has switched protocols."""

    async def receive(self) -> bytes: ...
    async def send(self, data: bytes) -> None: ...
    def send_eof(self) -> None: ...
    async def aclose(self) -> None: ...


class Switched(Struct, frozen=True):
    """Behind a 101: what the client sends goes to `duplex`, and the other way round."""

    duplex: Duplex
    length: int = 0


# What a body can be: octets in RAM, pieces (multipart/byteranges), a file, or a stream.
Piece = bytes | FileSlice
Body = bytes | FileSlice | tuple[Piece, ...] | Stream | Switched


def body_length(body: Body) -> int | None:
    """Octets in `body`; None for a stream of unknown length."""
    match body:
        case bytes():
            return len(body)
        case tuple():
            return sum(len(p) if isinstance(p, bytes) else p.length for p in body)
        case _:
            return body.length


class Response(Struct, frozen=True):
    """What a handler answers.

    `remember`: the answer depends on nothing but the request head, the configuration
    and stored content, so the express lane may repeat it until the epoch turns.
    `close`: the connection must end after this answer.
    `forwarded`: somebody else made it; Date and Server are theirs and among `fields`.
    `label`: what the access log and Cache-Status tell of where it came from.
    """

    status: int
    fields: Fields = ()
    body: Body = b""
    remember: bool = False
    close: bool = False
    forwarded: bool = False
    label: str = "-"

    async def aclose(self) -> None:
        """Give back what the body holds, open files and streams."""
        self.release()
        if isinstance(self.body, Stream) and self.body.close is not None:
            await self.body.close()
        elif isinstance(self.body, Switched):
            await self.body.duplex.aclose()

    def release(self) -> None:
        """Give back the files that the body holds."""
        pieces = self.body if isinstance(self.body, tuple) else (self.body,)
        for piece in pieces:
            if isinstance(piece, FileSlice):
                piece.file.release()
