"""The files room's front door: what is at a path, from memory where it may be believed.

A request asks `find_nowait` first. A path known and fresh costs a look-up in a dict; one
whose time is up costs five system calls, a new one some twenty, all in the loop, as long
as everything is in the kernel's caches. Otherwise `find` takes it to a thread, once for
all who ask for the same path.

Which answer to make of a file, and in which coding, is the handlers' and `compression`'s.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, TypeVar

import trio

from edgebox.config.schema import Files
from edgebox.files.coverage import UNCOVERED, Coverage, Look
from edgebox.files.entry import Directory, Docroot, FileEntry, Found, Identity, Missing
from edgebox.files.holdings import Holdings, HoldingsStatistics
from edgebox.files.look import Sight, take_look
from edgebox.files.opener import check_kernel, identify
from edgebox.files.statcache import EPOCH, Key, Policy, Record, Trust, trust
from edgebox.files.trail import Trail, walk
from edgebox.files.watchdog import Log, Watchdog, WatchdogStatistics
from edgebox.memory.workingset import WorkingSet

__all__ = ["Docroot", "FileStore", "FileStoreStatistics"]

_ROUNDS = 3  # looks at a path whose directories are new, or keep changing
_CLOSE_IDLE_EVERY = 10.0
_NEVER_REMEMBERED = (Missing.NO_DESCRIPTORS, Missing.IO_ERROR)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class FileStoreStatistics:
    """`hits`: answers from memory as it was; `rechecks`: once the identity was compared;
    `looks`: opened anew; `hops`: times a thread was needed; `changes`: seen or heard of."""

    hits: int
    rechecks: int
    looks: int
    hops: int
    changes: int
    holdings: HoldingsStatistics
    watchdog: WatchdogStatistics


class _Seen(NamedTuple):
    sight: Sight
    trail: Trail | None  # None: nothing to watch


class _Flight:
    """A look in a thread, and its outcome for all who wait for it."""

    __slots__ = ("found", "landed")

    def __init__(self) -> None:
        self.landed = trio.Event()
        self.found: Found | None = None


class FileStore:
    """Finds files below document roots; see `find_nowait` and `find`.

    `config` has every auto settled. `on_change` is called whenever something answered
    before may no longer be true. RuntimeError where the kernel is too old.
    """

    def __init__(
        self, config: Files, working_set: WorkingSet, on_change: Callable[[], None], log: Log
    ) -> None:
        check_kernel()
        if config.watches is None:
            raise ValueError("files.watches must be planned before")
        policy = Policy(config.stat_cache, config.stale_bound)
        self.rememberable = policy.rememberable
        self._fresh_for = policy.fresh_for
        self._object_size = config.object_size
        self._working_set = working_set
        self._on_change = on_change
        self._watchdog = Watchdog(
            config.watches if config.stat_cache == "inotify" else 0, self, log
        )
        self._holdings = Holdings(config, working_set, self._watchdog.release)
        self._limiter = trio.CapacityLimiter(config.read_threads)
        self._flights: dict[Key, _Flight] = {}
        self._hits = self._rechecks = self._looks = self._hops = self._changes = 0

    def find_nowait(self, docroot: Docroot, path: bytes, now: float) -> Found | None:
        """What is at `path` (decoded, normalised, starts with "/"); None: ask `find`.

        `now` is time.monotonic(). A large file comes with its descriptor, open for as long
        as somebody has the entry.
        """
        key = docroot, path
        record = self._holdings.get(key)
        if record is None:
            return self._look_nowait(key, now)
        verdict = trust(record, now, self._fresh_for)
        if verdict is Trust.FRESH:
            self._hits += 1
            if now - record.used_at >= EPOCH:
                self._touch(key, record, now)
            return record.found
        if verdict is Trust.RECHECK:
            identity = identify(docroot, path, nowait=True)
            if identity is None:
                return None
            if _is(record.found, identity):
                return self._confirm(key, record, now)
        return self._look_nowait(key, now)

    async def find(self, docroot: Docroot, path: bytes, now: float) -> Found:
        """As `find_nowait`, waiting for the disk in a thread, one for all who ask.

        May be cancelled at any time: the thread then goes on to its end by itself.
        """
        key = docroot, path
        while True:
            record = self._holdings.get(key)
            if record is not None and trust(record, now, self._fresh_for) is Trust.FRESH:
                self._hits += 1
                return record.found
            flight = self._flights.get(key)
            if flight is None:
                return await self._fly(key, now)
            await flight.landed.wait()
            if flight.found is not None:  # else who looked for all of us was cancelled
                return flight.found

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Hear of changes, and close what nobody uses, until cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._watchdog.run)
            task_status.started()
            while True:
                await trio.sleep(_CLOSE_IDLE_EVERY)
                self._holdings.close_idle(time.monotonic())

    def close(self) -> None:
        self._holdings.clear()
        self._watchdog.close()

    def hottest(self, count: int) -> list[Key]:
        """Of so many paths that were asked for last, those that are files, the latest first."""
        return self._holdings.hottest(count)

    def statistics(self) -> FileStoreStatistics:
        return FileStoreStatistics(
            hits=self._hits,
            rechecks=self._rechecks,
            looks=self._looks,
            hops=self._hops,
            changes=self._changes,
            holdings=self._holdings.statistics(),
            watchdog=self._watchdog.statistics(),
        )

    # -- what the watchdog tells

    def path_changed(self, docroot: Docroot, path: bytes) -> None:
        known = self._holdings.discard((docroot, path)) is not None
        # Most are of no concern to anyone: a log below a docroot must not cost us answers.
        if known or self._holdings.made_room_lately():
            self._changed()

    def coverage_ended(self) -> None:
        self._holdings.close_idle(time.monotonic())
        self._changed()

    def _changed(self) -> None:
        self._changes += 1
        self._on_change()

    # -- looking

    def _look_nowait(self, key: Key, now: float, rounds: int = _ROUNDS) -> Found | None:
        with self._watchdog.begin() as look:
            seen = self._see(key, nowait=True)
            if seen is None:
                return None
            coverage = self._cover(look, key, seen)
        if coverage is None and rounds > 1:
            return self._look_nowait(key, now, rounds - 1)
        return self._remember(key, seen.sight, coverage or UNCOVERED, now)

    async def _fly(self, key: Key, now: float) -> Found:
        flight = self._flights[key] = _Flight()
        self._hops += 1
        try:
            flight.found = await self._recheck(key, now) or await self._look(key, now)
            return flight.found
        finally:
            del self._flights[key]
            flight.landed.set()

    async def _recheck(self, key: Key, now: float) -> Found | None:
        record = self._holdings.get(key)
        if record is None or trust(record, now, self._fresh_for) is not Trust.RECHECK:
            return None
        identity = await self._in_thread(partial(identify, *key, nowait=False))
        # Meanwhile a change may have been heard of.
        if self._holdings.get(key) is not record or not record.coverage.alive:
            return None
        return self._confirm(key, record, now) if _is(record.found, identity) else None

    async def _look(self, key: Key, now: float, rounds: int = _ROUNDS) -> Found:
        with self._watchdog.begin() as look:
            seen = await self._in_thread(partial(self._see, key, nowait=False))
            assert seen is not None
            coverage = self._cover(look, key, seen)
        if coverage is None and rounds > 1:
            # What the thread read is in RAM now, so the loop can mostly look for itself.
            return self._look_nowait(key, now, rounds - 1) or await self._look(key, now, rounds - 1)
        return self._remember(key, seen.sight, coverage or UNCOVERED, now)

    def _see(self, key: Key, *, nowait: bool) -> _Seen | None:
        """The file, then the way to it. May run in a thread: it reads what never changes.

        With `nowait` the walk does not wait either: the kernel has just gone the same way
        through its caches.
        """
        # What finds no room goes out from its file: a copy that nobody keeps counts nowhere.
        in_ram = min(self._object_size, self._working_set.room)
        sight = take_look(*key, in_ram, nowait=nowait)
        if sight is None:
            return None
        docroot, path = key
        watching = self._watchdog.active and sight.found not in _NEVER_REMEMBERED
        return _Seen(sight, walk(docroot.root, path) if watching else None)

    def _cover(self, look: Look, key: Key, seen: _Seen) -> Coverage | None:
        return UNCOVERED if seen.trail is None else self._watchdog.cover(look, *key, seen.trail)

    async def _in_thread(self, job: Callable[[], T]) -> T:
        # If nobody waits any more, a descriptor in the result is closed by its OpenFile.
        return await trio.to_thread.run_sync(job, abandon_on_cancel=True, limiter=self._limiter)

    # -- remembering

    def _remember(self, key: Key, sight: Sight, coverage: Coverage, now: float) -> Found:
        self._looks += 1
        found = sight.found
        if found in _NEVER_REMEMBERED:
            return found
        before = self._holdings.discard(key)
        if not self._holdings.keep(key, Record(found, now, now, sight.unsettled_for, coverage)):
            self._watchdog.release(coverage)
        if before is not None and _differ(before.found, found):
            self._changed()
        return found

    def _confirm(self, key: Key, record: Record, now: float) -> Found:
        self._rechecks += 1
        record.checked_at = now
        self._touch(key, record, now)
        return record.found

    def _touch(self, key: Key, record: Record, now: float) -> None:
        self._holdings.touch(key, record, now)
        self._watchdog.touch(record.coverage)


def _is(found: Found, seen: Identity | Directory | Missing | None) -> bool:
    """Whether what was found before is what is seen now."""
    return seen == (found.identity if isinstance(found, FileEntry) else found)


def _differ(before: Found, after: Found) -> bool:
    if isinstance(before, FileEntry) and isinstance(after, FileEntry):
        return before.etag != after.etag
    return before != after
