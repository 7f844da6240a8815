"""What is certainly not on the disk, told without asking the disk.

Most misses are for URLs that nobody stored, and the kernel can say so at once only of names
that were asked for lately: for all others a thread would have to wait for the directory. So
each directory has a small Bloom filter of the names in it, all of them in one file that
workers share. Whoever gives a file its name notes it here before; the survey of a directory
notes anew what is there, so what was removed meanwhile is forgotten. A filter speaks only once
a survey has filled it, since the machine was last booted: a power cut may have taken a note and
left the file that it was about. Whatever is not certain is looked for as before.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Iterator
from contextlib import suppress
from hashlib import blake2b

from edgebox.cache.disk.layout import LEAVES, leaf_of
from edgebox.cache.disk.lock import locked_octet
from edgebox.files.entry import OpenFile
from edgebox.files.residency import lives_in_memory

PRESENCE = b"presence"
REGION = 512  # octets a directory: 16 bits for each of 250 names, which a million make
_TAG = 8  # of them tell of which boot they are
_BITS = 8 * (REGION - _TAG)
# One bit for each of these slices of a name: then (1 - e^(-4 * 250 / 4032))^4 of what is not there
# is looked for.
_SLICES = (2, 5, 8, 11)


class Presence:
    """The filters of one cache directory. Raises OSError or Busy where not told otherwise."""

    def __init__(self, directory: bytes, boot: bytes) -> None:
        self._boot = blake2b(boot, digest_size=_TAG).digest()
        self._lock = threading.Lock()  # the other keeps processes apart, not threads
        self._path = os.path.join(directory, PRESENCE)
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        self._file = OpenFile(os.open(self._path, flags, 0o600))
        if os.fstat(self._file.fileno()).st_size < LEAVES * REGION:
            os.ftruncate(self._file.fileno(), LEAVES * REGION)
        self._region = bytearray(REGION)  # the loop's
        # On tmpfs the kernel knows no RWF_NOWAIT, and nothing has to be waited for.
        self._flags = 0 if lives_in_memory(self._file.fileno()) else os.RWF_NOWAIT

    def close(self) -> None:
        self._file.release()

    @property
    def lost(self) -> bool:
        """Whether the file at the path is another by now, or none."""
        try:
            return not os.path.samestat(os.stat(self._path), os.fstat(self._file.fileno()))
        except OSError:
            return True

    def lacks(self, name: bytes) -> bool:
        """Whether nothing is stored under this name, for certain. For the loop: never waits."""
        region = self._region
        try:
            count = os.preadv(self._file.fileno(), [region], leaf_of(name) * REGION, self._flags)
        except OSError:  # not in the page cache
            return False
        if count < REGION or region[:_TAG] != self._boot:
            return False
        return any(not region[at] & bit for at, bit in _marks(name))

    def load(self, name: bytes) -> None:
        """Have what `lacks` reads in the page cache. For threads; raises nothing."""
        with suppress(OSError):
            os.pread(self._file.fileno(), REGION, leaf_of(name) * REGION)

    def add(self, name: bytes) -> None:
        """A file of this name is about to be there."""
        at = leaf_of(name) * REGION
        fd = self._file.fileno()
        with self._lock, locked_octet(fd, at):
            region = bytearray(os.pread(fd, REGION, at).ljust(REGION, b"\0"))
            if region[:_TAG] != self._boot:  # nobody goes by it before a survey has filled it
                region[:] = bytes(REGION)
            os.pwrite(fd, _marked(region, (name,)), at)

    def settle(self, leaf: int, names: Iterable[bytes]) -> None:
        """These are all the names in a directory, whose lock is held."""
        region = bytearray(self._boot.ljust(REGION, b"\0"))
        fd, at = self._file.fileno(), leaf * REGION
        with self._lock, locked_octet(fd, at):
            os.pwrite(fd, _marked(region, names), at)

    def settle_missing(self, leaf: int, path: bytes) -> None:
        """There is no directory at `path`, unless somebody is just making it."""
        fd, at = self._file.fileno(), leaf * REGION
        with self._lock, locked_octet(fd, at):
            if not os.path.lexists(path):
                os.pwrite(fd, self._boot.ljust(REGION, b"\0"), at)


def _marked(region: bytearray, names: Iterable[bytes]) -> bytearray:
    for name in names:
        for at, bit in _marks(name):
            region[at] |= bit
    return region


def _marks(name: bytes) -> Iterator[tuple[int, int]]:
    """(octet, bit) of a name, which is a hash: its first twelve bits are the directory's."""
    for i in _SLICES:
        place = int.from_bytes(name[i : i + 3], "big") % _BITS
        yield _TAG + (place >> 3), 1 << (place & 7)
