"""What is remembered of paths, and how long it may be believed.

The rule is one number, whatever the engine: nothing that a client gets may be older than
the stale bound, `files.stale_bound`. The express lane may repeat an answer for up to an
epoch after it was made, so an entry is used as it is only while its last look is at most
the bound less an epoch ago; then the one file is looked at again. The watchdog makes
changes seen far sooner, but where it is blind (hard links, writes through mmap, NFS,
lost events) this rule still holds, so losing it needs no other.

Paths that gave no file are bounded by themselves: a scan for /wp-admin must not push out
what is there. Nothing here reads a clock, a disk or a watch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from itertools import islice
from typing import Generic, Literal, TypeVar

from cachetools import Cache, LRUCache

from edgebox.files.coverage import Coverage
from edgebox.files.entry import Docroot, Found, Identity, Missing

Engine = Literal["inotify", "ttl", "off"]
Key = tuple[Docroot, bytes]

EPOCH = 1.0  # seconds for which the express lane repeats an answer

_SECOND = 1_000_000_000
# File times are taken from the clock of the last timer interrupt, 1 to 10 ms apart, and so
# two writes can carry the same one (Linux 6.13 mends that on some file systems).
TICK = 0.02
_COARSE_TICK = 2.0  # file systems that know whole seconds only


class Trust(Enum):
    """What may be done with an entry."""

    FRESH = "use it"
    RECHECK = "use it if the file's identity is what it was"
    UNKNOWN = "look anew, content included"


@dataclass(slots=True, eq=False)
class Record:
    """One path: what was found, when the look began, and what stands for it.

    `unsettled_for`: seconds from `checked_at` within which another write could have
    left the same identity behind; 0.0 for none. `used_at` is renewed once an epoch.
    """

    found: Found
    checked_at: float
    used_at: float
    unsettled_for: float
    coverage: Coverage


@dataclass(frozen=True, slots=True)
class Policy:
    """How long a record is believed: `files.stat_cache` and `files.stale_bound` (seconds)."""

    engine: Engine
    stale_bound: float

    @property
    def rememberable(self) -> bool:
        """Whether an answer made from an entry may be repeated until the epoch turns."""
        return self.engine != "off" and self.stale_bound >= EPOCH

    @property
    def fresh_for(self) -> float:
        """Seconds for which an entry is used without a look; below zero for never."""
        if self.engine == "off":
            return -1.0
        return self.stale_bound - EPOCH if self.rememberable else self.stale_bound


def trust(record: Record, now: float, fresh_for: float) -> Trust:
    """What may be done with `record` at `now` (monotonic seconds)."""
    if not record.coverage.alive:
        return Trust.UNKNOWN
    age = now - record.checked_at
    unsettled = record.unsettled_for
    if age <= fresh_for and (not unsettled or age < unsettled):
        return Trust.FRESH
    return Trust.UNKNOWN if unsettled else Trust.RECHECK


def unsettled_for(identity: Identity, wall_ns: int) -> float:
    """Seconds within which a file can change once more and keep this identity.

    `wall_ns` is the wall clock before the look. The change time is what counts, since it
    cannot be set back as mtime can. (Git calls such an entry "racily clean".)
    """
    tick = TICK if identity.ctime_ns % _SECOND else _COARSE_TICK
    return tick if abs(wall_ns - identity.ctime_ns) < tick * _SECOND else 0.0


K = TypeVar("K")
V = TypeVar("V")


class EvictingCache(LRUCache[K, V], Generic[K, V]):
    """An LRU cache that tells of what it drops for want of room, and of nothing else."""

    def __init__(self, maxsize: int, on_evict: Callable[[K, V], None]) -> None:
        super().__init__(maxsize)
        self._on_evict = on_evict

    def popitem(self) -> tuple[K, V]:
        key, value = super().popitem()
        self._on_evict(key, value)
        return key, value

    def peek_items(self) -> list[tuple[K, V]]:
        """All of them, without making any the most recently used, as `items()` would."""
        return [(key, Cache.__getitem__(self, key)) for key in self]

    def peek_latest(self, count: int) -> list[tuple[K, V]]:
        """Those used last, the latest first; cachetools has the order, but shows it to nobody.

        A scan for it of 100,000 would take the loop a tenth of a second.
        """
        keys = islice(reversed(self._LRUCache__order), count)  # type: ignore[attr-defined]
        return [(key, Cache.__getitem__(self, key)) for key in keys]


class Dropped(Enum):
    """Why a record left."""

    FOR_ROOM = "the least recently used one"
    ON_DEMAND = "discarded or replaced"


OnDrop = Callable[[Key, Record, Dropped], None]


class StatCache:
    """Records by path. `on_drop` is told of each record that leaves, for whatever reason."""

    def __init__(self, entries: int, negative_entries: int, on_drop: OnDrop) -> None:
        self._present: EvictingCache[Key, Record] = EvictingCache(entries, self._evicted)
        self._absent: EvictingCache[Key, Record] = EvictingCache(negative_entries, self._evicted)
        self._on_drop = on_drop

    def get(self, key: Key) -> Record | None:
        try:
            return self._present[key]
        except KeyError:
            return self._absent.get(key)

    def put(self, key: Key, record: Record) -> None:
        """Remember `record`, in place of what was known of its path."""
        self.discard(key)
        cache = self._absent if isinstance(record.found, Missing) else self._present
        if cache.maxsize >= 1:
            cache[key] = record
        else:
            self._on_drop(key, record, Dropped.FOR_ROOM)

    def discard(self, key: Key) -> Record | None:
        record = self._present.pop(key, None) or self._absent.pop(key, None)
        if record is not None:
            self._on_drop(key, record, Dropped.ON_DEMAND)
        return record

    def clear(self) -> None:
        for cache in (self._present, self._absent):
            records = cache.peek_items()
            cache.clear()  # which tells nobody
            for key, record in records:
                self._on_drop(key, record, Dropped.ON_DEMAND)

    def peek_latest(self, count: int) -> list[tuple[Key, Record]]:
        """The paths that were asked for last and gave something, the latest first."""
        return self._present.peek_latest(count)

    def sizes(self) -> tuple[int, int]:
        """How many paths that gave something are remembered, and how many that did not."""
        return len(self._present), len(self._absent)

    def _evicted(self, key: Key, record: Record) -> None:
        self._on_drop(key, record, Dropped.FOR_ROOM)
