"""The disk store as the tiers see it: called in threads, with records of the shelf's kind.

Nothing raises and no client waits long: a disk that does not answer in time has nothing, and
what cannot be written is not there. It decides nothing; which purge came before which answer is
the store's to know, by the mark that is given as `born`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar
from zlib import crc32

import trio

from edgebox.cache.answer import Instant
from edgebox.cache.disk import purge as disk_purge
from edgebox.cache.disk.client import DiskStatistics, DiskStore
from edgebox.cache.disk.finder import Filed
from edgebox.cache.disk.format import Sheet
from edgebox.cache.disk.outcome import Outcome
from edgebox.cache.disk.purge import Kind, Mode
from edgebox.cache.disk.writing import Writing
from edgebox.cache.entry import StoredResponse
from edgebox.cache.purges import Purge, Scope
from edgebox.cache.shelf import Kept
from edgebox.cache.spool import Overflow

T = TypeVar("T")

READERS, WRITERS = 16, 4  # threads
PATIENCE = 2.0  # seconds for which a client waits for a disk that may have died
MOST_WAITING = 64  # answers that wait for a writer; more are not kept
LONGEST_NAME = 1900  # octets that the store can write down of what a purge names

_KINDS = {
    Scope.KEY: Kind.KEY,
    Scope.PREFIX: Kind.PREFIX,
    Scope.TAG: Kind.TAG,
    Scope.GROUP: Kind.GROUP,
    Scope.ALL: Kind.EVERYTHING,
}
# After these the disk has what it should have, or something later.
_SETTLED = (Outcome.STORED, Outcome.PURGED, Outcome.OLDER)


class DiskTier:
    """Stored answers on disk, if it can be used; `clock` tells the time in the store's terms."""

    def __init__(self, store: DiskStore, clock: Callable[[], Instant]) -> None:
        self._store = store
        self._clock = clock
        self._readers = trio.CapacityLimiter(READERS)
        self._writers = trio.CapacityLimiter(WRITERS)

    @property
    def enabled(self) -> bool:
        return self._store.enabled

    def mark(self) -> int:
        """To be taken before the upstream is asked, and given as `born` with what comes."""
        return self._store.mark()

    def touch(self, key: bytes) -> None:
        """It was used from RAM: on disk it is to stay."""
        self._store.touch(key)

    def find_nowait(self, key: bytes) -> list[Kept] | None:
        """All variants of `key`; None where the disk would have to be waited for."""
        found = self._store.find_nowait(key, self._clock())
        return None if found is None else [_keep(filed) for filed in found]

    async def find(self, key: bytes) -> list[Kept] | None:
        """All variants of `key`; None where the disk took too long to tell."""
        found = await self._wait(self._readers, self._store.find, key, self._clock())
        return None if found is None else [_keep(filed) for filed in found]

    async def open_overflow(self, size: int | None) -> Overflow | None:
        """A file for an answer of `size` octets, or of nobody knows how many."""
        writing = await self._wait(self._writers, self._store.begin, size)
        return writing if isinstance(writing, Writing) else None

    async def commit(
        self, overflow: Overflow, key: bytes, entry: StoredResponse, born: int
    ) -> bool:
        """Store what the file of `open_overflow` has; False where that could not be."""
        assert isinstance(overflow, Writing)

        def work() -> Outcome:
            return self._disown(overflow.commit(key, entry, born), key, entry)

        return await self._finish(work) is Outcome.STORED

    async def close(self, overflow: Overflow) -> None:
        await self._finish(overflow.close)

    async def keep(self, key: bytes, entry: StoredResponse, content: bytes, born: int) -> None:
        """Store a whole answer, or else see to it that none before it comes back."""
        crowded = self._writers.statistics().tasks_waiting >= MOST_WAITING

        def work() -> Outcome:
            kept = Outcome.BUSY if crowded else self._store.keep(key, entry, content, born)
            return self._disown(kept, key, entry)

        await self._finish(work)

    async def renew(
        self, key: bytes, old: Kept, entry: StoredResponse, born: int, keeps: bool
    ) -> None:
        """Give the octets of `old` another record. `keeps`: store them where they are not there."""

        def work() -> None:
            filed = self._find_file(key, old)
            if filed is not None:
                self._store.renew(filed, entry, born)
            elif keeps and old.content is not None:
                self._store.keep(key, entry, old.content, born)

        await self._wait(self._writers, work)

    async def remove(self, key: bytes, kept: Kept) -> None:
        def work() -> None:
            filed = self._find_file(key, kept)
            if filed is not None:
                self._store.remove(filed)

        await self._wait(self._writers, work)

    async def purge(self, purge: Purge, *, invalidates: bool) -> None:
        """From when it returns nothing is found as it was before.

        What operators purge is so even after a power cut. What a client's POST invalidates is
        not worth a wait for the disk each time.
        """
        now, named = self._clock(), _translate(purge, invalidates)
        with trio.CancelScope(shield=True):  # a client that leaves does not end it halfway
            await self._finish(lambda: self._store.purge(named, now, durable=not invalidates))

    def statistics(self) -> DiskStatistics:
        return self._store.statistics()

    def _disown(self, outcome: Outcome, key: bytes, entry: StoredResponse) -> Outcome:
        """Where an answer was not stored, the one that it replaces is not to come back."""
        if outcome not in _SETTLED:
            for filed in self._store.find(key, self._clock()):
                if filed.entry.variant == entry.variant and filed.entry.date <= entry.date:
                    self._store.remove(filed)
                filed.release()
        return outcome

    def _find_file(self, key: bytes, kept: Kept) -> Filed | None:
        """Where the octets of `kept` lie, as that variant."""
        if kept.filed is not None:
            return kept.filed
        content, right = kept.content or b"", None
        body = len(content), crc32(content)
        for filed in self._store.find(key, self._clock()):
            sheet = filed.seen.sheet
            alike = filed.entry.variant == kept.entry.variant
            if alike and isinstance(sheet, Sheet) and sheet.body == body:
                right = filed
            filed.release()
        return right

    async def _wait(
        self, limiter: trio.CapacityLimiter, work: Callable[..., T], *arguments: object
    ) -> T | None:
        """Do it in a thread, but go on without it where it takes too long."""
        with trio.move_on_after(PATIENCE):
            return await trio.to_thread.run_sync(
                work, *arguments, abandon_on_cancel=True, limiter=limiter
            )
        return None

    async def _finish(self, work: Callable[[], T]) -> T:
        """Do it in a thread, however long that takes."""
        return await trio.to_thread.run_sync(work, limiter=self._writers)


def _keep(filed: Filed) -> Kept:
    """The same as the shelf has it; a file that is needed is open for as long as that lives."""
    if filed.content is None:
        return Kept(filed.entry, filed.size, None, filed.file, filed.offset, filed=filed)
    filed.release()
    return Kept(filed.entry, filed.size, filed.content)


def _translate(purge: Purge, invalidates: bool) -> disk_purge.Purge:
    """The purge in the store's terms; what names too much to be written down purges more."""
    if invalidates:
        mode = Mode.VALIDATE
    else:
        mode = Mode.EXPIRE if purge.soft else Mode.REMOVE
    kind, value, origin = _KINDS[purge.scope], purge.value, b""
    if purge.scope is Scope.GROUP:
        origin, _, value = value.partition(b" ")
    if kind is Kind.PREFIX:
        value = value[:LONGEST_NAME]
    elif kind is not Kind.KEY and len(origin) + len(value) > LONGEST_NAME:
        kind, value, origin = Kind.EVERYTHING, b"", b""
    return disk_purge.Purge(kind=kind, value=value, mode=mode, origin=origin)
