"""One directory of files, locked: whoever changes the names in it does so alone.

The directory itself is what is locked, so there is no lock file, and a killed holder lets go.
Files are charged to the store's space before they get a name and credited after they lost
it. A name is given by linkat(2) or rename(2), so whoever opens it finds a whole file, the old
or the new. Nothing is synced: a file that a power cut tears does not pass for a whole one.
"""

from __future__ import annotations

import errno
import itertools
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from edgebox.cache.disk.format import build_roster
from edgebox.cache.disk.layout import LEAVES, Place, directory_of, footprint, parse_file
from edgebox.cache.disk.lock import locked
from edgebox.cache.disk.reader import Flaw, Seen, see_open
from edgebox.cache.disk.space import Space
from edgebox.files.compression.newfile import TEMPORARY
from edgebox.files.entry import OpenFile

_OPEN = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# A symlink, a directory, a socket or a device has our name.
_FOREIGN = {errno.ELOOP, errno.EISDIR, errno.ENXIO, errno.ENODEV}
_numbers = itertools.count()


@dataclass(frozen=True, slots=True)
class Source:
    """A file without a name of its own yet: `temporary` is the path it has for now, if any."""

    fd: int
    size: int
    temporary: bytes | None = None


class Drawer:
    """A directory while its lock is held. Use `open_drawer()`. Raises OSError throughout."""

    def __init__(self, fd: int, leaf: int, space: Space) -> None:
        self._fd = fd
        self._leaf = leaf
        self._space = space

    def see(self, place: Place) -> Seen | Flaw:
        """What is at a place, open for reading and writing."""
        try:
            fd = os.open(place.file, _OPEN, dir_fd=self._fd)
        except FileNotFoundError:
            return Flaw.ABSENT
        except OSError as error:
            if error.errno in _FOREIGN:
                return Flaw.DAMAGED
            raise
        file = OpenFile(fd)
        seen = see_open(place, file, os.fstat(fd), nowait=False)
        assert seen is not None
        return seen

    def add(self, source: Source, place: Place) -> None:
        """Give a file its name, in place of what has it."""
        charge = footprint(source.size)
        self._space.charge(self._leaf, charge)
        try:
            replaced = self._status(place)
            if replaced is not None and not stat.S_ISREG(replaced.st_mode):
                self.remove(place)
                replaced = None
            self._name(source, place, replaced is not None)
        except BaseException:
            self._space.credit(self._leaf, charge)
            raise
        if replaced is not None:
            self._space.credit(self._leaf, footprint(replaced.st_size))

    def add_name(self, place: Place, other: Place) -> None:
        """Let the file at `place` be at `other` too."""
        self.remove(other)
        charge = footprint(os.stat(place.file, dir_fd=self._fd).st_size)
        self._space.charge(self._leaf, charge)
        try:
            os.link(place.file, other.file, src_dir_fd=self._fd, dst_dir_fd=self._fd)
        except BaseException:
            self._space.credit(self._leaf, charge)
            raise

    def add_roster(self, place: Place, key: bytes, labels: list[bytes]) -> None:
        octets = build_roster(key, labels)
        name = _temporary()
        fd = os.open(
            name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=self._fd
        )
        try:
            if os.write(fd, octets) < len(octets):
                raise OSError("a roster was cut short")
            path = b"/proc/self/fd/%d/%s" % (self._fd, name)
            self.add(Source(fd, len(octets), path), place)
        except BaseException:
            with suppress(OSError):
                os.unlink(name, dir_fd=self._fd)
            raise
        finally:
            os.close(fd)

    def remove(self, place: Place) -> bool:
        """Remove whatever is there; whether there was something."""
        status = self._status(place)
        if status is None:
            return False
        if stat.S_ISDIR(status.st_mode):
            os.rmdir(place.file, dir_fd=self._fd)
            return True
        os.unlink(place.file, dir_fd=self._fd)
        if stat.S_ISREG(status.st_mode):
            self._space.credit(self._leaf, footprint(status.st_size))
        return True

    def holds(self, place: Place, file: os.stat_result) -> bool:
        """Whether it is this file that is there."""
        status = self._status(place)
        return status is not None and os.path.samestat(status, file)

    def entries(self) -> Iterator[tuple[Place, os.stat_result]]:
        """All that has a name of ours. What a kill left of a renaming is removed on the way."""
        with os.scandir(self._fd) as entries:
            for entry in entries:
                file = os.fsencode(entry.name)
                place = parse_file(self._leaf, file)
                with suppress(FileNotFoundError):
                    if place is not None:
                        yield place, entry.stat(follow_symlinks=False)
                    elif file.startswith(TEMPORARY):
                        os.unlink(file, dir_fd=self._fd)

    def settle(self, size: int) -> None:
        """The files here take `size` octets."""
        self._space.settle(self._leaf, size)

    def sync(self) -> None:
        os.fsync(self._fd)

    def _name(self, source: Source, place: Place, replaces: bool) -> None:
        if source.temporary is not None:
            os.rename(source.temporary, place.file, dst_dir_fd=self._fd)
        elif not replaces:
            self._link(source.fd, place.file)
        else:  # linkat(2) replaces nothing
            name = _temporary()
            self._link(source.fd, name)
            try:
                os.rename(name, place.file, src_dir_fd=self._fd, dst_dir_fd=self._fd)
            except BaseException:
                os.unlink(name, dir_fd=self._fd)
                raise

    def _link(self, fd: int, name: bytes) -> None:
        # With src_dir_fd given, os.link calls linkat(AT_SYMLINK_FOLLOW), as open(2) asks.
        path = b"/proc/self/fd/%d" % fd
        os.link(path, name, src_dir_fd=fd, dst_dir_fd=self._fd, follow_symlinks=True)

    def _status(self, place: Place) -> os.stat_result | None:
        try:
            return os.stat(place.file, dir_fd=self._fd, follow_symlinks=False)
        except FileNotFoundError:
            return None


@contextmanager
def open_drawer(
    objects: bytes, leaf: int, space: Space, *, create: bool = False
) -> Iterator[Drawer]:
    """Lock a directory. FileNotFoundError if it is not there; else OSError or Busy."""
    path = os.path.join(objects, directory_of(leaf))
    try:
        fd = os.open(path, _DIRECTORY)
    except FileNotFoundError:
        if not create:
            raise
        with suppress(FileExistsError):
            os.mkdir(path, 0o700)
        fd = os.open(path, _DIRECTORY)
    try:
        with locked(fd):
            yield Drawer(fd, leaf, space)
    finally:
        os.close(fd)


def leaves(objects: bytes) -> list[int]:
    """The directories that are there."""
    known = {directory_of(leaf): leaf for leaf in range(LEAVES)}
    return sorted(known[name] for name in os.listdir(objects) if name in known)


def _temporary() -> bytes:
    return b"%s%d-%d" % (TEMPORARY, os.getpid(), next(_numbers))
