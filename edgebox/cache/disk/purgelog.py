"""Purges, in force for every worker as soon as they are written down here.

Deleting files takes time, and fetches under way know nothing of a purge; so each purge gets
the next *tick*, and what was begun at a lesser one is concerned by it. The file holds

    a header      the last tick, the last purge in the ring, the last that was carried out
    a table       for KEY purges: the tick of the last one, by hash of the key
    a ring        the other purges, one record each, over and over

A KEY purge changes the files of its key itself, so here it must stop fetches under way only,
of which a shared place in the table may stop one too many. The others count against each file
found until the housekeeper has carried them out; records stay in the ring after that, for
fetches that take long. When the ring is full of purges that nobody carries out, one purge of
everything takes their place.

All is allocated beforehand: a purge works on a full disk. The file is mapped for reading, so
that asking for the tick costs no system call, and written by pwrite(2): a store into a mapping
is answered by SIGBUS when the disk fails. Ticks are microseconds of the wall clock, but never
less than the last: a lost file begins anew above all that came before, and with a purge of
everything, since nobody knows what was in it. Each record is on the disk before it counts.
"""

from __future__ import annotations

import mmap
import os
import struct
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple
from zlib import crc32

import msgspec

from edgebox.cache.answer import Instant
from edgebox.cache.disk.layout import PURGES
from edgebox.cache.disk.lock import locked
from edgebox.cache.disk.purge import Kind, Mode, Purge, apply, covers, hardest
from edgebox.cache.entry import StoredResponse

RING = 512
RECORD = 2048
LONGEST_VALUE = 1900  # octets of a prefix or of a group and its origin
_TABLE = 1 << 16
_TABLE_AT = 4096
_RING_AT = _TABLE_AT + _TABLE * 8
_SIZE = _RING_AT + RING * RECORD
# Native order: another machine's file has another magic to this one's eyes, and begins anew.
_HEADER = struct.Struct("=QQQQ16sI")
_MAGIC = int.from_bytes(b"EdgePrg1", "little")
_RECORD = struct.Struct("=IIQQ")  # checksum of the rest, length, number, tick of the one before
_NUMBER = struct.Struct("=Q")
_TICK_INDEX = 1  # in the header, as the mapping has it
_ATTEMPTS = 1000
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Purge).decode


class _Header(NamedTuple):
    tick: int
    last: int  # number of the newest record; the first is 1
    done: int  # all up to this one are carried out
    boot: bytes


class _Known(NamedTuple):
    """The ring as of one reading of the header. `horizon`: of purges up to this tick some are
    not known any more."""

    header: _Header
    purges: tuple[tuple[int, Purge], ...]  # by number
    pending: tuple[Purge, ...]
    horizon: int


