"""The octets of one answer as they arrive, for any number of readers.

What comes is kept until the answer is whole, in RAM up to a limit and in a file beyond;
readers are woken by each arrival and nobody polls. Where there is no file, or the disk is
full, the spool keeps a window that moves on with its slowest reader, and the source waits for
that reader: memory stays bounded, and the answer is then not whole in the end.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Awaitable, Callable
from typing import Protocol
from weakref import WeakKeyDictionary

import trio
from msgspec import Struct

from edgebox.cache.readback import ReadBack, Room
from edgebox.files.entry import OpenFile
from edgebox.http.headers import Fields
from edgebox.http.message import StreamBroken

PATIENCE = 2.0  # seconds for a disk to take what comes in; then it goes on without a file
PIECE = 64 * 1024  # octets that a reader takes from RAM at a time
# Seconds for which one reader may hold up the others, who then wait for nobody else. Readers
# of a window get a piece of 64 KiB or so each time: below 13 kB/s they are cut off.
INDULGENCE = 5.0


class Overflow(Protocol):
    """A file that grows: what the disk tier hands out for an answer to be stored.

    The body begins at offset 0. What was written can be read as long as `file` is held,
    whatever becomes of the rest.
    """

    @property
    def file(self) -> OpenFile: ...

    def write(self, octets: bytes) -> bool:
        """Append; False where that cannot be. May wait for the disk."""
        ...

    def close(self) -> None:
        """Nothing more will be written, and it will not be stored unless it was."""
        ...


class Waiting(Protocol):
    """A number that others keep."""

    count: int


class SpoolRules(Struct, frozen=True):
    """`limit` octets stay in RAM; `overflow()` opens a file for more, if it can.

    `waiting`: those who have not begun to read, and may still want the first octet.
    """

    limit: int
    room: Room
    overflow: Callable[[], Awaitable[Overflow | None]]
    waiting: Waiting


class Spool:
    """One writer appends, readers iterate from wherever they wish."""

    def __init__(self, rules: SpoolRules) -> None:
        self._rules = rules
        self.overflow: Overflow | None = None
        self._back: ReadBack | None = None  # reads the file
        self._filed = 0  # octets that are in the file
        self._files = True  # the file takes more; False once it cannot, or need not
        self._latest = b""  # of what is in the file the end: most readers are there
        self._parts: list[bytes] = []
        self._starts: list[int] = []
        self._base = 0  # where what is in RAM begins
        self.grown = trio.Event()
        self.moved = trio.Event()
        # Weak: a reader that was dropped without being closed holds up nobody.
        self.positions: WeakKeyDictionary[SpoolReader, int] = WeakKeyDictionary()
        self.size = 0
        self.ended = False
        self.error: str | None = None
        self.trailers: Fields = ()

    def __del__(self) -> None:
        # The last reader may well be through long after the fetch.
        self._rules.room.refund(sum(map(len, self._parts)) + len(self._latest))
        if self._back is not None:
            self._back.close()

    @property
    def readable(self) -> bool:
        """Whether a reader can still begin with the first octet."""
        return self.error is None and self._base == self._filed

    @property
    def storable(self) -> bool:
        """Whether every octet so far is where it can be stored from: all in RAM, or in the file."""
        return self.readable and (self._filed == self.size or self.overflow is None)

    def octets(self) -> bytes | None:
        """All of it, where all of it is in RAM."""
        return b"".join(self._parts) if self.storable and self.overflow is None else None

    async def append(self, octets: bytes) -> None:
        """Take the next octets of the answer. Raises StreamBroken where nobody wants them."""
        if self._files and self.overflow is None and self._is_full(len(octets)):
            await self._spill()
        if self._files and self.overflow is not None:
            self._files = await _write(self.overflow, octets) or False
        if self._files and self.overflow is not None:
            self._filed += len(octets)
            self._base = self._filed
            self._hold(octets)
        else:
            self._hold(b"")
            if self._is_full(len(octets)):
                await self._make_room(len(octets))
            for start in range(0, len(octets), PIECE):
                self._parts.append(octets[start : start + PIECE])
                self._starts.append(self.size + start)
            self._rules.room.charge(len(octets))
        self.size += len(octets)
        self._wake()

    def stop_filing(self) -> None:
        """It will not be stored: no more of it need be in the file."""
        self._files = False

    def end(self, error: str | None = None) -> None:
        """There is no more; `error` says why that is too early."""
        if not self.ended:
            self.ended, self.error = True, error
            self._hold(b"")
            self._wake()

    def read(self, start: int = 0, stop: int | None = None) -> SpoolReader:
        """A reader of the octets from `start` up to `stop`; to be closed."""
        return SpoolReader(self, start, stop)

    async def get(self, position: int) -> bytes:
        """What is here from `position` on, and at hand."""
        if self._filed - len(self._latest) <= position < self._filed:
            return self._latest[position - self._filed :]
        if position < self._filed:
            assert self._back is not None
            return await self._back.get(position, self._filed, len(self.positions))
        if position < self._base:
            raise StreamBroken("came too late for an answer that is not kept")
        index = bisect_right(self._starts, position) - 1
        return self._parts[index][position - self._starts[index] :]

    def _hold(self, octets: bytes) -> None:
        """Have the end of the file at hand, so that who keeps up needs no thread to read it."""
        self._rules.room.refund(len(self._latest))
        self._latest = octets
        self._rules.room.charge(len(octets))

    def _is_full(self, coming: int) -> bool:
        held = self.size - self._base
        return held + coming > self._rules.limit or (held > 0 and self._rules.room.cramped)

    def _wake(self) -> None:
        self.grown.set()
        self.grown = trio.Event()

    async def _spill(self) -> None:
        """Move what is in RAM to a file, if there can be one."""
        overflow = await self._rules.overflow()
        taken = None if overflow is None else await _write(overflow, b"".join(self._parts))
        self._files = taken or False
        if overflow is not None and taken:
            self.overflow, self._back = overflow, ReadBack(overflow.file, self._rules.room)
            self._filed = self.size
            self._drop(len(self._parts))
        elif overflow is not None and taken is False:
            await trio.to_thread.run_sync(overflow.close, abandon_on_cancel=True)

    def _drop(self, count: int) -> None:
        """Let go of the first `count` parts."""
        octets = sum(map(len, self._parts[:count]))
        del self._parts[:count], self._starts[:count]
        self._base += octets
        self._rules.room.refund(octets)

    async def _make_room(self, coming: int) -> None:
        """Drop what every reader has had, and wait for the slowest where that is not enough."""
        started = trio.current_time()
        while self._parts and self._is_full(coming):
            if self._rules.waiting.count:  # they are about to run, and begin at the first octet
                await trio.lowlevel.checkpoint()
                continue
            if not self.positions:
                raise StreamBroken("nobody is left to read it")
            slowest = min(self.positions.values())
            passed = bisect_right(self._starts, slowest) - 1
            if slowest >= self.size:
                passed = len(self._parts)
            if passed > 0:
                self._drop(passed)
                continue
            self.moved = trio.Event()
            with trio.move_on_at(started + INDULGENCE) as waited:
                await self.moved.wait()
            if waited.cancelled_caught:
                self._leave_behind(slowest)
                started = trio.current_time()

    def _leave_behind(self, slowest: int) -> None:
        """Wait no longer for who holds up others; who is alone holds up nobody."""
        if max(self.positions.values()) >= self.size:
            for reader in [r for r, position in self.positions.items() if position == slowest]:
                del self.positions[reader]


async def _write(overflow: Overflow, octets: bytes) -> bool | None:
    """Append to the file; False where it cannot be.

    None where that takes too long: the thread that is at it has the file for itself from now
    on, and closes it with the last reference.
    """
    with trio.move_on_after(PATIENCE):
        return await trio.to_thread.run_sync(overflow.write, octets, abandon_on_cancel=True)
    return None


class SpoolReader:
    """An asynchronous iterator over a spool; each piece as soon as it is here."""

    __slots__ = ("__weakref__", "_position", "_spool", "_stop")

    def __init__(self, spool: Spool, start: int, stop: int | None) -> None:
        self._spool = spool
        self._position = start
        self._stop = stop
        spool.positions[self] = start

    def __aiter__(self) -> SpoolReader:
        return self

    async def __anext__(self) -> bytes:
        """Raises StreamBroken where the rest will never come."""
        spool = self._spool
        if self._position == self._stop:
            raise StopAsyncIteration
        while self._position >= spool.size:
            if spool.error is not None:
                raise StreamBroken(spool.error)
            if spool.ended:
                raise StopAsyncIteration
            await spool.grown.wait()
        octets = await spool.get(self._position)
        if self._stop is not None:
            octets = octets[: self._stop - self._position]
        self._position += len(octets)
        if self in spool.positions:
            spool.positions[self] = self._position
        spool.moved.set()
        return octets

    async def aclose(self) -> None:
        """Be waited for no longer."""
        self._spool.positions.pop(self, None)
        self._spool.moved.set()
