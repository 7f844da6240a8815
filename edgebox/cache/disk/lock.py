"""Exclusive locks between processes, and between threads, that nobody waits for in vain.

flock(2) belongs to an open file: a killed holder lets go of it, a stopped one does not, so
every wait has an end.
"""

from __future__ import annotations

import fcntl
import time
from collections.abc import Iterator
from contextlib import contextmanager

from edgebox.cache.disk.outcome import Busy

PATIENCE = 1.0  # seconds; locks are held for microseconds, or for one fdatasync
_PAUSE = 0.001


@contextmanager
def locked(fd: int) -> Iterator[None]:
    """Hold the lock of an open file or directory. Raises Busy, or OSError as flock(2)."""
    deadline = time.monotonic() + PATIENCE
    while not try_lock(fd):
        if time.monotonic() > deadline:
            raise Busy
        time.sleep(_PAUSE)
    try:
        yield
    finally:
        fcntl.flock(fd, fcntl.LOCK_UN)


def try_lock(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
