"""What is known of one file: one open descriptor, one truth.

Length, validators and octets of an answer all come from one descriptor that was
opened and fstat-ed once, so a file swapped between two system calls cannot lend
its length to another file's octets.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from enum import Enum
from typing import Literal, NamedTuple

Symlinks = Literal["within-root", "follow", "never"]


class Docroot(NamedTuple):
    """Where a site's files are: an absolute path, and how far symlinks below may lead.

    The path itself may be or hold symlinks; it is resolved anew at each look, so a
    deploy that flips one takes effect. A tuple, since it is hashed for every request.

    `sealed`: the files are ours, each with a seal behind its content (`files/seal`).
    """

    root: bytes
    symlinks: Symlinks = "within-root"
    sealed: bool = False


def has_dotfile(path: bytes) -> bool:
    """Whether a name on the way down `path` (starts with "/") begins with a dot.

    /.well-known/ at the root does not count: what is there is for everybody (RFC 8615).
    """
    return b"/." in b"/" + path.removeprefix(b"/.well-known/")


class Missing(Enum):
    """Why a path gives no file; the value is the status that says so."""

    NOT_FOUND = 404  # ENOENT, ENOTDIR, ENAMETOOLONG, ELOOP, or not a regular file
    OUTSIDE = 4040  # leaves the root, or a symlink that the policy refuses: told as 404
    FORBIDDEN = 403  # EACCES, EPERM
    NO_DESCRIPTORS = 503  # EMFILE, ENFILE, ENOMEM: never remembered
    IO_ERROR = 500  # EIO and whatever else: never remembered

    @property
    def status(self) -> int:
        return 404 if self is Missing.OUTSIDE else self.value


class Identity(NamedTuple):
    """What must be equal for two looks to have seen the same content."""

    device: int
    inode: int
    size: int
    mtime_ns: int
    ctime_ns: int

    @classmethod
    def of(cls, status: os.stat_result) -> Identity:
        return cls(
            status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
        )


class OpenFile:
    """An open descriptor, closed by the last holder's `release()` or with the last reference.

    Starts with one holder. An entry is a holder that never releases: it may be dropped
    from memory, or left behind in a thread, while somebody is about to `acquire()` its
    file. The descriptor is positioned nowhere: only pread and sendfile with an offset
    are used on it, so holders do not disturb each other.
    """

    __slots__ = ("__weakref__", "_fd", "_holders")

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._holders = 1

    def fileno(self) -> int:
        return self._fd

    def acquire(self) -> OpenFile:
        if self._holders <= 0:
            raise ValueError("descriptor already closed")
        self._holders += 1
        return self

    def release(self) -> None:
        if self._holders <= 0:
            raise ValueError("descriptor released more often than acquired")
        self._holders -= 1
        if self._holders == 0:
            self._close()

    def _close(self) -> None:
        fd, self._fd = self._fd, -1
        os.close(fd)

    def __del__(self) -> None:
        if self._fd >= 0:
            self._close()


@dataclass(slots=True, eq=False)
class FileEntry:
    """A regular file as it was at one look.

    `content` holds its octets when it is in the working set; `file` is an open
    descriptor when it is too large for that. One of the two is always there for
    an entry that `FileStore.find*` returned. `tail`: octets of the file behind the content.
    """

    path: bytes
    identity: Identity
    etag: bytes  # strong, quotes included
    last_modified: bytes  # IMF-fixdate
    content: bytes | None = None
    file: OpenFile | None = None
    coding: bytes = b""  # content coding of a compressed variant, b"" for the file itself
    tail: int = 0

    @property
    def size(self) -> int:
        """Octets of content."""
        return self.identity.size - self.tail

    @property
    def mtime(self) -> int:
        """Whole seconds, as Last-Modified tells it."""
        return self.identity.mtime_ns // 1_000_000_000


@dataclass(frozen=True, slots=True)
class Directory:
    """The path names a directory: the handler redirects or looks for an index."""

    path: bytes


# What a look at a path gives.
Found = FileEntry | Directory | Missing
