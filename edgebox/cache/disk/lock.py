"""Exclusive locks between processes, and between threads, that nobody waits for in vain.

flock(2) belongs to an open file, and so does a lock on one of its octets (fcntl(2), open file
description locks): a killed holder lets go of it, a stopped one does not, so every wait has an
end. Whoever has the file open in common, as threads may, is not kept apart by either.
"""

from __future__ import annotations

import fcntl
import os
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from edgebox.cache.disk.outcome import Busy

PATIENCE = 1.0  # seconds; locks are held for microseconds, or for one fdatasync
_FIRST_PAUSE, _LONGEST_PAUSE = 0.00005, 0.001
_FLOCK = struct.Struct("@hhqqi4x")  # struct flock of fcntl(2): type, whence, start, length, pid


@contextmanager
def locked(fd: int) -> Iterator[None]:
    """Hold the lock of an open file or directory. Raises Busy, or OSError as flock(2)."""
    _wait(lambda: try_lock(fd))
    try:
        yield
    finally:
        fcntl.flock(fd, fcntl.LOCK_UN)


@contextmanager
def locked_octet(fd: int, at: int) -> Iterator[None]:
    """Hold the lock of one octet of an open file, there or not: many can be held at once."""
    _wait(lambda: try_lock_octet(fd, at))
    try:
        yield
    finally:
        fcntl.fcntl(fd, fcntl.F_OFD_SETLK, _octet(fcntl.F_UNLCK, at))


def try_lock(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def try_lock_octet(fd: int, at: int) -> bool:
    try:
        fcntl.fcntl(fd, fcntl.F_OFD_SETLK, _octet(fcntl.F_WRLCK, at))
    except BlockingIOError:
        return False
    return True


def is_octet_locked(fd: int, at: int) -> bool:
    """Whether somebody holds it through another open file."""
    told = fcntl.fcntl(fd, fcntl.F_OFD_GETLK, _octet(fcntl.F_WRLCK, at))
    return bool(_FLOCK.unpack(told)[0] != fcntl.F_UNLCK)


def _octet(kind: int, at: int) -> bytes:
    return _FLOCK.pack(kind, os.SEEK_SET, at, 1, 0)


def _wait(attempt: Callable[[], bool]) -> None:
    deadline, pause = time.monotonic() + PATIENCE, _FIRST_PAUSE
    while not attempt():
        if time.monotonic() > deadline:
            raise Busy
        time.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE)
