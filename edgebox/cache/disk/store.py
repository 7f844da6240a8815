"""The disk store of one worker, as calls that may wait for the disk: for threads.

Only `find_nowait`, `touch` and `mark` are for the loop. Nothing raises OSError but opening:
changes end in an Outcome, and what cannot be read is not there. After an error that the next
attempt would meet too, writing pauses; the operator is warned once.
"""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass

from edgebox.cache.answer import Instant
from edgebox.cache.disk import clock
from edgebox.cache.disk.drawer import Source
from edgebox.cache.disk.filer import Filer
from edgebox.cache.disk.finder import Filed, Finder
from edgebox.cache.disk.format import Sheet
from edgebox.cache.disk.layout import OBJECTS, name_of
from edgebox.cache.disk.notes import Kind as NoteKind
from edgebox.cache.disk.notes import NoteSender
from edgebox.cache.disk.outcome import Busy, Outcome, outcome_of
from edgebox.cache.disk.presence import Presence
from edgebox.cache.disk.purge import Kind, Purge, apply
from edgebox.cache.disk.purgelog import PurgeLog
from edgebox.cache.disk.space import Space
from edgebox.cache.disk.writing import Writing, open_unnamed
from edgebox.cache.entry import StoredResponse
from edgebox.files.compression.newfile import can_be_unnamed
from edgebox.files.entry import OpenFile


@dataclass(frozen=True, slots=True)
class Settings:
    """`content_size`: bodies up to that come with their octets. Octets."""

    directory: bytes
    limit: int
    variants: int = 32
    content_size: int = 64 * 1024


@dataclass(frozen=True, slots=True)
class StoreStatistics:
    """Octets, and counts since start.

    `counted`: the housekeeper knows what lies there, so there may be more. `dark`: a purge
    could not be written down. `dropped`: names that the housekeeper was not told.
    """

    kept: int
    reserved: int
    limit: int
    counted: bool
    paused: bool
    dark: bool
    finds: int
    found: int
    outcomes: dict[str, int]
    flaws: dict[str, int]
    dropped: int


