"""The file that purges are written down in: a header, a table of ticks, a ring of records.

All of it is allocated at once, so that a purge can be written down on a full disk. The header
is replaced by one pwrite(2) and believed only if its checksum is right; a reader that meets
it in the middle of that reads again. A record is written before the header counts it, over
the oldest, which nobody needs by then; so a write that is cut short harms nothing.

Native byte order, since the ticks are also read through a mapping: to a machine of the other
order the magic is wrong, and the file begins anew. What purges mean is not known here.
"""

from __future__ import annotations

import os
import struct
import sys
from typing import NamedTuple
from zlib import crc32

import msgspec

from edgebox.cache.disk.purge import Purge

RECORDS = 4096
RECORD = 2048
LONGEST = 1900  # octets of what a purge names
TABLE = 1 << 16
TABLE_AT = 4096
RING_AT = TABLE_AT + TABLE * 8
SIZE = RING_AT + RECORDS * RECORD

_MAGIC = int.from_bytes(b"EdgePrg1", "little")
_HEADER = struct.Struct("=QQQQ16sI")
_RECORD = struct.Struct("=IIQQ")  # checksum of the rest, length, number, tick of the one before
_NUMBER = struct.Struct("=Q")
_ATTEMPTS = 1000  # to read a header that others keep writing

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Purge).decode


class Header(NamedTuple):
    """`last` and `done` are numbers of records, from 1 on: the newest, and the newest such that
    it and all before it are carried out. `tick` is at place 1 of the file, in words."""

    tick: int
    last: int
    done: int
    boot: bytes


class Record(NamedTuple):
    """`before` is the tick of the record before it, 0 for the first."""

    purge: Purge
    before: int


def allocate(fd: int) -> None:
    """Make the file one without purges; it has no header yet, so it is not believed so far."""
    os.ftruncate(fd, SIZE)
    os.posix_fallocate(fd, 0, SIZE)
    os.pwrite(fd, bytes(RING_AT), 0)


def read_header(fd: int) -> Header | None:
    """The header as it is now; None if it is damaged."""
    for _ in range(_ATTEMPTS):
        octets = os.pread(fd, _HEADER.size, 0)
        if len(octets) < _HEADER.size:
            return None
        magic, tick, last, done, boot, checksum = _HEADER.unpack(octets)
        if crc32(octets[:-4]) == checksum:
            return Header(tick, last, done, boot) if magic == _MAGIC else None
    return None


def write_header(fd: int, header: Header) -> None:
    octets = _HEADER.pack(_MAGIC, *header, 0)[:-4]
    os.pwrite(fd, octets + _checksum(octets), 0)


def read_record(fd: int, number: int) -> Record | None:
    """The record of that number; None if it is damaged, or another has taken its place."""
    octets = os.pread(fd, RECORD, _offset(number))
    if len(octets) < RECORD:
        return None
    checksum, length, own, before = _RECORD.unpack_from(octets)
    end = _RECORD.size + length
    if own != number or end > RECORD or crc32(octets[4:end]) != checksum:
        return None
    return Record(_decode(octets[_RECORD.size : end]), before)


def write_record(fd: int, number: int, record: Record) -> None:
    payload = _encode(record.purge)
    octets = _RECORD.pack(0, len(payload), number, record.before)[4:] + payload
    os.pwrite(fd, _checksum(octets) + octets, _offset(number))


def write_table(fd: int, place: int, tick: int) -> None:
    os.pwrite(fd, _NUMBER.pack(tick), TABLE_AT + 8 * place)


def _offset(number: int) -> int:
    return RING_AT + number % RECORDS * RECORD


def _checksum(octets: bytes) -> bytes:
    return crc32(octets).to_bytes(4, sys.byteorder)
