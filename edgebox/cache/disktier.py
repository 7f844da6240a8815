"""The disk store as the tiers see it: called in threads, with records of the shelf's kind.

Nothing raises and nobody waits long: a disk that does not answer in time has nothing, what
cannot be written is not there, and what is purged is gone though the disk learns of it later.
It decides nothing; which purge came before which answer is the store's to know, by the mark
that is given as `born`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar
from weakref import WeakSet
from zlib import crc32

import trio
from msgspec.structs import replace

from edgebox.cache.answer import Instant
from edgebox.cache.disk import purge as disk_purge
from edgebox.cache.disk.client import DiskStore
from edgebox.cache.disk.finder import Filed
from edgebox.cache.disk.format import Sheet
from edgebox.cache.disk.outcome import Outcome
from edgebox.cache.disk.purge import Kind, Mode
from edgebox.cache.disk.writing import Writing
from edgebox.cache.entry import StoredResponse
from edgebox.cache.owed import Debts
from edgebox.cache.purges import Purge, Scope
from edgebox.cache.shelf import Kept
from edgebox.cache.spool import Overflow
from edgebox.files.entry import OpenFile

T = TypeVar("T")

READERS, WRITERS, PURGERS = 16, 4, 8  # threads
PATIENCE = 2.0  # seconds for which a client waits for a disk that may have died
IMPATIENCE = 0.05  # likewise, where somebody has waited in vain and no thread came back since
GIVE_UP = 30.0  # seconds for which a task waits that holds octets, and no client
MOST_WAITING = 64  # answers that wait for a writer; more are not kept
MOST_OPEN = 1024  # files that answers are sent from or written to
LONGEST_NAME = 1900  # octets that the store can write down of what a purge names
_ANYBODY = (b"",)

_KINDS = {
    Scope.KEY: Kind.KEY,
    Scope.PREFIX: Kind.PREFIX,
    Scope.TAG: Kind.TAG,
    Scope.GROUP: Kind.GROUP,
    Scope.ALL: Kind.EVERYTHING,
    Scope.BAN: Kind.BAN,
}
# After these the disk has what it should have, or something later.
_SETTLED = (Outcome.STORED, Outcome.PURGED, Outcome.OLDER)


@dataclass(frozen=True, slots=True)
class DiskTierStatistics:
    """Files open for answers, and how many may be; purges that the disk has yet to carry out;
    `hangs`: the last who waited for it did so in vain."""

    open_files: int
    most_open: int
    owed: int
    hangs: bool


class DiskTier:
    """Stored answers on disk, if it can be used; `clock` tells the time in the store's terms.

    `most_open`: files that are open for answers at once. Beyond that, only what is small enough
    to be read at once is found, and nothing outgrows RAM. `origin`: who answers for a key. What
    is there of others, by another configuration or another box, is not found.
    """

    def __init__(
        self,
        store: DiskStore,
        clock: Callable[[], Instant],
        most_open: int = MOST_OPEN,
        origin: Callable[[bytes], tuple[bytes, ...]] = lambda key: _ANYBODY,
    ) -> None:
        self._store = store
        self._clock = clock
        self._most_open = most_open
        self._origin = origin
        self._open: WeakSet[OpenFile] = WeakSet()
        self._debts = Debts()
        self._hangs = False  # somebody waited in vain, and no thread came back since
        self._purgers = trio.CapacityLimiter(PURGERS)
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
        return None if found is None else self._keep(key, found)

    async def find(self, key: bytes) -> list[Kept] | None:
        """All variants of `key`; None where the disk took too long to tell."""
        found = await self._wait(self._readers, self._store.find, key, self._clock())
        return None if found is None else self._keep(key, found)

    async def open_overflow(self, size: int | None) -> Overflow | None:
        """A file for an answer of `size` octets, or of nobody knows how many."""
        if not self._may_open():
            return None
        writing = await self._wait(self._writers, self._store.begin, size)
        if not isinstance(writing, Writing):
            return None
        self._open.add(writing.file)
        return writing

    async def commit(
        self, overflow: Overflow, key: bytes, entry: StoredResponse, born: int
    ) -> bool:
        """Store what the file of `open_overflow` has; False where that could not be."""
        assert isinstance(overflow, Writing)

        def work() -> Outcome:
            return self._disown(overflow.commit(key, self._sign(key, entry), born), key, entry)

        return await self._wait(self._writers, work, patience=GIVE_UP) is Outcome.STORED

    async def close(self, overflow: Overflow) -> None:
        """A thread that hangs has the file until it comes back."""
        await self._wait(self._writers, overflow.close)

    async def keep(self, key: bytes, entry: StoredResponse, content: bytes, born: int) -> None:
        """Store a whole answer, or else see to it that none before it comes back.

        A disk that takes up nothing for so long has missed too much to be believed.
        """
        begun = False
        crowded = self._writers.statistics().tasks_waiting >= MOST_WAITING

        def work() -> None:
            nonlocal begun
            begun = True
            signed = self._sign(key, entry)
            kept = Outcome.BUSY if crowded else self._store.keep(key, signed, content, born)
            self._disown(kept, key, entry)

        await self._wait(self._writers, work, patience=GIVE_UP)
        if not begun:
            self._store.darken()

    async def renew(
        self, key: bytes, old: Kept, entry: StoredResponse, born: int, keeps: bool
    ) -> None:
        """Give the octets of `old` another record. `keeps`: store them where they are not there."""

        def work() -> None:
            filed, signed = self._find_file(key, old), self._sign(key, entry)
            if filed is not None:
                self._store.renew(filed, signed, born)
            elif keeps and old.content is not None:
                self._store.keep(key, signed, old.content, born)

        await self._wait(self._writers, work)

    async def remove(self, key: bytes, kept: Kept) -> None:
        def work() -> None:
            filed = self._find_file(key, kept)
            if filed is not None:
                self._store.remove(filed)

        await self._wait(self._writers, work)

    async def purge(self, purge: Purge, *, invalidates: bool) -> None:
        """From when it returns nothing is found as it was before.

        What operators purge is so even after a power cut, unless the disk hangs. What a
        client's POST invalidates is not worth a wait for the disk each time.
        """
        now, named = self._clock(), _translate(purge, invalidates)
        debt = self._debts.add(purge)

        def work() -> None:
            debt.begun = True
            self._store.purge(named, now, durable=not invalidates)
            debt.paid = True

        with trio.CancelScope(shield=True):  # a client that leaves does not end it halfway
            await self._wait(self._purgers, work)
        if not debt.begun:
            # All threads hang: whatever the disk has goes when it is back.
            self._store.darken()
        if debt.paid or not debt.begun:
            self._debts.settle(debt)

    def statistics(self) -> DiskTierStatistics:
        open_files = sum(file.fileno() >= 0 for file in self._open)
        return DiskTierStatistics(open_files, self._most_open, len(self._debts), self._hangs)

    def _may_open(self) -> bool:
        """Whether another file may be held open."""
        if len(self._open) < self._most_open:
            return True
        self._open = WeakSet(file for file in self._open if file.fileno() >= 0)
        return len(self._open) < self._most_open

    def _sign(self, key: bytes, entry: StoredResponse) -> StoredResponse:
        """The record as it is written: it tells whose answer it is."""
        return replace(entry, origin=self._origin(key))

    def _keep(self, key: bytes, found: list[Filed]) -> list[Kept]:
        """The same as the shelf has it; a file that is needed is open for as long as that lives."""
        kept = []
        ours = self._origin(key) if found else ()
        for filed in found:
            hidden = self._debts.hides(key, filed.entry) or not any(
                each in ours for each in filed.entry.origin
            )
            if filed.content is not None or hidden or not self._may_open():
                filed.release()
                if filed.content is not None and not hidden:
                    kept.append(Kept(filed.entry, filed.size, filed.content))
            else:
                self._open.add(filed.file)
                entry, size, offset = filed.entry, filed.size, filed.offset
                kept.append(Kept(entry, size, None, filed.file, offset, filed=filed))
        return kept

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
        self,
        limiter: trio.CapacityLimiter,
        work: Callable[..., T],
        *arguments: object,
        patience: float | None = None,
    ) -> T | None:
        """Do it in a thread, but go on without it where it takes too long.

        The thread, if it has begun, goes on to its end by itself.
        """

        def carry_out() -> T:
            try:
                return work(*arguments)
            finally:
                self._hangs = False

        if patience is None:
            patience = IMPATIENCE if self._hangs else PATIENCE
        with trio.move_on_after(patience):
            return await trio.to_thread.run_sync(carry_out, abandon_on_cancel=True, limiter=limiter)
        self._hangs = True
        return None


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
