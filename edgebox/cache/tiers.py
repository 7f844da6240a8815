"""RAM before disk, behind one face: where stored answers are.

RAM holds what is small and hot; the disk, where there is one, holds everything. What is
found on disk and is small moves into RAM. Purges and renewals reach both.
"""

from __future__ import annotations

from collections.abc import Sequence

from edgebox.cache.answer import Instant
from edgebox.cache.entry import StoredResponse
from edgebox.cache.purges import Purge
from edgebox.cache.shelf import Kept, Shelf
from edgebox.cache.spool import Overflow, Spool
from edgebox.cache.vary import surplus_variants


class Tiers:
    """All stored answers of a worker."""

    def __init__(self, shelf: Shelf) -> None:
        self._shelf = shelf

    def find_in_ram(self, key: bytes) -> Sequence[Kept]:
        """The variants of `key` that are in RAM: all of them, or none."""
        return self._shelf.find(key)

    async def find(self, key: bytes) -> Sequence[Kept]:
        """The variants of `key`, wherever they are."""
        return list(self._shelf.find(key))

    def open_overflow(self) -> Overflow | None:
        """A file for an answer that outgrows RAM; None where there is no disk tier."""
        return None

    async def put(self, key: bytes, entry: StoredResponse, spool: Spool, most: int) -> None:
        """Store a whole answer in place of the variant that it is another version of."""
        octets = spool.octets()
        if octets is None:
            return
        variants = self._shelf.find(key)
        replaced = [kept for kept in variants if kept.entry.variant == entry.variant]
        self._shelf.put(key, Kept(entry, len(octets), octets), replaced)
        variants = list(self._shelf.find(key))
        for index in surplus_variants([kept.entry.date for kept in variants], most):
            self._shelf.drop(key, variants[index])

    async def abandon(self, spool: Spool) -> None:
        """Give back what a spool holds on disk, if it was not stored."""

    async def replace(self, key: bytes, old: Kept, new: Kept) -> None:
        """The same octets under another record."""
        self._shelf.put(key, new, [old])

    async def drop(self, key: bytes, kept: Kept) -> None:
        self._shelf.drop(key, kept)

    async def purge(self, purge: Purge, now: Instant) -> int:
        """Drop what it covers, or make it stale if it is soft; counts what was in RAM."""

        def change(key: bytes, kept: Kept) -> StoredResponse | None:
            if not purge.covers(key, kept.entry):
                return kept.entry
            return kept.entry.expired(now) if purge.soft else None

        return self._shelf.change(change)

    async def invalidate(self, purge: Purge) -> None:
        """Have what it covers be validated before its next use (RFC 9111 §4.4)."""
        self._shelf.change(
            lambda key, kept: (
                kept.entry.invalidated() if purge.covers(key, kept.entry) else kept.entry
            )
        )

    def statistics(self) -> dict[str, int]:
        return self._shelf.statistics()
