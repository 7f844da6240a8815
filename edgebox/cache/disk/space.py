"""How many octets the files take, and a promise that they never take more than the limit.

Who writes reserves first; who gives a file its name charges it to its directory and then lets
the reservation go; who removes it credits it afterwards. So whatever is killed in between, the
sum errs upwards, until the housekeeper has counted that directory again. The file holds the
sum, one slot for the reservations of each process, and what each directory has. A slot is its
process' by a lock that ends with it: what a dead one had reserved is given back.

Counted is what files take in blocks. Directories and the index come on top; and a file that
was removed while somebody still reads it takes its room until then.
"""

from __future__ import annotations

import os
import struct
import threading
from typing import NamedTuple

from edgebox.cache.disk.layout import LEAVES, OBJECTS, SPACE
from edgebox.cache.disk.lock import is_octet_locked, locked, try_lock_octet
from edgebox.files.entry import OpenFile

SLOTS = 64
_MAGIC = int.from_bytes(b"EdgeSpc1", "little")
_WORD = struct.Struct("=Q")
_HEAD = struct.Struct(f"={3 + SLOTS}Q")  # magic, counted, sum, slots
_COUNTED_AT, _SUM_AT, _SLOTS_AT, _LEAVES_AT = 8, 16, 24, 4096
_SIZE = _LEAVES_AT + LEAVES * 8
_LOCKS_AT = 1 << 32  # beyond all octets: only to be locked


class Taken(NamedTuple):
    """Octets."""

    kept: int
    reserved: int


class Space:
    """The room of one cache directory, `limit` octets. OSError or Busy if it cannot be used."""

    def __init__(self, directory: bytes, limit: int, *, writes: bool) -> None:
        """`writes`: the process wants to reserve, and takes a slot if there is one left."""
        self._limit = limit
        self._lock = threading.Lock()
        self._reserved = 0
        self._path = os.path.join(directory, SPACE)
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        # Closed by us, or with the last reference: threads may outlive who opened it.
        self._file = OpenFile(os.open(self._path, flags, 0o600))
        with locked(self._fd):
            self._prepare(directory)
            self._slot = self._take_slot() if writes else None

    def close(self) -> None:
        self._file.release()

    @property
    def _fd(self) -> int:
        return self._file.fileno()  # -1 once it is closed, not another file's number

    @property
    def limit(self) -> int:
        return self._limit

    def taken(self) -> Taken:
        _, _, kept, *slots = self._head()
        return Taken(kept, sum(slots))

    @property
    def counted(self) -> bool:
        """Whether the sum is that of the files; if not, nothing can be reserved yet."""
        return self._head()[1] == 1

    def reserve(self, size: int) -> bool:
        """Whether `size` more octets may be written."""
        with self._lock, locked(self._fd):
            _, counted, kept, *slots = self._head()
            if self._slot is None or not counted or kept + sum(slots) + size > self._limit:
                return False
            self._reserved += size
            self._put(_SLOTS_AT + 8 * self._slot, self._reserved)
            return True

    def release(self, size: int) -> None:
        """Give back what was reserved. Waits for no other process: the slot is our own."""
        with self._lock:
            self._reserved -= size
            if self._slot is not None:
                self._put(_SLOTS_AT + 8 * self._slot, self._reserved)

    def charge(self, leaf: int, size: int) -> None:
        """A file of `size` is about to get a name in the directory, whose lock is held."""
        self._change(leaf, size)

    def credit(self, leaf: int, size: int) -> None:
        """A file of `size` has lost its name in the directory, whose lock is held."""
        self._change(leaf, -size)

    def settle(self, leaf: int, size: int) -> None:
        """The files in the directory, whose lock is held, take `size` octets: they were counted."""
        with self._lock, locked(self._fd):
            before = self._get(_LEAVES_AT + 8 * leaf)
            if before != size:
                self._put(_SUM_AT, max(0, self._get(_SUM_AT) + size - before))
                self._put(_LEAVES_AT + 8 * leaf, size)

    def finish_count(self) -> None:
        """Every directory was settled: set the sum right, and let others write."""
        with self._lock, locked(self._fd):
            leaves = os.pread(self._fd, 8 * LEAVES, _LEAVES_AT)
            self._put(_SUM_AT, sum(memoryview(leaves).cast("Q")))
            self._put(_COUNTED_AT, 1)

    def reclaim(self) -> int:
        """Give back what dead processes had reserved; returns octets."""
        freed = 0
        with self._lock, locked(self._fd):
            for slot, size in enumerate(self._head()[3:]):
                if size and slot != self._slot and not self._is_held(slot):
                    self._put(_SLOTS_AT + 8 * slot, 0)
                    freed += size
        return freed

    @property
    def lost(self) -> bool:
        """Whether the file at the path is another by now, or none."""
        try:
            return not os.path.samestat(os.stat(self._path), os.fstat(self._fd))
        except OSError:
            return True

    def _prepare(self, directory: bytes) -> None:
        if os.fstat(self._fd).st_size == _SIZE and self._get(0) == _MAGIC:
            return
        os.ftruncate(self._fd, _SIZE)
        os.posix_fallocate(self._fd, 0, _SIZE)
        os.pwrite(self._fd, bytes(_SIZE), 0)
        self._put(_COUNTED_AT, int(not os.listdir(os.path.join(directory, OBJECTS))))
        self._put(0, _MAGIC)

    def _change(self, leaf: int, size: int) -> None:
        with self._lock, locked(self._fd):
            # The sum goes up first and down last, so that a kill leaves it too high.
            at = _LEAVES_AT + 8 * leaf
            if size < 0:
                self._put(at, max(0, self._get(at) + size))
            self._put(_SUM_AT, max(0, self._get(_SUM_AT) + size))
            if size > 0:
                self._put(at, self._get(at) + size)

    def _take_slot(self) -> int | None:
        for slot in range(SLOTS):
            if try_lock_octet(self._fd, _LOCKS_AT + slot):
                self._put(_SLOTS_AT + 8 * slot, 0)
                return slot
        return None

    def _is_held(self, slot: int) -> bool:
        return is_octet_locked(self._fd, _LOCKS_AT + slot)

    def _head(self) -> tuple[int, ...]:
        octets = os.pread(self._fd, _HEAD.size, 0)
        if len(octets) < _HEAD.size:
            raise OSError(f"{os.fsdecode(self._path)} was cut short")
        return _HEAD.unpack(octets)

    def _get(self, at: int) -> int:
        octets = os.pread(self._fd, _WORD.size, at)
        return int(_WORD.unpack(octets)[0]) if len(octets) == _WORD.size else 0

    def _put(self, at: int, value: int) -> None:
        os.pwrite(self._fd, _WORD.pack(value), at)
