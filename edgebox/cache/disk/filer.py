"""Changes what is filed under a key, each time with the key's directory locked.

The order of steps is such that a process may be killed between any two: names are given before
a roster speaks of them and taken after the base is gone, and what no roster speaks of is never
looked at; the housekeeper removes it. The purges are asked with the lock held, right before a
file gets its name: so a purge that comes in between meets the file.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import NamedTuple

from edgebox.cache.answer import Instant
from edgebox.cache.disk.drawer import Drawer, Source, open_drawer
from edgebox.cache.disk.format import BLANK, Roster, Sheet, build_spare, entry_now
from edgebox.cache.disk.layout import Place, label_of, leaf_of, name_of
from edgebox.cache.disk.outcome import Outcome
from edgebox.cache.disk.presence import Presence
from edgebox.cache.disk.purgelog import PurgeLog
from edgebox.cache.disk.reader import Flaw, Seen
from edgebox.cache.disk.space import Space
from edgebox.cache.entry import StoredResponse
from edgebox.cache.vary import surplus_variants
from edgebox.files.entry import OpenFile

# What becomes of a file with this sheet, whose record in terms of now is the second argument:
# that same record, another one, or None for no file at all.
Change = Callable[[Sheet, StoredResponse], StoredResponse | None]


class Again(NamedTuple):
    """A file that was seen before, with its sheet of now."""

    file: OpenFile
    sheet: Sheet


class Filer:
    """Files responses below `objects`. Everything here may raise OSError or Busy."""

    def __init__(
        self,
        objects: bytes,
        space: Space,
        purges: PurgeLog,
        presence: Presence,
        boot: bytes,
        variants: int,
    ) -> None:
        self._objects = objects
        self._space = space
        self._purges = purges
        self._presence = presence
        self._boot = boot
        self._variants = variants

    def publish(self, source: Source, key: bytes, entry: StoredResponse, born: int) -> Outcome:
        """Give a whole file its name, in place of the same variant or beside others."""
        name, label = name_of(key), label_of(entry.variant)
        base = Place(name)
        with open_drawer(self._objects, leaf_of(name), self._space, create=True) as drawer:
            if self._purges.refuses(key, entry, born):
                return Outcome.PURGED
            self._presence.add(name)
            there = drawer.see(base)
            sheet = None if isinstance(there, Flaw) or there.sheet.key != key else there.sheet
            if isinstance(sheet, Roster):
                return self._publish_beside(drawer, source, sheet, Place(name, label), entry)
            if sheet is not None:
                first = label_of(sheet.entry.variant)
                if first != label:
                    drawer.add_name(base, Place(name, first))
                    drawer.add(source, Place(name, label))
                    drawer.add_roster(base, key, [first, label])
                    return Outcome.STORED
                if self._is_later(sheet, entry):
                    return Outcome.OLDER
            drawer.add(source, base)
            return Outcome.STORED

    def renew(self, seen: Seen, entry: StoredResponse, born: int) -> Outcome | None:
        """Put `entry` in force for the file, in its spare slot.

        None if it does not fit there, or makes it another variant: the file must be written anew.
        """
        with self._open(seen.place.name) as drawer:
            there = _find_again(drawer, seen)
            if there is None:
                return Outcome.GONE
            sheet = there.sheet
            if self._purges.refuses(sheet.key, entry, born):
                return Outcome.PURGED
            if label_of(sheet.entry.variant) != label_of(entry.variant):
                return None
            renewed = replace(sheet, entry=entry, born=born, boot=self._boot)
            return Outcome.RENEWED if _rewrite(there.file, renewed) else None

    def vouch(self, seen: Seen, now: Instant) -> None:
        """The body was read as a whole and is right."""
        with self._open(seen.place.name) as drawer:
            there = _find_again(drawer, seen)
            if there is not None:
                entry = entry_now(there.sheet, self._boot, now)
                boot = self._boot
                _rewrite(there.file, replace(there.sheet, entry=entry, boot=boot, vouched=boot))

    def reopen(self, seen: Seen) -> Again | None:
        """The same file, open; None if it is gone."""
        with self._open(seen.place.name) as drawer:
            return _find_again(drawer, seen)

    def recheck(self, place: Place) -> Seen | Flaw:
        """Look at a file that seemed damaged, while nobody writes; if it is, it goes."""
        with self._open(place.name) as drawer:
            there = drawer.see(place)
            if there is Flaw.DAMAGED:
                drawer.remove(place)
            return there

    def remove(self, seen: Seen) -> Outcome:
        """Remove one file, if it is still there."""
        with self._open(seen.place.name) as drawer:
            for place in _places(seen):
                if drawer.holds(place, seen.status):
                    drawer.remove(place)
                    return Outcome.REMOVED
        return Outcome.GONE

    def discard(self, place: Place) -> None:
        """Remove whatever is there."""
        with self._open(place.name) as drawer:
            drawer.remove(place)

    def change(self, name: bytes, change: Change, now: Instant, *, durable: bool = False) -> int:
        """Do to every variant of a key what `change` says; returns how many were changed.

        What cannot be read is removed: nobody could say later what was done to it.
        """
        try:
            with self._open(name) as drawer:
                changed, rewritten = self._change_all(drawer, name, change, now)
                if durable and changed:
                    for seen in rewritten:
                        os.fdatasync(seen.file.fileno())
                    drawer.sync()
                return changed
        except FileNotFoundError:
            return 0

    def _publish_beside(
        self, drawer: Drawer, source: Source, roster: Roster, place: Place, entry: StoredResponse
    ) -> Outcome:
        there = drawer.see(place)
        sheet = None if isinstance(there, Flaw) else there.sheet
        if isinstance(sheet, Sheet) and self._is_later(sheet, entry):
            return Outcome.OLDER
        drawer.add(source, place)
        if place.label not in roster.labels:
            labels, surplus = self._bound(drawer, place.name, [*roster.labels, place.label])
            drawer.add_roster(Place(place.name), roster.key, labels)
            for label in surplus:
                drawer.remove(Place(place.name, label))
        return Outcome.STORED

    def _bound(
        self, drawer: Drawer, name: bytes, labels: list[bytes]
    ) -> tuple[list[bytes], list[bytes]]:
        """The labels that stay, and those of variants too many: the oldest."""
        if len(labels) <= self._variants:
            return labels, []
        held: dict[bytes, int] = {}
        for label in labels:
            seen = drawer.see(Place(name, label))
            if not isinstance(seen, Flaw) and isinstance(seen.sheet, Sheet):
                held[label] = seen.sheet.entry.date
        surplus = surplus_variants(list(held.values()), self._variants)
        gone = [list(held)[i] for i in surplus]
        return [label for label in held if label not in gone], gone

    def _change_all(
        self, drawer: Drawer, name: bytes, change: Change, now: Instant
    ) -> tuple[int, list[Seen]]:
        base = drawer.see(Place(name))
        if base is Flaw.ABSENT:
            return 0, []
        files: list[tuple[Seen, Sheet]] = []
        labels: tuple[bytes, ...] = ()
        sheet = None if isinstance(base, Flaw) else base.sheet
        if isinstance(base, Seen) and isinstance(sheet, Sheet):
            files = [(base, sheet)]
        elif isinstance(sheet, Roster):
            labels = sheet.labels
            for label in labels:
                seen = drawer.see(Place(name, label))
                if not isinstance(seen, Flaw) and isinstance(seen.sheet, Sheet):
                    files.append((seen, seen.sheet))
                else:
                    drawer.remove(Place(name, label))
        wanted = []
        for seen, told in files:
            entry = entry_now(told, self._boot, now)
            wanted.append((seen, told, entry, change(told, entry)))
        if all(after is None for *_, after in wanted):
            # The base first: without it nobody finds the others.
            for place in (Place(name), *(Place(name, label) for label in labels)):
                drawer.remove(place)
            return max(1, len(wanted)), []
        changed, rewritten = 0, []
        for seen, told, before, after in wanted:
            if after is before:
                continue
            changed += 1
            whole = None if after is None else replace(told, entry=after, boot=self._boot)
            if whole is not None and _rewrite(seen.file, whole):
                rewritten.append(seen)
            else:
                drawer.remove(seen.place)
        return changed, rewritten

    def _is_later(self, sheet: Sheet, entry: StoredResponse) -> bool:
        """Whether what is there came after `entry`: a slow fetch must not undo a later one."""
        return sheet.boot == self._boot and sheet.entry.received_steady > entry.received_steady

    def _open(self, name: bytes) -> AbstractContextManager[Drawer]:
        return open_drawer(self._objects, leaf_of(name), self._space)


def _places(seen: Seen) -> list[Place]:
    """Where a file may be by now: the base may have been given its label meanwhile."""
    if isinstance(seen.sheet, Roster):
        return [seen.place]
    return [seen.place, Place(seen.place.name, label_of(seen.sheet.entry.variant))]


def _find_again(drawer: Drawer, seen: Seen) -> Again | None:
    """The same file, open for writing, and its sheet of now; None if it is gone.

    Inodes are used again, so the body must be the same too by what the sheet says.
    """
    for place in _places(seen):
        there = drawer.see(place)
        if isinstance(there, Flaw) or not os.path.samestat(there.status, seen.status):
            continue
        now, then = there.sheet, seen.sheet
        if isinstance(now, Sheet) and isinstance(then, Sheet) and now.body == then.body:
            return Again(there.file, now)
    return None


def _rewrite(file: OpenFile, sheet: Sheet) -> bool:
    """Put the sheet into force in its file; False if it does not fit.

    Cut short in between, the old record is in force, or none is: never half a record.
    """
    spare = build_spare(sheet)
    if spare is None:
        return False
    fd = file.fileno()
    if os.pwrite(fd, spare, sheet.spare_at) < len(spare):
        raise OSError("a record was cut short")
    os.pwrite(fd, BLANK, sheet.slot_at)
    return True