class PurgeLog:
    """The purges of one cache directory. Raises OSError where the file cannot be made."""

    def __init__(self, directory: bytes, boot: bytes) -> None:
        self._boot = boot
        self._lock = threading.Lock()
        self._path = os.path.join(directory, PURGES)
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        self._fd = os.open(self._path, flags, 0o600)
        try:
            with locked(self._fd):
                self._prepare()
            self._map = mmap.mmap(self._fd, _RING_AT, prot=mmap.PROT_READ)
        except BaseException:
            os.close(self._fd)
            raise
        self._words = memoryview(self._map).cast("Q")
        self._known = _Known(_Header(0, 0, 0, b""), (), (), 0)
        self._refresh()

    def close(self) -> None:
        self._words.release()
        self._map.close()
        os.close(self._fd)

    @property
    def tick(self) -> int:
        """The tick of the last purge: a mark of now, for what begins now."""
        return self._words[_TICK_INDEX]

    @property
    def lost(self) -> bool:
        """Whether the file at the path is another by now, or none."""
        return not is_same_file(self._path, self._fd)

    # -- asking

    def refuses(self, key: bytes, entry: StoredResponse, born: int) -> bool:
        """Whether a fetch that began at the mark `born` has been purged since, or may have been."""
        if self.tick == born:
            return False
        if self._words[_TABLE_AT // 8 + _bucket(key)] > born:
            return True
        known = self._refresh()
        if born < known.horizon or born > self.tick:
            return True
        return any(p.tick > born and covers(p, key, entry) for _, p in reversed(known.purges))

    def judge(
        self, key: bytes, entry: StoredResponse, born: int, now: Instant
    ) -> StoredResponse | None:
        """What the purges since `born` leave of a stored response; None: nothing.

        Only those that are not carried out yet; KEY purges are, before they return.
        """
        if born > self.tick:
            return None  # from before the file was lost, and the clock set back
        left: StoredResponse | None = entry
        for purge in self._refresh().pending:
            if purge.tick > born and left is not None and covers(purge, key, left):
                left = apply(purge.mode, left, purge.at(now, self._boot))
        return left

    def since(self, tick: int) -> tuple[Purge, ...] | None:
        """The purges after `tick`, KEY purges apart; None if not all of them are known."""
        known = self._refresh()
        if tick < known.horizon:
            return None
        return tuple(purge for _, purge in known.purges if purge.tick > tick)

    def key_purged(self, key: bytes, tick: int) -> bool:
        """Whether there was a KEY purge after `tick` of this key, or of one that shares its place."""
        return self._words[_TABLE_AT // 8 + _bucket(key)] > tick

    def pending(self) -> tuple[tuple[int, Purge], ...]:
        """What is to be carried out, with numbers for `carried_out`."""
        known = self._refresh()
        return tuple(item for item in known.purges if item[0] > known.header.done)

    # -- telling

    def add(self, purge: Purge, now: Instant, *, durable: bool) -> Purge:
        """Put a purge into force. `durable`: not even a power cut undoes it.

        Raises OSError, Busy, or ValueError for a value that is too long.
        """
        if len(purge.value) + len(purge.origin) > LONGEST_VALUE and purge.kind is not Kind.KEY:
            raise ValueError(f"a {purge.kind.value} beyond {LONGEST_VALUE} octets")
        with self._lock, locked(self._fd):
            header = self._read_header()
            tick = max(header.tick + 1, _microseconds())
            purge = msgspec.structs.replace(
                purge, tick=tick, wall=now.wall, steady=now.steady, boot=self._boot
            )
            if purge.kind is Kind.KEY:
                at = _TABLE_AT + 8 * _bucket(purge.value)
                os.pwrite(self._fd, _NUMBER.pack(tick), at)
                self._write_header(header._replace(tick=tick))
                return purge
            if header.last - header.done >= RING - 1:
                purge, header = self._collapse(purge, header)
            self._write_record(header.last + 1, purge)
            if durable:
                os.fdatasync(self._fd)
            self._write_header(header._replace(tick=tick, last=header.last + 1))
            return purge

    def carried_out(self, number: int) -> None:
        """No file is left that a purge up to this number concerns. Raises OSError or Busy."""
        with self._lock, locked(self._fd):
            header = self._read_header()
            self._write_header(header._replace(done=max(header.done, number)))

    def _collapse(self, purge: Purge, header: _Header) -> tuple[Purge, _Header]:
        """One purge of everything in place of all that wait and of `purge`."""
        known = self._refresh()
        mode = hardest([purge, *known.pending])
        everything = msgspec.structs.replace(
            purge, kind=Kind.EVERYTHING, value=b"", origin=b"", mode=mode
        )
        return everything, header._replace(done=header.last)

    # -- the file

    def _prepare(self) -> None:
        if os.fstat(self._fd).st_size == _SIZE:
            with suppress(OSError):
                header = self._read_header()
                if header.boot != self._boot:
                    # A power cut may have lost the last ticks, but not the clock.
                    tick = max(header.tick, _microseconds())
                    self._write_header(header._replace(tick=tick, boot=self._boot))
                return
        os.ftruncate(self._fd, 0)
        os.posix_fallocate(self._fd, 0, _SIZE)
        tick = _microseconds()
        wall, steady = time.time(), time.monotonic()
        purge = Purge(kind=Kind.EVERYTHING, tick=tick, wall=wall, steady=steady, boot=self._boot)
        self._write_record(1, purge, before=0)
        os.fdatasync(self._fd)
        self._write_header(_Header(tick, 1, 0, self._boot))

    def _read_header(self) -> _Header:
        """As it is now. It is written in one piece, but may be read in the middle of that."""
        for _ in range(_ATTEMPTS):
            octets = os.pread(self._fd, _HEADER.size, 0)
            if len(octets) == _HEADER.size and crc32(octets[:-4]) == _HEADER.unpack(octets)[-1]:
                magic, tick, last, done, boot, _ = _HEADER.unpack(octets)
                if magic == _MAGIC:
                    return _Header(tick, last, done, boot)
        raise OSError("the header of the purges is damaged")

    def _write_header(self, header: _Header) -> None:
        octets = _HEADER.pack(_MAGIC, *header, 0)[:-4]
        os.pwrite(self._fd, octets + crc32(octets).to_bytes(4, _BYTE_ORDER), 0)

    def _write_record(self, number: int, purge: Purge, before: int | None = None) -> None:
        if before is None:
            before = self._read_header().tick if number == 1 else self._tick_of(number - 1)
        payload = _encode(purge)
        record = _RECORD.pack(0, len(payload), number, before)[4:] + payload
        record = crc32(record).to_bytes(4, _BYTE_ORDER) + record
        os.pwrite(self._fd, record, _RING_AT + number % RING * RECORD)

    def _tick_of(self, number: int) -> int:
        record = self._read_record(number)
        return self._read_header().tick if record is None else record[0].tick

    def _read_record(self, number: int) -> tuple[Purge, int] | None:
        octets = os.pread(self._fd, RECORD, _RING_AT + number % RING * RECORD)
        checksum, length, own, before = _RECORD.unpack_from(octets)
        end = _RECORD.size + length
        if own != number or end > RECORD or crc32(octets[4:end]) != checksum:
            return None
        return _decode(octets[_RECORD.size : end]), before

    def _refresh(self) -> _Known:
        known = self._known
        if known.header.tick == self.tick and known.header.done == self._words[3]:
            return known
        header = self._read_header()
        first = max(1, header.last - RING + 1)
        have = dict(known.purges)
        purges: list[tuple[int, Purge]] = []
        horizon = 0 if first == 1 else header.tick
        for number in range(first, header.last + 1):
            read = None if number in have and number > first else self._read_record(number)
            if read is not None:
                purges.append((number, read[0]))
                if number == first:
                    horizon = read[1]
            elif number in have:
                purges.append((number, have[number]))
            elif number > first or header.done < number:
                # Damaged: it may have been about anything.
                everything = Purge(kind=Kind.EVERYTHING, mode=Mode.REMOVE, tick=header.tick)
                purges.append((number, everything))
        pending = tuple(purge for number, purge in purges if number > header.done)
        self._known = known = _Known(header, tuple(purges), pending, horizon)
        return known


def is_same_file(path: bytes, fd: int) -> bool:
    try:
        there = os.stat(path)
    except OSError:
        return False
    return os.path.samestat(there, os.fstat(fd))


_bucket: Callable[[bytes], int] = lambda key: crc32(key) % _TABLE  # noqa: E731
_BYTE_ORDER = __import__("sys").byteorder


def _microseconds() -> int:
    return time.time_ns() // 1000
