"""Finds what is stored under a key, and lets nothing pass that is not certainly right.

What is checked before anything is handed out: at each look the trailer's checksums, the key
and the length; of a body that comes with its octets, those too; of one up to 16 MiB, all of it
the first time that this process opens the file and whenever it has changed since. Larger ones
take too long for that: one that was written before the machine last booted, so that a power
cut may have torn it, is not found before the housekeeper has read it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from edgebox.cache.answer import Instant
from edgebox.cache.disk.filer import Filer
from edgebox.cache.disk.format import Roster, Sheet, entry_now
from edgebox.cache.disk.layout import Place, name_of
from edgebox.cache.disk.outcome import Busy
from edgebox.cache.disk.purgelog import PurgeLog
from edgebox.cache.disk.reader import Flaw, Seen, body_is_right, read_content, see
from edgebox.cache.entry import StoredResponse
from edgebox.files.entry import Docroot, OpenFile
from edgebox.http.message import FileSlice

CHECKED_AT_ONCE = 16 * 1024 * 1024  # 7 ms of processor time (2026-11-30)
_REMEMBERED = 16 * 1024  # bodies found right by this process, some 3 MB


@dataclass(frozen=True, slots=True)
class Filed:
    """A stored response on disk. Who gets it must `release()` it.

    The body is `size` octets of `file` from `offset` on; `content` has them where they are few.
    """

    key: bytes
    entry: StoredResponse
    size: int
    content: bytes | None
    seen: Seen
    offset: int = 0

    @property
    def file(self) -> OpenFile:
        return self.seen.file

    def body(self) -> FileSlice:
        """For a response, which then holds the file too."""
        return FileSlice(self.file.acquire(), self.offset, self.size)

    def release(self) -> None:
        self.file.release()


class Finder:
    """Looks below `objects`. `content_size`: bodies up to that come with their octets.

    `suspect` is told the name of a key whose files the housekeeper should look at.
    """

    def __init__(
        self,
        objects: bytes,
        filer: Filer,
        purges: PurgeLog,
        content_size: int,
        suspect: Callable[[bytes], None],
    ) -> None:
        self._objects = Docroot(objects, "never")
        self._filer = filer
        self._purges = purges
        self._content_size = content_size
        self._suspect = suspect
        self._right: dict[tuple[int, int], None] = {}
        self.flaws: dict[Flaw, int] = dict.fromkeys(Flaw, 0)

    def find(self, key: bytes, boot: bytes, now: Instant, *, nowait: bool) -> list[Filed] | None:
        """All variants of a key; None, with `nowait` only: the disk would have to be waited for.

        Raises no OSError: what cannot be read is not there.
        """
        try:
            return self._find(key, boot, now, nowait)
        except (OSError, Busy):
            self.flaws[Flaw.UNREADABLE] += 1
            return []

    def _find(self, key: bytes, boot: bytes, now: Instant, nowait: bool) -> list[Filed] | None:
        """Descriptors that get lost on the way are closed as they do."""
        seen = self._see_all(key, nowait)
        if seen is None:
            return None
        found = []
        for one in seen:
            filed = self._admit(key, one, boot, now, nowait)
            if filed is None:
                return None
            if isinstance(filed, Filed):
                found.append(filed)
            else:
                self.flaws[filed] += 1
        return found

    def _see_all(self, key: bytes, nowait: bool) -> list[Seen] | None:
        """The files of a key that are whole as far as their trailers tell."""
        base = Place(name_of(key))
        seen = self._see(base, nowait)
        if seen is None:
            return None
        if isinstance(seen, Flaw) or seen.sheet.key != key:
            return []
        if isinstance(seen.sheet, Sheet):
            return [seen]
        variants = []
        for label in seen.sheet.labels:
            one = self._see(Place(base.name, label), nowait)
            if one is None:
                return None
            if isinstance(one, Seen):
                variants.append(one)
        return variants

    def _see(self, place: Place, nowait: bool) -> Seen | Flaw | None:
        seen = see(self._objects, place, nowait=nowait)
        if seen is Flaw.DAMAGED:
            if nowait:
                return None
            # Perhaps its record was just being renewed.
            seen = self._filer.recheck(place)
        if isinstance(seen, Flaw) and seen is not Flaw.ABSENT:
            self.flaws[seen] += 1
            self._suspect(place.name)
        return seen

    def _admit(
        self, key: bytes, seen: Seen, boot: bytes, now: Instant, nowait: bool
    ) -> Filed | Flaw | None:
        sheet = seen.sheet
        if isinstance(sheet, Roster) or sheet.key != key:
            self._suspect(seen.place.name)
            return Flaw.DAMAGED
        entry = self._purges.judge(key, entry_now(sheet, boot, now), sheet.born, now)
        if entry is None:
            return Flaw.PURGED
        told: bytes | Flaw | bool | None
        if sheet.length <= self._content_size:
            told = read_content(seen, sheet, nowait=nowait)
        else:
            told = self._check(seen, sheet, boot, nowait)
        if told is None or (told is Flaw.DAMAGED and nowait):
            return None
        if not isinstance(told, Flaw):
            content = told if isinstance(told, bytes) else None
            # Who keeps it for a later renewal is not to keep the tail.
            light = Seen(seen.place, seen.file, seen.status, sheet)
            return Filed(key, entry, sheet.length, content, light)
        self._suspect(seen.place.name)
        if told is Flaw.DAMAGED:
            self._filer.remove(seen)
        return told

    def _check(self, seen: Seen, sheet: Sheet, boot: bytes, nowait: bool) -> Flaw | bool | None:
        """True if the body is known to be right."""
        known = (seen.status.st_ino, seen.status.st_mtime_ns)
        if known in self._right:
            return True
        if sheet.length > CHECKED_AT_ONCE:
            return True if sheet.vouched == boot else Flaw.UNCHECKED
        if nowait:
            return None
        if not body_is_right(seen.file.fileno(), sheet):
            return Flaw.DAMAGED
        self._remember(known)
        return True

    def _remember(self, known: tuple[int, int]) -> None:
        self._right[known] = None
        if len(self._right) > _REMEMBERED:
            del self._right[next(iter(self._right))]
