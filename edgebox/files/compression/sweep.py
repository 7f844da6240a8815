"""Keeps the cache directory within its size, least recently used variants first.

What counts is what a file takes on disk, a block at least, so markers count too. The bound
holds at every instant, for several writers together: whoever gives a variant its name holds
the lock on a small file with the sum, and sweeps before the sum would pass the limit.
The sum may err upwards (a writer died, an operator deleted something) and is set right by
the scan that every sweep and every helper's start begins with.

Used last is the later of atime and mtime. relatime, what Linux mounts with, moves atime
once a day: fine enough to tell a live site's variants from those of files long replaced,
and it costs the request path no system call. Under noatime the oldest goes first; a
variant lost too early is made again. Only names that a variant can have are ever removed.
"""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import NamedTuple

BLOCK = 4096  # ext4, xfs and btrfs allocate by this
SUM_NAME = b".sum"
_DIRECTORY = re.compile(rb"[0-9a-f]{2}")
_FILE = re.compile(rb"[0-9a-f]{38}\.(?:br|zst|gz)")


class Held(NamedTuple):
    """A variant or marker as the sweep sees it."""

    path: bytes
    footprint: int  # octets on disk
    used_ns: int  # since 1970


class TooLargeForRoom(Exception):
    """The variant would not fit into an empty directory."""


def footprint(size: int) -> int:
    """Octets that a file of `size` takes on disk; a marker takes a block too, for its inode."""
    return max(1, -(-size // BLOCK)) * BLOCK


def choose_victims(files: Iterable[Held], limit: int) -> list[Held]:
    """The least recently used of `files`, as few as leave at most `limit` octets."""
    oldest_first = sorted(files, key=lambda held: held.used_ns)
    surplus = sum(held.footprint for held in oldest_first) - limit
    victims = []
    for held in oldest_first:
        if surplus <= 0:
            break
        victims.append(held)
        surplus -= held.footprint
    return victims


def scan(directory: bytes) -> Iterator[Held]:
    """Every variant and marker; what vanishes meanwhile is left out."""
    for name in os.listdir(directory):
        if not _DIRECTORY.fullmatch(name):
            continue
        with (
            suppress(FileNotFoundError, NotADirectoryError),
            os.scandir(os.path.join(directory, name)) as entries,
        ):
            for entry in entries:
                if not _FILE.fullmatch(entry.name):
                    continue
                with suppress(FileNotFoundError):
                    facts = entry.stat(follow_symlinks=False)
                    used = max(facts.st_atime_ns, facts.st_mtime_ns)
                    yield Held(entry.path, footprint(facts.st_size), used)


class Room:
    """The room that variants may take in one directory, shared by all who write there."""

    def __init__(self, directory: bytes, limit: int) -> None:
        self._directory = directory
        self._limit = limit

    def recount(self) -> int:
        """Bring the directory within its limit and the sum up to date; returns files removed."""
        with self._locked() as fd:
            return self._sweep(fd, self._limit)

    def shrink(self) -> int:
        """Give back a tenth of what is held, for a disk that is full; returns files removed."""
        with self._locked() as fd:
            return self._sweep(fd, sum(held.footprint for held in scan(self._directory)) * 9 // 10)

    @contextmanager
    def admit(self, size: int) -> Iterator[int]:
        """Hold the lock, with room made, while a file of `size` gets its name.

        Yields how many variants went. A sweep leaves a tenth free, so that a burst does not
        scan for every file. Raises TooLargeForRoom, or OSError if the sum cannot be written.
        """
        needed = footprint(size)
        if needed > self._limit:
            raise TooLargeForRoom
        with self._locked() as fd:
            removed = 0
            total = _read_sum(fd)
            if total is None or total + needed > self._limit:
                removed = self._sweep(fd, max(0, self._limit * 9 // 10 - needed))
                total = _read_sum(fd) or 0
            _write_sum(fd, total + needed)
            yield removed

    @contextmanager
    def _locked(self) -> Iterator[int]:
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        fd = os.open(os.path.join(self._directory, SUM_NAME), flags, 0o644)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            yield fd
        finally:
            os.close(fd)

    def _sweep(self, fd: int, limit: int) -> int:
        files = list(scan(self._directory))
        victims = choose_victims(files, limit)
        for held in victims:
            with suppress(FileNotFoundError):
                os.unlink(held.path)
        total = sum(held.footprint for held in files) - sum(held.footprint for held in victims)
        _write_sum(fd, total)
        return len(victims)


def _read_sum(fd: int) -> int | None:
    """None if the file is new or holds no number."""
    digits = os.pread(fd, 32, 0)
    return int(digits) if digits.isdigit() else None


def _write_sum(fd: int, total: int) -> None:
    # Fixed width: one write leaves no tail of a longer number. ENOSPC may meet a new file.
    os.pwrite(fd, b"%020d" % total, 0)
