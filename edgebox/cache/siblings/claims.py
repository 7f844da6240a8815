"""Which worker asks for a key: the kernel knows, and forgets it with the worker.

A claim is a lock on one octet far beyond the end of a file that all workers have inherited:
fcntl(2), F_SETLK. It takes a call to get and one to let go, no memory, and is gone with who is
killed. Such locks are a process's, whatever descriptor they came by, and closing any descriptor
of that file lets go of all of them: nobody here may.

Which octet it is, a checksum says. Where two keys share one, whoever comes second is told of a
worker that knows nothing of his key, and asks the upstream.
"""

from __future__ import annotations

import fcntl
import os
import struct
from collections import Counter
from zlib import crc32

_BASE = 1 << 40  # no file of ours has so many octets
NOBODY = -1  # has it any more, or is known to
_FLOCK = struct.Struct("hhqqi0q")  # fcntl(2), struct flock, where off_t has 64 bits


class Claims:
    """The claims of this process in `file`, among those of its family only."""

    def __init__(self, file: int, family: bytes) -> None:
        self._file = file
        self._family = crc32(family)
        self._held: Counter[int] = Counter()

    def take(self, key: bytes) -> int:
        """Claim `key`: 0 where it is ours, to be let go as often as that, or the pid of who has it.

        NOBODY where he has just let go, or the kernel has no locks left.
        """
        place = self._place(key)
        if place not in self._held:
            try:
                fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, place)
            except (BlockingIOError, PermissionError):
                return self._holder(place)
            except OSError:  # ENOLCK
                return NOBODY
        self._held[place] += 1
        return 0

    def let_go(self, key: bytes) -> None:
        place = self._place(key)
        self._held[place] -= 1
        if not self._held[place]:
            del self._held[place]
            fcntl.lockf(self._file, fcntl.LOCK_UN, 1, place)

    def _place(self, key: bytes) -> int:
        return _BASE + crc32(key, self._family)

    def _holder(self, place: int) -> int:
        asked = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, place, 1, 0)
        kind, _, _, _, pid = _FLOCK.unpack(fcntl.fcntl(self._file, fcntl.F_GETLK, asked))
        return NOBODY if kind == fcntl.F_UNLCK else int(pid)
