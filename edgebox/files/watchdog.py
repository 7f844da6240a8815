"""Tells which remembered paths changed on disk, by inotify, without a thread.

Watch first, look after: a look counts as covered only if every directory on its trail was
watched when the look began and nothing on the trail has stirred since. What cannot be
covered (no watches left, no inotify, an unreadable directory) is not believed any longer
than without a watchdog, so a failure here costs time and never truth: it is counted, and
said once.

Directories are known by device and inode, not by path: moving one does not make its watch
wrong. The watchdog knows no files and no contents; what to forget is the listener's business.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import trio
from inotify_simple import INotify, flags, parse_events

from edgebox.files.coverage import UNCOVERED, Coverage, Look, TrailCoverage, Watch
from edgebox.files.entry import Docroot
from edgebox.files.statcache import EvictingCache
from edgebox.files.trail import DirectoryId, Place, Trail

Log = Callable[[str, str], None]  # level, text

# MODIFY beside CLOSE_WRITE, so that an edit shows while its writer keeps the file open.
_MASK = (
    flags.MODIFY
    | flags.CLOSE_WRITE
    | flags.ATTRIB
    | flags.MOVED_FROM
    | flags.MOVED_TO
    | flags.CREATE
    | flags.DELETE
    | flags.DELETE_SELF
    | flags.MOVE_SELF
    | flags.ONLYDIR
    | flags.DONT_FOLLOW
    | flags.EXCL_UNLINK
)
_OVERFLOW, _UNMOUNT, _IGNORED = int(flags.Q_OVERFLOW), int(flags.UNMOUNT), int(flags.IGNORED)
_SLOW = "changes there show only within files.stale_bound"
_READ_SIZE = 64 * 1024  # some 2,000 events, then the loop gets its turn


class Listener(Protocol):
    """Who remembers paths and must hear when they change."""

    def path_changed(self, docroot: Docroot, path: bytes) -> None:
        """What this one path leads to may have changed; most are paths never asked for."""

    def coverage_ended(self) -> None:
        """Some coverages are no longer alive: directories or symlinks on the way changed."""


class _Event(NamedTuple):
    """As inotify_simple has it, which has no types."""

    wd: int
    mask: int
    cookie: int
    name: str


@dataclass(frozen=True, slots=True)
class WatchdogStatistics:
    """`uncovered`: looks that had to go without; `overflows`: times events were lost."""

    active: bool
    watches: int
    coverages: int
    events: int
    overflows: int
    unmounted: int
    uncovered: int
    evicted: int


class Watchdog:
    """Keeps watch over the trails of remembered paths; tells the listener what changes.

    `limit` is the most directories watched at once; 0 for no watching at all. Everything
    here belongs to the thread that runs the loop, and raises no OSError.
    """

    def __init__(self, limit: int, listener: Listener, log: Log) -> None:
        self._listener = listener
        self._log = log
        self._inotify: INotify | None = None
        self._watches: EvictingCache[DirectoryId, Watch] = EvictingCache(limit, self._unwatch)
        self._by_descriptor: dict[int, Watch] = {}
        self._coverages: dict[tuple[Docroot, bytes, Trail], TrailCoverage] = {}
        self._looks: set[Look] = set()
        self._serial = 0  # of the newest watch
        self._hearing = False
        self._said: set[str] = set()
        self._events = self._overflows = self._unmounted = self._uncovered = self._evicted = 0
        if limit:
            try:
                self._inotify = INotify(nonblocking=True)
            except OSError as error:  # EMFILE: fs.inotify.max_user_instances, or descriptors
                self._say_once("instance", f"no inotify instance ({error}): {_SLOW}")

    @property
    def active(self) -> bool:
        return self._inotify is not None

    @contextmanager
    def begin(self) -> Iterator[Look]:
        """Around a look, from before the file is opened until `cover` was asked."""
        look = Look(self._serial)
        self._looks.add(look)
        try:
            yield look
        finally:
            self._looks.discard(look)

    def cover(self, look: Look, docroot: Docroot, path: bytes, trail: Trail) -> Coverage | None:
        """What stands for the look at `path`; None if it must be repeated to be sure.

        The caller holds the coverage until it gives it to `release`.
        """
        if self._inotify is None or len(trail.places) > self._watches.maxsize:
            return self._go_without()
        watches: list[Watch] = []
        for place in trail.places:
            watch = self._watches.get(place.identity) or self._watch(self._inotify, place)
            if watch is None:
                return self._go_without()
            watches.append(watch)
        directory, _, last = path.rpartition(b"/")
        if not look.is_covered(trail, last, watches):
            return None
        prefix = b"" if trail.home is None else directory + b"/"
        key = docroot, prefix, trail
        coverage = self._coverages.get(key)
        if coverage is None:
            coverage = self._coverages[key] = TrailCoverage(docroot, prefix, trail, watches)
            coverage.register()
        coverage.holders += 1
        return coverage

    def release(self, coverage: Coverage) -> None:
        """Give back what `cover` gave; with the last holder the registration ends."""
        if isinstance(coverage, TrailCoverage):
            coverage.holders -= 1
            if coverage.holders == 0:
                self._unregister(coverage)

    def touch(self, coverage: Coverage) -> None:
        """The coverage is in use: its directories are to be the last to lose their watch."""
        if isinstance(coverage, TrailCoverage):
            for place in coverage.trail.places:
                self._watches.get(place.identity)  # an LRU cache: asking is touching

    async def run(self) -> None:
        """Hear events until cancelled or closed; returns at once if there is no inotify."""
        if self._inotify is None:
            return
        descriptor = self._inotify.fileno()
        self._hearing = True
        try:
            while True:
                await trio.lowlevel.wait_readable(descriptor)
                try:
                    data = os.read(descriptor, _READ_SIZE)
                except BlockingIOError:
                    continue
                self.hear(data)
        except trio.ClosedResourceError:
            pass
        finally:
            self._hearing = False

    def hear(self, data: bytes) -> None:
        """Work off `data`, whole events as inotify(7) lays them out."""
        ended = False
        event: _Event
        for event in dict.fromkeys(parse_events(data)):  # a burst of writes is one change
            self._events += 1
            if event.mask & _OVERFLOW:
                ended |= self._lose_track()
            elif (watch := self._by_descriptor.get(event.wd)) is not None:
                ended |= self._stir(watch, os.fsencode(event.name), event.mask)
        if ended:
            self._listener.coverage_ended()

    def close(self) -> None:
        if self._inotify is not None:
            if self._hearing:
                trio.lowlevel.notify_closing(self._inotify.fileno())
            self._inotify.close()
            self._inotify = None

    def statistics(self) -> WatchdogStatistics:
        return WatchdogStatistics(
            active=self.active,
            watches=len(self._by_descriptor),
            coverages=len(self._coverages),
            events=self._events,
            overflows=self._overflows,
            unmounted=self._unmounted,
            uncovered=self._uncovered,
            evicted=self._evicted,
        )

    # -- events

    def _stir(self, watch: Watch, name: bytes, mask: int) -> bool:
        """One event in one directory; whether a coverage ended by it."""
        for look in self._looks:
            look.stirred.add((watch.identity, name))
        if not name:
            if mask & _UNMOUNT:
                self._unmounted += 1
                self._say_once("unmount", "a watched file system was unmounted")
            if mask & _IGNORED:  # the directory is gone, and its watch with it
                self._drop(watch)
            return self._end(watch.coverages())
        ended = self._end(watch.passes.get(name, ()))
        for coverage in list(watch.homes):
            self._listener.path_changed(coverage.docroot, coverage.prefix + name)
        return ended

    def _lose_track(self) -> bool:
        """The queue overflowed: nothing that we believed still stands."""
        self._overflows += 1
        self._say_once("overflow", "inotify queue overflow: every path is looked at again")
        for look in self._looks:
            look.spoil()
        return self._end(self._coverages.values())

    def _end(self, coverages: Iterable[TrailCoverage]) -> bool:
        ended = list(coverages)
        for coverage in ended:
            coverage.alive = False
            self._unregister(coverage)
        return bool(ended)

    def _unregister(self, coverage: TrailCoverage) -> None:
        coverage.unregister()
        self._forget(coverage)

    def _forget(self, coverage: TrailCoverage) -> None:
        """Let it stand for no later look."""
        key = coverage.docroot, coverage.prefix, coverage.trail
        if self._coverages.get(key) is coverage:
            del self._coverages[key]

    def _go_without(self) -> Coverage:
        self._uncovered += 1
        return UNCOVERED

    # -- watches

    def _watch(self, inotify: INotify, place: Place) -> Watch | None:
        """Watch a directory; None, counted and said once, where that cannot be."""
        try:
            descriptor: int = inotify.add_watch(place.path, _MASK)
            status = os.lstat(place.path)  # it may be another directory by now
        except OSError as error:
            if error.errno == errno.ENOSPC:
                self._say_once("watches", f"fs.inotify.max_user_watches reached: {_SLOW}")
            return None
        if known := self._by_descriptor.get(descriptor):
            return known
        self._serial += 1
        watch = Watch(descriptor, (status.st_dev, status.st_ino), self._serial)
        self._by_descriptor[descriptor] = watch
        self._watches[watch.identity] = watch
        return watch

    def _unwatch(self, _: DirectoryId, watch: Watch) -> None:
        """Stop watching, for want of room. What it covered goes on like anything uncovered."""
        self._evicted += 1
        self._say_once("limit", f"files.watches reached, the longest unused go: {_SLOW}")
        del self._by_descriptor[watch.descriptor]
        for coverage in watch.coverages():
            self._forget(coverage)
        if self._inotify is not None:
            with suppress(OSError):  # EINVAL: it was gone already
                self._inotify.rm_watch(watch.descriptor)

    def _drop(self, watch: Watch) -> None:
        del self._by_descriptor[watch.descriptor]
        if self._watches.get(watch.identity) is watch:
            del self._watches[watch.identity]

    def _say_once(self, kind: str, text: str) -> None:
        if kind not in self._said:
            self._said.add(kind)
            self._log("warning", text)
