"""What the housekeeper does, job by job, as calls that take a while.

Every job may be killed at any instant and be done twice. In its course it calls `breathe`, where
its process hears notes and keeps the room free; no directory is locked then. The files are the
truth: a name is looked at by opening what is there, and the index is told.
"""

from __future__ import annotations

import os
import stat
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import ExitStack, suppress
from hashlib import blake2b

from edgebox.cache.answer import Instant
from edgebox.cache.disk import clock
from edgebox.cache.disk.drawer import Drawer, leaves, open_drawer
from edgebox.cache.disk.filer import Filer
from edgebox.cache.disk.finder import CHECKED_AT_ONCE
from edgebox.cache.disk.format import Roster, Sheet, entry_now
from edgebox.cache.disk.index import Index, Row, tags_of
from edgebox.cache.disk.layout import LEAVES, OBJECTS, Place, directory_of, footprint
from edgebox.cache.disk.presence import Presence
from edgebox.cache.disk.purgelog import PurgeLog
from edgebox.cache.disk.reader import Flaw, Seen, body_is_right, see
from edgebox.cache.disk.space import Space
from edgebox.cache.disk.syncing import Syncing
from edgebox.cache.entry import StoredResponse
from edgebox.files.compression.newfile import remove_leftovers
from edgebox.files.entry import Docroot
from edgebox.files.residency import is_resident

BATCH = 64
WAITING = 4096  # names whose bodies are to be checked; the daily round takes what is more
Listing = dict[bytes, list[tuple[Place, os.stat_result]]]


