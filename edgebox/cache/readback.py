"""A growing file read again, for any number of readers: each block once while they want the same.

A thousand clients that follow one fetch are close together; were each to read for itself, the
hops to threads alone would take longer than the octets.
"""

from __future__ import annotations

import os
from typing import Protocol

import trio

from edgebox.files.entry import OpenFile
from edgebox.http.message import StreamBroken

BLOCK = 256 * 1024  # octets
KEPT = 8  # blocks at most, as many as there are readers
GIVE_UP = 30.0  # seconds for a disk to give back what it took


class Room(Protocol):
    """Where octets in RAM are counted. `cramped`: there should be no more of them."""

    @property
    def cramped(self) -> bool: ...
    def charge(self, octets: int) -> None: ...
    def refund(self, octets: int) -> None: ...


class ReadBack:
    """Holds the file for as long as somebody may read; what is held of it is charged to `room`."""

    def __init__(self, file: OpenFile, room: Room) -> None:
        self._file = file.acquire()
        self._room = room
        self._blocks: dict[int, bytes] = {}  # by number, the latest last
        self._reading: dict[int, trio.Event] = {}
        self._broken = ""

    async def get(self, position: int, end: int, readers: int) -> bytes:
        """What is there from `position` on; `end` octets were written so far.

        Raises StreamBroken where the disk does not give them back, to this reader and to all.
        """
        if readers <= 1:
            self._keep(0)
            return await self._read(position, min(end, position + BLOCK))
        number, offset = divmod(position, BLOCK)
        while len(block := self._blocks.get(number, b"")) <= offset:
            if (busy := self._reading.get(number)) is not None:
                await busy.wait()
            else:
                await self._extend(number, block, min(end, (number + 1) * BLOCK))
                self._keep(min(KEPT, readers))
        return block[offset:]

    async def _extend(self, number: int, block: bytes, stop: int) -> None:
        """Have all of a block up to `stop`, of which the beginning is here."""
        done = self._reading[number] = trio.Event()
        try:
            more = await self._read(number * BLOCK + len(block), stop)
            # What was here may have been let go of meanwhile.
            self._room.refund(len(self._blocks.pop(number, b"")))
            self._blocks[number] = block + more
            self._room.charge(len(block) + len(more))
        finally:
            del self._reading[number]
            done.set()

    async def _read(self, start: int, stop: int) -> bytes:
        if self._broken:
            raise StreamBroken(self._broken)
        octets = b""
        # Written a moment ago: in the page cache, but for a reader far behind.
        with trio.move_on_after(GIVE_UP) as waited:
            octets = await trio.to_thread.run_sync(
                os.pread, self._file.fileno(), stop - start, start, abandon_on_cancel=True
            )
        if not octets:
            told = "cannot be read in time" if waited.cancelled_caught else "is short"
            self._broken = f"the file of a fetch in progress {told}"
            raise StreamBroken(self._broken)
        return octets

    def _keep(self, count: int) -> None:
        """Let go of all but so many of the latest."""
        for number in list(self._blocks)[: len(self._blocks) - count]:
            self._room.refund(len(self._blocks.pop(number)))

    def close(self) -> None:
        """Nobody reads any more."""
        self._keep(0)
