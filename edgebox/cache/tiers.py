"""RAM before disk, behind one face: where stored answers are.

RAM holds what is small and hot; the disk, where there is one, holds everything. What is
found on disk and is small moves into RAM. Purges and renewals reach both. Whoever remembers
answers that were made of what is here is told when that has changed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import trio
from msgspec import Struct

from edgebox.cache.answer import Instant
from edgebox.cache.disktier import PATIENCE, DiskTier
from edgebox.cache.entry import StoredResponse
from edgebox.cache.purges import Purge, Scope
from edgebox.cache.readback import Room
from edgebox.cache.shelf import Kept, Shelf
from edgebox.cache.spool import Overflow, Spool
from edgebox.cache.vary import surplus_variants


class Arrival(Struct, frozen=True):
    """A whole answer to be stored under `key`, of whose URL at most `most` variants stay.

    `born`: the tiers' mark when it was asked for. `purged()`: whether it was purged since.
    """

    key: bytes
    entry: StoredResponse
    born: int
    most: int
    purged: Callable[[], bool]


class Tiers:
    """All stored answers of a worker."""

    def __init__(self, shelf: Shelf, disk: DiskTier | None, changed: Callable[[], None]) -> None:
        """`changed()`: what was stored before is not to be repeated from memory."""
        self._shelf = shelf
        self._disk = disk
        self._changed = changed
        # What a thread has read is not to displace in RAM what was done meanwhile.
        self._changes = self._promotions = 0

    @property
    def room(self) -> Room:
        """Where the octets of fetches under way are counted."""
        return self._shelf.room

    @property
    def has_disk(self) -> bool:
        """Whether there is a place for what is too large for RAM."""
        return self._disk is not None and self._disk.enabled

    def mark(self) -> int:
        """A mark of now, for what is about to be asked for."""
        return self._disk.mark() if self._disk is not None else 0

    def find_in_ram(self, key: bytes) -> Sequence[Kept]:
        """The variants of `key` that are in RAM: all of them, or none."""
        variants = self._shelf.find(key)
        if variants and self._disk is not None:
            self._disk.touch(key)
        return variants

    def find_nowait(self, key: bytes) -> Sequence[Kept] | None:
        """The variants of `key`, wherever they are; None where that needs waiting."""
        if (variants := self.find_in_ram(key)) or self._disk is None:
            return variants
        return self._disk.find_nowait(key)

    async def find(self, key: bytes) -> Sequence[Kept]:
        """The variants of `key`, wherever they are."""
        variants = list(self.find_in_ram(key))
        if variants or self._disk is None:
            return variants
        changes = self._changes
        found = await self._find_on_disk(key)
        if variants := list(self._shelf.find(key)):
            return variants
        if changes == self._changes:
            self._promote(key, found)
        return found

    async def find_later(self, key: bytes, variants: Sequence[Kept]) -> Sequence[Kept]:
        """What another worker has stored of `key` since, as the disk has it; else nothing.

        It takes the place of `variants` in RAM, all of it.
        """
        if self._disk is None or all(kept.content is None for kept in variants):
            return ()
        changes = self._changes
        found = await self._find_on_disk(key)
        latest = max(kept.entry.received_steady for kept in variants)
        if changes != self._changes or not any(
            kept.entry.received_steady > latest for kept in found
        ):
            return ()
        self._shelf.drop_key(key)
        self._promote(key, found)
        self._changed()
        return found

    async def open_overflow(self, size: int | None) -> Overflow | None:
        """A file for an answer that outgrows RAM, of `size` octets if that is known.

        None where there is no disk tier.
        """
        return await self._disk.open_overflow(size) if self._disk is not None else None

    async def put(self, arrival: Arrival, spool: Spool) -> Kept | None:
        """Store a whole answer in place of the variant that it is another version of.

        What is small goes into RAM, and is to be handed to `file` when nobody waits any
        more; else, or where it was purged, this returns None.
        """
        octets = spool.octets()
        if octets is None:
            await self._commit(arrival, spool)
            return None
        return self.shelve(arrival, octets, beside=await self.find(arrival.key))

    def shelve(self, arrival: Arrival, octets: bytes, beside: Sequence[Kept]) -> Kept | None:
        """The same for what is small; `beside` are the variants of its URL as they are now."""
        if arrival.purged():
            return None
        kept = Kept(arrival.entry, len(octets), octets)
        if self._shelf.find(arrival.key) or not beside:
            self._shelve(arrival, kept)
        return kept

    async def file(self, arrival: Arrival, kept: Kept) -> None:
        """Have on disk too what `put` gave back."""
        if self._disk is not None and kept.content is not None:
            await self._disk.keep(arrival.key, arrival.entry, kept.content, arrival.born)
            self._unshelve_older(arrival.key, arrival.entry)

    async def abandon(self, spool: Spool) -> None:
        """Give back what a spool holds on disk, if it was not stored."""
        if self._disk is not None and spool.overflow is not None:
            await self._disk.close(spool.overflow)

    def is_in_ram(self, key: bytes, kept: Kept) -> bool:
        return kept in self._shelf.find(key)

    async def replace(self, key: bytes, old: Kept, new: Kept, born: int) -> None:
        """The same octets under another record; nothing where `old` is no longer stored.

        `born`: the mark when the upstream was asked whether they still hold.
        """
        in_ram = old in self._shelf.find(key)
        if in_ram:
            self._shelf.put(key, new, [old])
            self._note_change()
        if self._disk is not None:
            await self._disk.renew(key, old, new.entry, born, keeps=in_ram)
            self._unshelve_older(key, new.entry)

    async def drop(self, key: bytes, kept: Kept) -> None:
        self._shelf.drop(key, kept)
        self._note_change()
        if self._disk is not None:
            await self._disk.remove(key, kept)
            self._unshelve_older(key, None)

    def weigh(self, key: bytes, kept: Kept) -> None:
        """Codings of `kept` were added."""
        self._shelf.weigh(key, kept.coded)
        self._changed()

    async def purge(self, purge: Purge, now: Instant) -> int:
        """Drop what it covers, or make it stale if it is soft; counts what was in RAM."""

        def change(key: bytes, kept: Kept) -> StoredResponse | None:
            if not purge.covers(key, kept.entry):
                return kept.entry
            return kept.entry.expired(now) if purge.soft else None

        return await self._change(purge, change, invalidates=False)

    async def invalidate(self, purge: Purge) -> None:
        """Have what it covers be validated before its next use (RFC 9111 §4.4)."""

        def change(key: bytes, kept: Kept) -> StoredResponse:
            covered = purge.covers(key, kept.entry) and not kept.entry.invalid
            return kept.entry.invalidated() if covered else kept.entry

        await self._change(purge, change, invalidates=True)

    def statistics(self) -> dict[str, int]:
        return self._shelf.statistics()

    async def _find_on_disk(self, key: bytes) -> Sequence[Kept]:
        assert self._disk is not None
        found = self._disk.find_nowait(key)
        return (await self._disk.find(key) or []) if found is None else found

    def _promote(self, key: bytes, found: Sequence[Kept]) -> None:
        """Have in RAM what the disk has of `key`, if all of it is small."""
        if all(kept.content is not None for kept in found):
            self._promotions += bool(found)
            for kept in found:
                self._shelf.put(key, kept)

    def _shelve(self, arrival: Arrival, kept: Kept) -> None:
        key = arrival.key
        variants = list(self._shelf.find(key))
        replaced = [old for old in variants if old.entry.variant == kept.entry.variant]
        self._shelf.put(key, kept, replaced)
        shelved = list(self._shelf.find(key))
        for index in surplus_variants([each.entry.date for each in shelved], arrival.most):
            self._shelf.drop(key, shelved[index])
        if variants:
            self._note_change()

    async def _commit(self, arrival: Arrival, spool: Spool) -> None:
        """Store what is in a file already. RAM has all variants of a URL or none: now none."""
        overflow = spool.overflow
        if self._disk is None or overflow is None:
            return
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_end_in_time, spool)
            stored = await self._disk.commit(overflow, arrival.key, arrival.entry, arrival.born)
            nursery.cancel_scope.cancel()
        if stored:
            self._unshelve_older(arrival.key, None)

    def _unshelve_older(self, key: bytes, entry: StoredResponse | None) -> None:
        """The disk has changed: what RAM has of `key` is past, unless `entry` or a later one
        of that variant is there. It may have been read before the change."""
        self._changes += 1
        variants = self._shelf.find(key)
        if variants and not any(_is_as_late(kept.entry, entry) for kept in variants):
            self._shelf.drop_key(key)
            self._changed()

    async def _change(
        self, purge: Purge, change: Callable[[bytes, Kept], StoredResponse | None],
        invalidates: bool,
    ) -> int:  # fmt: skip
        touched = self._change_in_ram(purge, change)
        if self._disk is not None:
            promotions = self._promotions
            await self._disk.purge(purge, invalidates=invalidates)
            self._changes += 1
            if promotions != self._promotions:  # perhaps of what was purged only now
                self._change_in_ram(purge, change)
        return touched

    def _change_in_ram(
        self, purge: Purge, change: Callable[[bytes, Kept], StoredResponse | None]
    ) -> int:
        touched = self._shelf.change(change, purge.value if purge.scope is Scope.KEY else None)
        if touched:
            self._note_change()
        return touched

    def _note_change(self) -> None:
        self._changes += 1
        self._changed()


async def _end_in_time(spool: Spool) -> None:
    """Clients mostly wait until an answer is stored, since they may well ask again: not longer."""
    await trio.sleep(PATIENCE)
    spool.end()


def _is_as_late(entry: StoredResponse, other: StoredResponse | None) -> bool:
    if other is None or entry.variant != other.variant:
        return False
    return entry.received_steady >= other.received_steady
