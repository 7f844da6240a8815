"""The octets of a file: the body first, and behind it all that makes it describe itself.

    body                          from offset 0, so sendfile needs no arithmetic
    area                          two slots for the record, one of them in force
    key
    footer                        magic, version, lengths, checksums

The body begins at 0 and can be streamed in before anything else is known. The record comes in
two slots, so that a 304 renews it without touching the body: the new one is written into the
slot that is not in force, then the old one is blanked. A write that is cut short leaves the old
record; two whole ones leave the later. A roster has no body, and labels for its area.

All checksums are CRC-32, which runs at 2.4 GB/s (2026-11-30; BLAKE2b: 0.6) and is meant against
accidents, not against someone who can write into the directory. No I/O.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from zlib import crc32

from edgebox.cache.answer import Instant
from edgebox.cache.entry import StoredResponse, after_restart, encode, maybe_decode

MAGIC = b"EdgeKept"
VERSION = 1
# What is read at first: most files end with a trailer shorter than this, or are shorter.
WINDOW = 4096
LONGEST = 2 * 1024 * 1024  # a trailer beyond is refused: 256 tags of 1 KiB in two slots fit
BLANK = bytes(8)  # over a slot's checksum and length

# magic, version, kind, area, body length, checksum of body or labels, key length, and the
# checksum of the key and all of these.
_FOOTER = struct.Struct("<8sHHIQIII")
# Checksum of the rest, length of the record, sequence, born, boot, vouched.
_SLOT = struct.Struct("<IIQQ16s16s")
_LABEL = 8
# Seconds that `now` may lag behind: a worker reads its clocks once a second. A record that is
# further ahead was written by another clock, as containers may have.
_AHEAD = 60.0
_GRAIN = 64


class Kind(IntEnum):
    RESPONSE = 1
    ROSTER = 2


@dataclass(frozen=True, slots=True)
class Sheet:
    """What a file says of a stored response.

    `born` is the store's mark when its fetch, or its last validation, began; `boot` is the one
    whose steady clock `entry` speaks of, `vouched` the one in which the body was last known to be
    right: when it was written, or read as a whole.
    """

    key: bytes
    length: int
    checksum: int
    entry: StoredResponse
    born: int
    boot: bytes
    vouched: bytes
    sequence: int
    slot: int
    slot_size: int

    @property
    def body(self) -> tuple[int, int]:
        """Length and checksum."""
        return self.length, self.checksum

    @property
    def slot_at(self) -> int:
        """Offset of the slot in force."""
        return self.length + self.slot * self.slot_size

    @property
    def spare_at(self) -> int:
        return self.length + (1 - self.slot) * self.slot_size


@dataclass(frozen=True, slots=True)
class Roster:
    """The labels of a key that has, or had, several variants."""

    key: bytes
    labels: tuple[bytes, ...]


def measure(tail: bytes, size: int) -> int | None:
    """How many octets from the end of a file of `size` are its trailer, judging by its last ones.

    None if that cannot be: a file that is foreign, cut short, or longer than it says.
    """
    if len(tail) < _FOOTER.size:
        return None
    magic, version, _, area, length, _, key_length, _ = _FOOTER.unpack_from(
        tail, len(tail) - _FOOTER.size
    )
    trailer: int = area + key_length + _FOOTER.size
    fits = length + trailer == size and trailer <= LONGEST
    return trailer if (magic, version) == (MAGIC, VERSION) and fits else None


def parse(trailer: bytes) -> Sheet | Roster | None:
    """Take apart as many octets as `measure` told; None if anything in them is damaged."""
    footer = trailer[-_FOOTER.size :]
    _, _, kind, area_size, length, checksum, _, own = _FOOTER.unpack(footer)
    area, key = trailer[:area_size], trailer[area_size : -_FOOTER.size]
    if crc32(footer[:-4], crc32(key)) != own:
        return None
    if kind == Kind.ROSTER:
        labels = tuple(area[i : i + _LABEL] for i in range(0, area_size, _LABEL))
        return Roster(key, labels) if length == 0 and crc32(area) == checksum else None
    slot_size = area_size // 2
    found = [
        Sheet(key, length, checksum, *told, number, slot_size)
        for number in (0, 1)
        if (told := _read_slot(area[number * slot_size : (number + 1) * slot_size])) is not None
    ]
    return max(found, key=lambda sheet: sheet.sequence, default=None)


def build_trailer(
    key: bytes, entry: StoredResponse, born: int, boot: bytes, body: tuple[int, int]
) -> bytes | None:
    """What goes behind a body of (length, checksum); None if it would be too long."""
    slot = _build_slot(encode(entry), 1, born, boot, boot)
    # A renewed record is seldom a quarter longer than it was.
    slot_size = _round_up(len(slot) + max(128, len(slot) // 4))
    trailer = slot.ljust(2 * slot_size, b"\0") + _finish(Kind.RESPONSE, 2 * slot_size, body, key)
    return trailer if len(trailer) <= LONGEST else None


def build_roster(key: bytes, labels: Sequence[bytes]) -> bytes:
    """A whole roster file."""
    area = b"".join(labels)
    return area + _finish(Kind.ROSTER, len(area), (0, crc32(area)), key)


def build_spare(sheet: Sheet) -> bytes | None:
    """What to write at `spare_at` of a sheet, to put the rest of it into force there.

    None if it does not fit.
    """
    record = encode(sheet.entry)
    slot = _build_slot(record, sheet.sequence + 1, sheet.born, sheet.boot, sheet.vouched)
    return slot if len(slot) <= sheet.slot_size else None


def entry_now(sheet: Sheet, boot: bytes, now: Instant) -> StoredResponse:
    """The record in terms of the steady clock that `now` is of."""
    if sheet.boot == boot and sheet.entry.received_steady <= now.steady + _AHEAD:
        return sheet.entry
    return after_restart(sheet.entry, now)


def _build_slot(record: bytes, sequence: int, born: int, boot: bytes, vouched: bytes) -> bytes:
    slot = _SLOT.pack(0, len(record), sequence, born, boot, vouched) + record
    return crc32(slot[4:]).to_bytes(4, "little") + slot[4:]


def _read_slot(slot: bytes) -> tuple[StoredResponse, int, bytes, bytes, int] | None:
    if len(slot) < _SLOT.size:
        return None
    checksum, length, sequence, born, boot, vouched = _SLOT.unpack_from(slot)
    end = _SLOT.size + length
    if not length or end > len(slot) or crc32(slot[4:end]) != checksum:
        return None
    entry = maybe_decode(slot[_SLOT.size : end])
    return None if entry is None else (entry, born, boot, vouched, sequence)


def _finish(kind: Kind, area: int, body: tuple[int, int], key: bytes) -> bytes:
    footer = _FOOTER.pack(MAGIC, VERSION, kind, area, *body, len(key), 0)[:-4]
    return key + footer + crc32(footer, crc32(key)).to_bytes(4, "little")


def _round_up(size: int) -> int:
    return -(-size // _GRAIN) * _GRAIN
