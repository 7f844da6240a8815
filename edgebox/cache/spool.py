"""The octets of one answer as they arrive, for any number of readers.

What comes is kept until the answer is whole, in RAM up to a limit and in a file beyond;
readers are woken by each arrival and nobody polls. Without a file the spool keeps a window
that moves on with its slowest reader, and the source waits for that reader: memory stays
bounded, and the answer is then not whole in the end.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Callable
from typing import Protocol

import trio

from edgebox.http.headers import Fields
from edgebox.http.message import StreamBroken

READ = 256 * 1024  # octets that a reader takes from the file at a time


class Overflow(Protocol):
    """A file that grows: what the disk tier hands out for an answer to be stored.

    Octets written are read back at `offset` beyond what precedes the body in the file.
    """

    offset: int

    def fileno(self) -> int: ...
    def write(self, octets: bytes) -> bool:
        """Append; False where there is no room left. May wait for the disk."""
        ...


class Spool:
    """One writer appends, readers iterate from wherever they wish."""

    def __init__(self, limit: int, overflow: Callable[[], Overflow | None]) -> None:
        """`limit` octets stay in RAM; `overflow()` gives a file for more, if it can."""
        self._limit = limit
        self._open_overflow = overflow
        self._parts: list[bytes] = []
        self._starts: list[int] = []
        self._base = 0  # octets that are gone from RAM
        self.grown = trio.Event()
        self.moved = trio.Event()
        self.positions: dict[SpoolReader, int] = {}
        self.file: Overflow | None = None
        self.size = 0
        self.ended = False
        self.error: str | None = None
        self.trailers: Fields = ()

    @property
    def keeps(self) -> bool:
        """Every octet so far is still here, so the answer can be stored."""
        return self.error is None and (self.file is not None or self._base == 0)

    def octets(self) -> bytes | None:
        """All of it, where all of it is in RAM."""
        return b"".join(self._parts) if self._base == 0 and self.file is None else None

    async def append(self, octets: bytes) -> None:
        """Take the next octets of the answer."""
        if self.file is None and self.size + len(octets) > self._limit and self._base == 0:
            await self._overflow()
        if self.file is not None:
            if not await trio.to_thread.run_sync(self.file.write, octets):
                self.end("no room left on disk")
                raise StreamBroken("no room left on disk")
        else:
            await self._make_room(len(octets))
            self._parts.append(octets)
            self._starts.append(self.size)
        self.size += len(octets)
        self._wake()

    def end(self, error: str | None = None) -> None:
        """There is no more; `error` says why that is too early."""
        if not self.ended:
            self.ended, self.error = True, error
            self._wake()

    def read(self, start: int = 0) -> SpoolReader:
        """A reader of the octets from `start` on; to be closed."""
        return SpoolReader(self, start)

    def _wake(self) -> None:
        self.grown.set()
        self.grown = trio.Event()

    async def get(self, position: int) -> bytes:
        if self.file is not None:
            count = min(READ, self.size - position)
            # Written a moment ago: in the page cache, but for a reader far behind.
            octets = await trio.to_thread.run_sync(
                os.pread, self.file.fileno(), count, self.file.offset + position
            )
            if not octets:
                raise StreamBroken("the file of a fetch in progress is short")
            return octets
        if position < self._base:
            raise StreamBroken("came too late for an answer that is not kept")
        index = bisect_right(self._starts, position) - 1
        return self._parts[index][position - self._starts[index] :]

    async def _overflow(self) -> None:
        """Move what is in RAM to a file, if there can be one."""
        file = self._open_overflow()
        if file is None or not await trio.to_thread.run_sync(file.write, b"".join(self._parts)):
            return
        self.file = file
        self._parts, self._starts = [], []

    async def _make_room(self, coming: int) -> None:
        """Drop what every reader has had, and wait for the slowest if that is not enough."""
        while self.size + coming - self._base > self._limit:
            if not self.positions:
                self.end("nobody is left to read it")
                raise StreamBroken("nobody is left to read it")
            slowest = min(self.positions.values())
            while self._parts and self._starts[0] + len(self._parts[0]) <= slowest:
                self._base += len(self._parts.pop(0))
                self._starts.pop(0)
            if self.size + coming - self._base <= self._limit or not self._parts:
                return
            self.moved = trio.Event()
            await self.moved.wait()


class SpoolReader:
    """An asynchronous iterator over a spool; each piece as soon as it is here."""

    __slots__ = ("_position", "_spool")

    def __init__(self, spool: Spool, start: int) -> None:
        self._spool = spool
        self._position = start
        spool.positions[self] = start

    def __aiter__(self) -> SpoolReader:
        return self

    async def __anext__(self) -> bytes:
        """Raises StreamBroken where the rest will never come."""
        spool = self._spool
        while self._position >= spool.size:
            if spool.error is not None:
                raise StreamBroken(spool.error)
            if spool.ended:
                raise StopAsyncIteration
            await spool.grown.wait()
        octets = await spool.get(self._position)
        self._position += len(octets)
        spool.positions[self] = self._position
        spool.moved.set()
        return octets

    async def aclose(self) -> None:
        """Be waited for no longer."""
        self._spool.positions.pop(self, None)
        self._spool.moved.set()