class Caretaker:
    """One cache directory. Raises OSError, Busy and sqlite3.Error throughout."""

    def __init__(self, directory: bytes, limit: int, breathe: Callable[[], None]) -> None:
        self._objects = os.path.join(directory, OBJECTS)
        self._docroot = Docroot(self._objects, "never")
        self._breathe = breathe
        self._boot = clock.boot_id()
        os.makedirs(self._objects, 0o700, exist_ok=True)
        with ExitStack() as stack:
            self.space = Space(directory, limit, writes=False)
            stack.callback(self.space.close)
            self.purges = PurgeLog(directory, self._boot)
            stack.callback(self.purges.close)
            self._presence = Presence(directory, self._boot)
            stack.callback(self._presence.close)
            self.index = Index(directory)
            stack.callback(self.index.close)
            self._stack = stack.pop_all()
        self._filer = Filer(self._objects, self.space, self.purges, self._presence, self._boot, 1)
        self.to_check: deque[bytes] = deque(maxlen=WAITING)
        self.carried = 0  # the last purge that all known keys were asked about
        self._syncing: Syncing | None = None
        self._finished = 0  # the last purge that it is about
        self.looked = self.evicted = self.purged = 0
        self.checked = self.damaged = self.orphans = 0

    def close(self) -> None:
        self._stack.close()

    @property
    def lost(self) -> bool:
        """Whether somebody emptied the directory: all has to be opened anew."""
        return self.space.lost or self.purges.lost or self._presence.lost

    def sweep(self) -> None:
        """Remove what killed writers left, and give back what they had reserved."""
        remove_leftovers(self._objects)
        self.space.reclaim()

    def look(self, name: bytes, used: int) -> None:
        """Bring the index up to date about one name."""
        self.looked += 1
        now = clock.now()
        files = self._files(name)
        if files is None:
            return
        records = self._records(files, now)
        if any(self._judge(sheet, entry) is not entry for sheet, entry in records):
            self.purged += 1
            self._filer.change(name, self._judge, now)
            files = self._files(name) or []
            records = self._records(files, now)
        if not records:
            self._filer.change(name, lambda sheet, entry: entry, now)  # a roster of nothing
            self.index.forget([name])
            return
        size = sum(footprint(seen.status.st_size) for seen in files)
        marks = [(seen.place, seen.status) for seen in files]
        key = records[0][0].key
        tags = tags_of(key, [entry for _, entry in records])
        self.index.put(Row(name, key, size, stamp_of(marks), used, tags))
        if any(s.vouched != self._boot and s.length > CHECKED_AT_ONCE for s, _ in records):
            self.to_check.append(name)

    def survey(self) -> None:
        """Go through all directories: count, index what is new, remove what nothing leads to.

        Each is listed while it is locked, so what its writers were at is either here already,
        or is done by somebody who asks the purges after this.
        """
        there = leaves(self._objects)
        for leaf in there:
            self._breathe()
            with suppress(FileNotFoundError):
                self._survey_leaf(leaf)
        self.space.finish_count()
        for leaf in set(range(LEAVES)).difference(there):
            path = os.path.join(self._objects, directory_of(leaf))
            self._presence.settle_missing(leaf, path)

    def make_room(self, most: int) -> bool:
        """Evict the longest unused until `most` octets are taken; False if that did not help."""
        gone: list[bytes] = []
        try:
            while sum(self.space.taken()) > most:
                oldest = self.index.oldest(BATCH)
                for name, _ in oldest:
                    self._filer.change(name, lambda sheet, entry: None, clock.now())
                    gone.append(name)
                    if sum(self.space.taken()) <= most:
                        break
                if not oldest:
                    return False
                self.evicted += len(gone)
                self.index.forget(gone)
                gone.clear()
            return True
        finally:
            if gone:
                self.index.forget(gone)

    @property
    def purges_wait(self) -> bool:
        """Whether there is a purge that the known keys were not asked about yet."""
        return any(number > self.carried for number in self.purges.pending())

    def carry_out(self) -> None:
        """Do what purges say to all keys that the index knows. A survey has to follow."""
        for number, purge in self.purges.pending().items():
            if number <= self.carried:
                continue
            after = 0
            while concerned := self.index.concerned(purge, after, BATCH):
                for _, name in concerned:
                    self.look(name, 0)
                after = concerned[-1][0]
                self._breathe()
            self.carried = number

    def finish_purges(self, number: int) -> None:
        """A survey came after all purges up to this one: they are carried out.

        They count until that is on the disk too: until `conclude_purges` says so.
        """
        if self._syncing is None:
            self._syncing, self._finished = Syncing(self._objects), number

    def conclude_purges(self) -> bool:
        """Whether nothing is under way any more."""
        done = None if self._syncing is None else self._syncing.poll()
        if done is not None:
            self._syncing = None
        if done:
            self.purges.carried_out(self._finished)
        return self._syncing is None

    def check(self, name: bytes) -> int:
        """Read the bodies of a key as a whole; returns their octets. What is damaged goes."""
        read = 0
        for seen in self._files(name) or ():
            sheet = seen.sheet
            if not isinstance(sheet, Sheet):
                continue
            fd = seen.file.fileno()
            resident = is_resident(fd, 0, sheet.length)
            right = body_is_right(fd, sheet, self._breathe)
            if not resident:  # nobody asked for it: it is not to push out what is in use
                os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            read += sheet.length
            if not right:
                self.damaged += 1
                self._filer.remove(seen)
                self.look(name, 0)
            elif sheet.vouched != self._boot:
                self._filer.vouch(seen, clock.now())
                self.look(name, 0)
        self.checked += read
        return read

    def _files(self, name: bytes) -> list[Seen] | None:
        """What is at a name, the roster included; damaged files go. None: it cannot be read now."""
        base = self._see(Place(name))
        if not isinstance(base, Seen):
            return None if base is Flaw.UNREADABLE else []
        if isinstance(base.sheet, Sheet):
            return [base]
        variants = [self._see(Place(name, label)) for label in base.sheet.labels]
        return [base, *(seen for seen in variants if isinstance(seen, Seen))]

    def _see(self, place: Place) -> Seen | Flaw:
        seen = see(self._docroot, place, nowait=False)
        assert seen is not None
        with suppress(FileNotFoundError):
            if seen is Flaw.DAMAGED:
                seen = self._filer.recheck(place)
                self.damaged += seen is Flaw.DAMAGED
            elif seen is Flaw.UNREADABLE and self.purges.pending():
                # It cannot be asked whether a purge concerns it, and may be readable again later.
                self._filer.discard(place)
                return Flaw.ABSENT
        return seen

    def _records(self, files: Iterable[Seen], now: Instant) -> list[tuple[Sheet, StoredResponse]]:
        sheets = [seen.sheet for seen in files if isinstance(seen.sheet, Sheet)]
        return [(sheet, entry_now(sheet, self._boot, now)) for sheet in sheets]

    def _judge(self, sheet: Sheet, entry: StoredResponse) -> StoredResponse | None:
        return self.purges.judge(sheet.key, entry, sheet.born, clock.now())

    def _survey_leaf(self, leaf: int) -> None:
        # Once without the lock, so that no writer waits while inodes are read from a slow disk.
        with os.scandir(os.path.join(self._objects, directory_of(leaf))) as entries:
            for entry in entries:
                with suppress(FileNotFoundError):
                    entry.stat(follow_symlinks=False)
        with open_drawer(self._objects, leaf, self.space) as drawer:
            listing = self._list(drawer)
            self._presence.settle(leaf, listing)
        known = self.index.stamps(leaf)
        self.index.forget(known.keys() - listing.keys())
        for number, (name, files) in enumerate(listing.items()):
            if known.get(name) != stamp_of(files):
                used = max(max(s.st_atime, s.st_mtime) for _, s in files)
                self.look(name, int(used))
            if number % BATCH == BATCH - 1:
                self._breathe()

    def _list(self, drawer: Drawer) -> Listing:
        """By name all files of a directory; it is counted, and rid of what nothing leads to."""
        listing: Listing = {}
        for place, status in list(drawer.entries()):
            if stat.S_ISREG(status.st_mode):
                listing.setdefault(place.name, []).append((place, status))
            else:
                with suppress(OSError):  # a directory that is not empty
                    drawer.remove(place)
        for name, files in list(listing.items()):
            if len(files) == 1 and not files[0][0].label:
                continue
            led_to = self._led_to(drawer, Place(name))
            for place, _ in files:
                if place not in led_to:
                    self.orphans += drawer.remove(place)
            listing[name] = [item for item in files if item[0] in led_to]
            if not listing[name]:
                del listing[name]
        sizes = (footprint(status.st_size) for files in listing.values() for _, status in files)
        drawer.settle(sum(sizes))
        return listing

    def _led_to(self, drawer: Drawer, base: Place) -> set[Place]:
        seen = drawer.see(base)
        if seen is Flaw.UNREADABLE:  # leave all as it is
            return {place for place, _ in drawer.entries() if place.name == base.name}
        if isinstance(seen, Flaw):
            return set()
        labels = seen.sheet.labels if isinstance(seen.sheet, Roster) else ()
        return {base, *(Place(base.name, label) for label in labels)}


def stamp_of(files: Iterable[tuple[Place, os.stat_result]]) -> int:
    """Differs as soon as anything was written into one of the files of a key."""
    marks = sorted((p.label, s.st_ino, s.st_size, s.st_mtime_ns) for p, s in files)
    return int.from_bytes(blake2b(repr(marks).encode(), digest_size=7).digest(), "big")
