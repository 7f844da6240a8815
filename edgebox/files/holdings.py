"""What the store keeps, and what keeping it costs: records, content, open descriptors.

A record is worth nothing without the octets or the descriptor it speaks of, so the three
come and go together, whichever bound is reached first: paths remembered, descriptors
open, or bytes in the working set, which answers from elsewhere share. All of it is in
the ledger. Whether a record is still true is not decided here.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass

from edgebox.config.schema import Files
from edgebox.files.coverage import Coverage
from edgebox.files.entry import FileEntry
from edgebox.files.statcache import EPOCH, Dropped, EvictingCache, Key, Record, StatCache
from edgebox.memory.workingset import WorkingSet

_RECORD_SIZE = 1024  # bytes: a record with its entry, path and validators, without content
_IDLE = 30.0  # seconds until an unused descriptor is closed; it may hold a deleted file's disk


@dataclass(frozen=True, slots=True)
class HoldingsStatistics:
    """`evicted`: records that made room for others, whatever was scarce."""

    entries: int
    negative_entries: int
    open_files: int
    evicted: int


class Holdings:
    """Records by path with what belongs to them; `release` gets each dropped one's coverage."""

    def __init__(
        self, config: Files, working_set: WorkingSet, release: Callable[[Coverage], None]
    ) -> None:
        if config.open_files is None:
            raise ValueError("files.open_files must be planned before")
        self._working_set = working_set
        self._paths = working_set.ledger.account("paths")
        self._release = release
        self._records = StatCache(config.entries, config.negative_entries, self._dropped)
        # At least one: somebody must own the descriptor from one request to the next.
        self._open: EvictingCache[Key, Record] = EvictingCache(
            max(config.open_files, 1), self._make_room
        )
        self._evicted = 0
        self._room_made_at = float("-inf")
        self.get = self._records.get  # a record by key, or None

    def keep(self, key: Key, record: Record) -> bool:
        """Keep `record`, whose key has none; False if there is no room for its content."""
        found = record.found
        content = found.content if isinstance(found, FileEntry) else None
        if content is not None:
            kept = self._working_set.put(key, found, len(content), self._make_room, octets=content)
            if not kept:
                self._note_eviction()
                return False
        self._paths.charge(_RECORD_SIZE)
        self._records.put(key, record)
        if isinstance(found, FileEntry) and found.file is not None:
            self._open[key] = record
        return True

    def discard(self, key: Key) -> Record | None:
        return self._records.discard(key)

    def touch(self, key: Key, record: Record, now: float) -> None:
        """It is in use: the last to make room."""
        record.used_at = now
        self._working_set.touch(key)
        self._open.get(key)

    def made_room_lately(self) -> bool:
        """Whether an answer may still be repeated whose record is no longer here."""
        return time.monotonic() - self._room_made_at <= EPOCH

    def close_idle(self, now: float) -> None:
        """Close descriptors that nobody asked for lately, or whose coverage has ended."""
        for key, record in self._open.peek_items():
            if not record.coverage.alive or now - record.used_at > _IDLE:
                self.discard(key)

    def hottest(self, count: int) -> list[Key]:
        """Of so many paths that were used last, those that are files, the latest first."""
        latest = self._records.peek_latest(count)
        return [key for key, record in latest if isinstance(record.found, FileEntry)]

    def clear(self) -> None:
        self._records.clear()

    def statistics(self) -> HoldingsStatistics:
        entries, negative_entries = self._records.sizes()
        return HoldingsStatistics(entries, negative_entries, len(self._open), self._evicted)

    def _make_room(self, key: Hashable, _: object) -> None:
        """The working set, or the open files, dropped what this key's record speaks of."""
        self._note_eviction()
        self.discard(key)  # type: ignore[arg-type]  # only our own keys come back

    def _dropped(self, key: Key, record: Record, why: Dropped) -> None:
        if why is Dropped.FOR_ROOM:
            self._note_eviction()
        self._paths.refund(_RECORD_SIZE)
        self._release(record.coverage)
        self._working_set.discard(key)
        # Not released: a handler may still have the entry. It closes with its last reference.
        self._open.pop(key, None)

    def _note_eviction(self) -> None:
        self._evicted += 1
        self._room_made_at = time.monotonic()
