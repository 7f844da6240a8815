"""A file that gets its name last: whoever finds the name finds the whole file.

O_TMPFILE and linkat(2) where the file system has them; else a temporary name beside the
target's directory and rename(2). An unnamed file vanishes with its process; a temporary
one may be left by a kill, so its writer holds a lock on it and `remove_leftovers` takes
those that nobody locks. Knows nothing of what is written.
"""

from __future__ import annotations

import errno
import fcntl
import itertools
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

TEMPORARY = b".new-"  # then the process id, a dash and a number
_UNSUPPORTED = {errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL, errno.ENOENT}
_numbers = itertools.count()


class NewFile:
    """An open, writable file that has no final name yet."""

    def __init__(self, fd: int, temporary: bytes | None) -> None:
        self.fd = fd
        self._temporary = temporary

    def write(self, octets: bytes) -> None:
        """Append all of it; OSError as write(2)."""
        view = memoryview(octets)
        while view:
            view = view[os.write(self.fd, view) :]

    def sync(self) -> None:
        """Wait until its octets are on the disk: to be called before `publish()`.

        Otherwise a power cut could leave the name with too few octets behind it.
        """
        os.fdatasync(self.fd)

    def publish(self, path: bytes) -> None:
        """Give it its name.

        Raises FileExistsError if another process was first (with a temporary name instead
        the other's file is replaced by its equal), else OSError as link(2) and rename(2).
        """
        if self._temporary is None:
            # With src_dir_fd given, os.link calls linkat(AT_SYMLINK_FOLLOW), as open(2) asks.
            os.link(b"/proc/self/fd/%d" % self.fd, path, src_dir_fd=self.fd, follow_symlinks=True)
        else:
            os.rename(self._temporary, path)
            self._temporary = None

    def close(self) -> None:
        if self._temporary is not None:
            with suppress(OSError):
                os.unlink(self._temporary)
        os.close(self.fd)


@contextmanager
def open_new(directory: bytes, *, unnamed: bool) -> Iterator[NewFile]:
    """A new file on the file system of `directory`; it is gone at the end unless published."""
    file = _open_unnamed(directory) if unnamed else _open_temporary(directory)
    try:
        yield file
    finally:
        file.close()


def can_be_unnamed(directory: bytes) -> bool:
    """Whether the file system takes O_TMPFILE and /proc gives the way to link it.

    The answer costs a try, so it also tells whether files can be made there at all:
    OSError (EACCES, EROFS, ENOSPC…) if not.
    """
    try:
        file = _open_unnamed(directory)
    except OSError as error:
        if error.errno not in _UNSUPPORTED:
            raise
    else:
        linkable = os.path.exists(b"/proc/self/fd/%d" % file.fd)
        file.close()
        if linkable:
            return True
    _open_temporary(directory).close()
    return False


def remove_leftovers(directory: bytes) -> int:
    """Remove temporary files whose writer is gone; returns how many."""
    removed = 0
    for name in os.listdir(directory):
        if not name.startswith(TEMPORARY):
            continue
        path = os.path.join(directory, name)
        with suppress(OSError):  # gone, or locked by its writer (BlockingIOError)
            fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                os.unlink(path)
                removed += 1
            finally:
                os.close(fd)
    return removed


def _open_unnamed(directory: bytes) -> NewFile:
    return NewFile(os.open(directory, os.O_TMPFILE | os.O_WRONLY | os.O_CLOEXEC, 0o644), None)


def _open_temporary(directory: bytes) -> NewFile:
    name = b"%s%d-%d" % (TEMPORARY, os.getpid(), next(_numbers))
    path = os.path.join(directory, name)
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
    fcntl.flock(fd, fcntl.LOCK_EX)
    return NewFile(fd, path)
