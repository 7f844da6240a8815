"""One answer on its way to the disk: its octets are appended as they arrive.

The file has no name until it is whole, and vanishes with its process. It can be read from
offset 0 while it grows and after, whatever becomes of it: who reads holds `file`. Room is
reserved before it is taken, and given back when the file is closed for good.
"""

from __future__ import annotations

import fcntl
import itertools
import os
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol
from zlib import crc32

from edgebox.cache.disk.drawer import Source
from edgebox.cache.disk.format import Sheet, build_trailer
from edgebox.cache.disk.layout import footprint
from edgebox.cache.disk.outcome import Busy, Outcome, outcome_of
from edgebox.cache.disk.space import Space
from edgebox.cache.entry import StoredResponse
from edgebox.files.compression.newfile import TEMPORARY
from edgebox.files.entry import OpenFile

FIRST = 64 * 1024  # reserved where the size is not known; doubled each time it does not suffice
LARGEST_STEP = 8 * 1024 * 1024

_numbers = itertools.count()


class UnnamedFile(OpenFile):
    """A file that takes room until its last reader is gone, or until it has a name."""

    __slots__ = ("_space", "reserved", "temporary")

    def __init__(self, fd: int, space: Space, temporary: bytes | None) -> None:
        super().__init__(fd)
        self._space = space
        self.reserved = 0
        self.temporary = temporary

    def settle(self) -> None:
        """It has a name, and is counted under that."""
        self.temporary = None
        reserved, self.reserved = self.reserved, 0
        with suppress(OSError):  # then it stays reserved until this process ends
            self._space.release(reserved)

    def _close(self) -> None:
        if self.temporary is not None:
            with suppress(OSError):
                os.unlink(self.temporary)
        super()._close()
        if self.reserved:
            self.settle()


class Home(Protocol):
    """Where a writing ends up: the store."""

    boot: bytes

    def publish(
        self, source: Source, key: bytes, entry: StoredResponse, born: int
    ) -> Outcome: ...  # raises OSError and Busy

    def heed(self, outcome: Outcome, size: int = 0) -> Outcome: ...


class Writing:
    """A file that grows. Its methods wait for the disk, raise nothing, and are called in turn.

    `outcome` is None as long as all went well.
    """

    def __init__(self, home: Home, space: Space, file: UnnamedFile) -> None:
        self.file = file
        self.size = 0
        self.outcome: Outcome | None = None
        self._home = home
        self._space = space
        self._checksum = 0

    def fileno(self) -> int:
        """The body is read from here, from offset 0 up to `size`, by pread(2) or sendfile(2)."""
        return self.file.fileno()

    def write(self, octets: bytes) -> bool:
        """Append; False, and `outcome` set, if it cannot be: what was written can still be read."""
        return self.outcome is None and self._attempt(lambda: self._append(octets))

    def commit(self, key: bytes, entry: StoredResponse, born: int) -> Outcome:
        """All is here: give it its name. `born` is the store's mark of when its fetch began."""
        if self.outcome is None:
            self._attempt(lambda: self._finish(key, entry, born))
        assert self.outcome is not None
        return self.outcome

    def copy_from(self, fd: int, sheet: Sheet) -> bool:
        """Have the body of another file of the store for one's own."""
        return self.outcome is None and self._attempt(lambda: self._copy(fd, sheet))

    def close(self) -> None:
        """Be done with it, stored or not. Readers that hold `file` keep it."""
        self.file.release()

    def reserve(self, size: int) -> Outcome | None:
        """Make sure that a file of `size` may be written; why not, if not."""
        if size > self._space.limit // 2:
            return Outcome.TOO_LARGE
        missing = footprint(size) - self.file.reserved
        if missing <= 0:
            return None
        for step in (max(missing, min(self.file.reserved, LARGEST_STEP)), missing):
            if self._space.reserve(step):
                self.file.reserved += step
                return None
        return Outcome.NO_ROOM

    def _attempt(self, job: Callable[[], Outcome | None]) -> bool:
        try:
            self.outcome = job()
        except Busy:
            self.outcome = Outcome.BUSY
        except OSError as error:
            self.outcome = outcome_of(error)
        if self.outcome is not None:
            self._home.heed(self.outcome, self.size)
        return self.outcome is None

    def _append(self, octets: bytes) -> Outcome | None:
        refusal = self.reserve(self.size + len(octets))
        if refusal is None:
            self._put(octets)
            self._checksum = crc32(octets, self._checksum)
        return refusal

    def _put(self, octets: bytes) -> None:
        view = memoryview(octets)
        while view:
            count = os.pwrite(self.fileno(), view, self.size)
            view = view[count:]
            self.size += count

    def _copy(self, fd: int, sheet: Sheet) -> Outcome | None:
        refusal = self.reserve(sheet.length)
        if refusal is not None:
            return refusal
        while self.size < sheet.length:
            # Read and written: the checksum goes along, so that a damaged body stays known as such.
            piece = os.pread(fd, min(LARGEST_STEP, sheet.length - self.size), self.size)
            if not piece:
                return Outcome.GONE
            self._put(piece)
        self._checksum = sheet.checksum
        return None

    def _finish(self, key: bytes, entry: StoredResponse, born: int) -> Outcome:
        trailer = build_trailer(key, entry, born, self._home.boot, (self.size, self._checksum))
        if trailer is None:
            return Outcome.TOO_LARGE
        refusal = self.reserve(self.size + len(trailer))
        if refusal is not None:
            return refusal
        body = self.size
        try:
            self._put(trailer)
            source = Source(self.fileno(), self.size, self.file.temporary)
            outcome = self._home.publish(source, key, entry, born)
        finally:
            self.size = body
        if outcome is Outcome.STORED:
            self.file.settle()
        return outcome


def open_unnamed(objects: bytes, space: Space, *, unnamed: bool) -> UnnamedFile:
    """A new file; with a temporary name, locked by us, where the file system knows no other way.

    OSError as open(2).
    """
    if unnamed:
        fd = os.open(objects, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600)
        return UnnamedFile(fd, space, None)
    path = os.path.join(objects, b"%s%d-%d" % (TEMPORARY, os.getpid(), next(_numbers)))
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    fcntl.flock(fd, fcntl.LOCK_EX)
    return UnnamedFile(fd, space, path)
