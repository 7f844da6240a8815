"""RAM before disk, behind one face: where stored answers are.

RAM holds what is small and hot; the disk, where there is one, holds everything. What is
found on disk and is small moves into RAM. Purges and renewals reach both. Whoever remembers
answers that were made of what is here is told when that has changed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from edgebox.cache.answer import Instant
from edgebox.cache.entry import StoredResponse
from edgebox.cache.purges import Purge, Scope
from edgebox.cache.shelf import Kept, Shelf
from edgebox.cache.spool import Overflow, Room, Spool
from edgebox.cache.vary import surplus_variants


class Tiers:
    """All stored answers of a worker."""

    def __init__(self, shelf: Shelf, changed: Callable[[], None]) -> None:
        """`changed()`: what was stored before is not to be repeated from memory."""
        self._shelf = shelf
        self._changed = changed

    @property
    def room(self) -> Room:
        """Where the octets of fetches under way are counted."""
        return self._shelf.room

    def find_in_ram(self, key: bytes) -> Sequence[Kept]:
        """The variants of `key` that are in RAM: all of them, or none."""
        return self._shelf.find(key)

    async def find(self, key: bytes) -> Sequence[Kept]:
        """The variants of `key`, wherever they are."""
        return list(self._shelf.find(key))

    async def open_overflow(self, size: int | None) -> Overflow | None:
        """A file for an answer that outgrows RAM, of `size` octets if that is known.

        None where there is no disk tier.
        """
        return None

    async def put(self, key: bytes, entry: StoredResponse, spool: Spool, most: int) -> Kept | None:
        """Store a whole answer in place of the variant that it is another version of.

        At most `most` variants of a URL stay. None: it found no place.
        """
        octets = spool.octets()
        if octets is None:
            return None
        kept = Kept(entry, len(octets), octets)
        variants = list(self._shelf.find(key))
        replaced = [old for old in variants if old.entry.variant == entry.variant]
        self._shelf.put(key, kept, replaced)
        shelved = list(self._shelf.find(key))
        for index in surplus_variants([each.entry.date for each in shelved], most):
            self._shelf.drop(key, shelved[index])
        if variants:
            self._changed()
        return kept if kept in self._shelf.find(key) else None

    async def abandon(self, spool: Spool) -> None:
        """Give back what a spool holds on disk, if it was not stored."""

    async def replace(self, key: bytes, old: Kept, new: Kept) -> None:
        """The same octets under another record; nothing where `old` is no longer stored."""
        if old in self._shelf.find(key):
            self._shelf.put(key, new, [old])
            self._changed()

    async def drop(self, key: bytes, kept: Kept) -> None:
        self._shelf.drop(key, kept)
        self._changed()

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

        return self._change(purge, change)

    async def invalidate(self, purge: Purge) -> None:
        """Have what it covers be validated before its next use (RFC 9111 §4.4)."""

        def change(key: bytes, kept: Kept) -> StoredResponse:
            covered = purge.covers(key, kept.entry) and not kept.entry.invalid
            return kept.entry.invalidated() if covered else kept.entry

        self._change(purge, change)

    def statistics(self) -> dict[str, int]:
        return self._shelf.statistics()

    def _change(self, purge: Purge, change: Callable[[bytes, Kept], StoredResponse | None]) -> int:
        touched = self._shelf.change(change, purge.value if purge.scope is Scope.KEY else None)
        if touched:
            self._changed()
        return touched