class Store:
    """Opened on a directory, which is made if need be. Raises OSError or Busy if it cannot be."""

    def __init__(
        self, settings: Settings, warn: Callable[[str], None], *, dark: bool = False
    ) -> None:
        """`dark`: nothing is to be found before everything was purged, at the next `turn`."""
        self.settings = settings
        self.boot = clock.boot_id()
        self._warn = warn
        self._warned: set[Outcome] = set()
        self._paused_until = 0.0
        self._missed, self._made_up = int(dark), 0  # purges that could not be written down
        self._lock = threading.Lock()
        self._outcomes: Counter[Outcome] = Counter()
        self._finds = self._found = 0
        directory = settings.directory
        self._objects = os.path.join(directory, OBJECTS)
        os.makedirs(self._objects, 0o700, exist_ok=True)
        self._unnamed = can_be_unnamed(self._objects)
        with ExitStack() as stack:
            self._directory = OpenFile(
                os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
            )
            stack.callback(self._directory.release)
            self._space = Space(directory, settings.limit, writes=True)
            stack.callback(self._space.close)
            self._purges = PurgeLog(directory, self.boot)
            stack.callback(self._purges.close)
            self._presence = Presence(directory, self.boot)
            stack.callback(self._presence.close)
            self._notes = NoteSender(self._directory.fileno())
            stack.callback(self._notes.close)
            self._stack = stack.pop_all()
        self._filer = Filer(
            self._objects, self._space, self._purges, self._presence, self.boot, settings.variants
        )
        self._finder = Finder(
            self._objects, self._filer, self._purges, settings.content_size, self._notes.look
        )

    @property
    def _dark(self) -> bool:
        return self._missed != self._made_up

    def darken(self) -> None:
        """A purge was missed: nothing is to be found before everything was purged."""
        with self._lock:
            self._missed += 1

    def close(self) -> None:
        """Only when no call is under way and no writing is left."""
        self._stack.close()

    def abandon(self) -> None:
        """Another takes its place. Calls under way may end, and close the rest as they do."""
        self._stack.pop_all()
        self._notes.close()

    # -- out

    def mark(self) -> int:
        """A mark of now, to be taken before the upstream is asked, and given when storing."""
        try:
            return self._purges.mark()
        except OSError:
            return 0  # before all purges: nothing comes of it

    def since(self, mark: int) -> tuple[Purge, ...] | None:
        """The purges after a mark, whoever made them, but no KEY purges; None: some are unknown."""
        try:
            return self._purges.since(mark)
        except OSError:
            return None

    def key_purged(self, key: bytes, mark: int) -> bool:
        """Whether there was a KEY purge after a mark of this key, or of one in 65,536 others."""
        return self._purges.key_purged(key, mark)

    def find(self, key: bytes, now: Instant) -> list[Filed]:
        """Every variant stored under a key, each to be released."""
        self._presence.load(name_of(key))
        found = [] if self._dark else self._finder.find(key, self.boot, now, nowait=False)
        return self._count(found) or []

    def find_nowait(self, key: bytes, now: Instant) -> list[Filed] | None:
        """The same for the loop; None: ask `find` in a thread."""
        if self._dark or self._presence.lacks(name_of(key)):
            return self._count([])
        return self._count(self._finder.find(key, self.boot, now, nowait=True))

    def touch(self, key: bytes) -> None:
        """It was used, though not from here: its file is to stay."""
        self._notes.use(name_of(key))

    # -- in

    def begin(self, size_hint: int | None) -> Writing | Outcome:
        """A file for an answer of that many octets, if that is known."""
        if self._paused():
            return self.heed(Outcome.PAUSED)
        try:
            file = open_unnamed(self._objects, self._space, unnamed=self._unnamed)
            writing = Writing(self, self._space, file)
            refusal = None if size_hint is None else writing.reserve(size_hint)
        except Busy:
            refusal = Outcome.BUSY
        except OSError as error:
            refusal = outcome_of(error)
        return writing if refusal is None else self.heed(refusal, size_hint or 0)

    def keep(self, key: bytes, entry: StoredResponse, body: bytes, born: int) -> Outcome:
        """Store an answer that is here as a whole."""
        writing = self.begin(len(body))
        if isinstance(writing, Outcome):
            return writing
        try:
            writing.write(body)
            return writing.commit(key, entry, born)
        finally:
            writing.close()

    def renew(self, filed: Filed, entry: StoredResponse, born: int) -> Outcome:
        """Replace the record of a stored response: after a 304, with its mark. The body stays.

        `filed` may have been released.
        """
        if self._paused():
            return self.heed(Outcome.PAUSED)
        return self._attempt(lambda: self._renew(filed, entry, born))

    def remove(self, filed: Filed) -> Outcome:
        """Remove one stored response, if it is still there. It may have been released."""
        outcome = self._attempt(lambda: self._filer.remove(filed.seen))
        self._notes.look(filed.seen.place.name)
        return outcome

    def purge(self, purge: Purge, now: Instant, *, durable: bool = True) -> Outcome:
        """From the moment when this returns nothing is found that the purge concerns.

        `durable`: nor after a power cut. If it cannot be written down, nothing is found any
        more until everything could be purged. ValueError if it names more than 1,900 octets.
        """
        outcome = self._attempt(lambda: self._purge(purge, now, durable))
        if not outcome.done:
            self.darken()
        return outcome

    def publish(self, source: Source, key: bytes, entry: StoredResponse, born: int) -> Outcome:
        """For `Writing`. Raises OSError and Busy."""
        try:
            return self._filer.publish(source, key, entry, born)
        finally:
            self._notes.look(name_of(key))

    def heed(self, outcome: Outcome, size: int = 0) -> Outcome:
        """Count an outcome, and draw the consequences."""
        with self._lock:
            self._outcomes[outcome] += 1
        if outcome in (Outcome.STORED, Outcome.RENEWED):
            self._warned.clear()
        elif outcome is Outcome.NO_ROOM:
            self._notes.tell(NoteKind.ROOM, size)
        elif outcome is Outcome.DISK_FULL:
            self._notes.tell(NoteKind.FULL)
        if outcome.pause:
            self._paused_until = time.monotonic() + outcome.pause
            if outcome not in self._warned:
                self._warned.add(outcome)
                self._warn(
                    f"nothing is stored on disk for {outcome.pause:.0f} s: {outcome.value}"
                    f" ({os.fsdecode(self.settings.directory)})"
                )
        return outcome

    # -- housekeeping of its own

    def turn(self, now: Instant) -> None:
        """To be called every second: tell what was used, and recover from failed purges."""
        self._notes.flush()
        missed = self._missed
        if missed != self._made_up:
            everything = Purge(kind=Kind.EVERYTHING)
            if self._attempt(lambda: self._purge(everything, now, True)).done:
                self._made_up = missed  # and no more than that

    @property
    def lost(self) -> bool:
        """Whether somebody emptied the directory: the store must be opened anew."""
        return self._purges.lost or self._space.lost or self._presence.lost

    def statistics(self) -> StoreStatistics:
        kept = reserved = 0
        counted = False
        with suppress(OSError):
            kept, reserved = self._space.taken()
            counted = self._space.counted
        return StoreStatistics(
            kept=kept,
            reserved=reserved,
            limit=self.settings.limit,
            counted=counted,
            paused=self._paused(),
            dark=self._dark,
            finds=self._finds,
            found=self._found,
            outcomes={outcome.value: count for outcome, count in self._outcomes.items()},
            flaws={flaw.value: count for flaw, count in self._finder.flaws.items() if count},
            dropped=self._notes.dropped,
        )

    def _renew(self, filed: Filed, entry: StoredResponse, born: int) -> Outcome:
        outcome = self._filer.renew(filed.seen, entry, born)
        if outcome is None:
            outcome = self._write_anew(filed, entry, born)
        self._notes.look(filed.seen.place.name)
        return outcome

    def _write_anew(self, filed: Filed, entry: StoredResponse, born: int) -> Outcome:
        """The record outgrew its slot, or is another variant's now."""
        source = self._filer.reopen(filed.seen)
        if source is None:
            return Outcome.GONE
        writing = self.begin(source.sheet.length)
        if isinstance(writing, Outcome):
            return writing
        try:
            writing.copy_from(source.file.fileno(), source.sheet)
            outcome = writing.commit(filed.key, entry, born)
        finally:
            writing.close()
        if outcome is Outcome.STORED:
            self._filer.remove(filed.seen)
            return Outcome.RENEWED
        return outcome

    def _purge(self, purge: Purge, now: Instant, durable: bool) -> Outcome:
        wanted = purge.kind
        purge = self._purges.add(purge, now, durable=durable)
        if purge.kind is not wanted:
            self._warn("too many purges wait for the housekeeper: everything was purged instead")
        if purge.kind is not Kind.KEY:
            self._notes.tell(NoteKind.PURGED)
            return Outcome.REMOVED
        key, name = purge.value, name_of(purge.value)

        def change(sheet: Sheet, entry: StoredResponse) -> StoredResponse | None:
            return apply(purge.mode, entry, now) if sheet.key == key else entry

        if self._filer.change(name, change, now, durable=durable):
            self._notes.look(name)
        return Outcome.REMOVED

    def _attempt(self, job: Callable[[], Outcome]) -> Outcome:
        try:
            outcome = job()
        except Busy:
            outcome = Outcome.BUSY
        except OSError as error:
            outcome = outcome_of(error)
        return self.heed(outcome)

    def _paused(self) -> bool:
        return time.monotonic() < self._paused_until

    def _count(self, found: list[Filed] | None) -> list[Filed] | None:
        if found is not None:
            self._finds += 1
        if found:
            self._found += 1
            self._notes.use(found[0].seen.place.name)
        return found
