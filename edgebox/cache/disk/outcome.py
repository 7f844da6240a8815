"""How an attempt to change the store ended. Nothing is raised at who asked: serving goes on."""

from __future__ import annotations

import errno
from enum import Enum


class Busy(Exception):
    """Another process held a lock for longer than anyone should."""


class Outcome(Enum):
    """The value is for an operator."""

    STORED = "stored"
    RENEWED = "renewed"
    REMOVED = "removed"
    PURGED = "purged while it was fetched"
    OLDER = "a later answer is there"
    GONE = "no longer there"
    NO_ROOM = "no room within the bound"
    TOO_LARGE = "larger than this store takes"
    PAUSED = "writing is paused"
    BUSY = "another process held a lock for too long"
    DISK_FULL = "disk full"
    READ_ONLY = "file system is read-only"
    DENIED = "permission denied"
    NO_DESCRIPTORS = "no descriptors or memory left"
    IO_ERROR = "the disk failed"
    DISABLED = "there is no disk store"

    @property
    def done(self) -> bool:
        """Whether what was asked for is so now."""
        return self in (Outcome.STORED, Outcome.RENEWED, Outcome.REMOVED)

    @property
    def pause(self) -> float:
        """Seconds for which nothing is written after this: the next attempt would fail alike."""
        return _PAUSES.get(self, 0.0)


# A full disk gets room as soon as the housekeeper has evicted something; the others need a hand.
_PAUSES = {
    Outcome.DISK_FULL: 10.0,
    Outcome.READ_ONLY: 60.0,
    Outcome.DENIED: 60.0,
    Outcome.NO_DESCRIPTORS: 1.0,
    Outcome.IO_ERROR: 10.0,
}


def outcome_of(error: OSError) -> Outcome:
    return {
        errno.ENOSPC: Outcome.DISK_FULL,
        errno.EDQUOT: Outcome.DISK_FULL,
        errno.EROFS: Outcome.READ_ONLY,
        errno.EACCES: Outcome.DENIED,
        errno.EPERM: Outcome.DENIED,
        errno.EMFILE: Outcome.NO_DESCRIPTORS,
        errno.ENFILE: Outcome.NO_DESCRIPTORS,
        errno.ENOMEM: Outcome.NO_DESCRIPTORS,
        errno.ENOENT: Outcome.GONE,  # an operator emptied the directory
    }.get(error.errno or 0, Outcome.IO_ERROR)
