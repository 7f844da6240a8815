"""Opens a file of the store and reads what it says of itself; with `nowait`, only from RAM.

What comes back is whole and undamaged as far as its trailer goes, and its body as long as it
should be; whether the body's octets are right is for `body_is_right` to say, which reads them
all. Knows no directories and no policy.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from zlib import crc32

from edgebox.cache.disk.format import WINDOW, Roster, Sheet, measure, parse
from edgebox.cache.disk.layout import Place
from edgebox.files.entry import Docroot, Missing, OpenFile
from edgebox.files.opener import Opened, open_file
from edgebox.files.residency import read_blocking, resident_read

PIECE = 256 * 1024


class Flaw(Enum):
    """Why there is nothing to be had at a place."""

    ABSENT = "absent"
    DAMAGED = "damaged"  # cut short, altered, or not of this store
    UNREADABLE = "unreadable"  # the disk failed, or no descriptors are left: it may be fine
    PURGED = "purged"  # and not removed yet
    UNCHECKED = "unchecked"  # the housekeeper has to read its body first


@dataclass(frozen=True, slots=True)
class Seen:
    """An open file and what it says. `tail` are its last octets, of small files all."""

    place: Place
    file: OpenFile
    status: os.stat_result
    sheet: Sheet | Roster
    tail: bytes = b""


def see(objects: Docroot, place: Place, *, nowait: bool) -> Seen | Flaw | None:
    """Look at a place below `objects`. None, with `nowait` only: ask again without, in a thread."""
    try:
        opened = open_file(objects, place.path, nowait=nowait)
    except OSError:  # of close(2), at worst
        return Flaw.UNREADABLE
    if opened is None:
        return None
    if isinstance(opened, Opened):
        return see_open(place, OpenFile(opened.fd), opened.status, nowait=nowait)
    if opened in (Missing.IO_ERROR, Missing.NO_DESCRIPTORS, Missing.FORBIDDEN):
        return Flaw.UNREADABLE
    # A symlink, a directory or a device is none of ours; the housekeeper will meet it.
    return Flaw.ABSENT


def see_open(
    place: Place, file: OpenFile, status: os.stat_result, *, nowait: bool
) -> Seen | Flaw | None:
    """The same for a file that is open already; it is released unless it comes back."""
    try:
        told = _read_sheet(file.fileno(), status, nowait)
    except OSError:
        told = Flaw.UNREADABLE
    if not isinstance(told, tuple):
        file.release()
        return told
    return Seen(place, file, status, *told)


def read_content(seen: Seen, sheet: Sheet, *, nowait: bool) -> bytes | Flaw | None:
    """All of a body that is small enough for RAM, checked."""
    if len(seen.tail) == seen.status.st_size:
        content: bytes | None = seen.tail[: sheet.length]
    else:
        read = _reader(nowait)
        try:
            content = read(seen.file.fileno(), 0, sheet.length)
        except OSError:
            return Flaw.UNREADABLE
    if content is None:
        return None
    right = len(content) == sheet.length and crc32(content) == sheet.checksum
    return content if right else Flaw.DAMAGED


def body_is_right(fd: int, sheet: Sheet, pause: Callable[[], None] = lambda: None) -> bool:
    """Read all of a body and compare its checksum; `pause` is called after each piece. OSError."""
    checksum = position = 0
    while position < sheet.length:
        piece = os.pread(fd, min(PIECE, sheet.length - position), position)
        if not piece:
            return False
        checksum = crc32(piece, checksum)
        position += len(piece)
        pause()
    return checksum == sheet.checksum


def _read_sheet(
    fd: int, status: os.stat_result, nowait: bool
) -> tuple[Sheet | Roster, bytes] | Flaw | None:
    if not stat.S_ISREG(status.st_mode):
        return Flaw.DAMAGED
    read, size = _reader(nowait), status.st_size
    tail = read(fd, max(0, size - WINDOW), min(size, WINDOW))
    if tail is None:
        return None
    needed = measure(tail, size)
    if needed is None:
        return Flaw.DAMAGED
    if needed > len(tail):
        tail = read(fd, size - needed, needed)
        if tail is None:
            return None
    sheet = parse(tail[-needed:]) if len(tail) >= needed else None
    return Flaw.DAMAGED if sheet is None else (sheet, tail)


def _reader(nowait: bool) -> Callable[[int, int, int], bytes | None]:
    return resident_read if nowait else read_blocking
