"""What each worker tells of itself, in memory that all processes of the box share.

The supervisor makes the pages, a file without a name; workers inherit it. Each has a slot, in
which it alone writes, once a second: its heartbeat, numbers, histograms, and a sheet of JSON
for human eyes. Anybody may read all slots at any time, without asking or stopping anybody:

- A record is written beside the one in force, then the sequence number is moved on. Whoever
  finds the number unmoved after reading has read one whole record; who is killed in the
  middle of writing leaves the record before. The checksum is for machines (ARM) that may
  show another process the number before the record.
- What a slot counted stays when its worker ends; the next one there counts on from it. So
  totals never go down, and the dead leave no files behind.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import struct
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from zlib import crc32

import msgspec

from edgebox.observe.histogram import WORDS, Histogram
from edgebox.observe.kinds import KINDS

SLOTS = 64
SHEET = 64 * 1024  # octets

# Counters: of one process they only grow, and so do their totals.
NUMBERS: tuple[str, ...] = (
    "accepted", "busy", "shed", "starved",
    "requests", "express", "octets", "1xx", "2xx", "3xx", "4xx", "5xx",
    "hit", "miss", "stale", "file", "hit_octets", "miss_octets", "stale_octets", "file_octets",
    "cache_collapsed", "cache_renewed", "cache_stored", "cache_passed",
    "disk_hits", "disk_misses", "disk_written", "ram_evicted", "ram_refused",
    "upstream_requests", "upstream_failures", "upstream_connections", "upstream_reused",
    "log_lines_dropped", "warnings", "errors",
)  # fmt: skip

# What is so at the moment; of a worker that has ended nothing is left.
GAUGES: tuple[str, ...] = (
    "connections", "idle", "tasks", "connections_limit",
    "ram_held", "ram_budget", "ram_capacity", "ram_objects", "disk_held", "disk_limit",
    "upstream_active", "upstream_idle", "started", "lag_us", "draining",
)  # fmt: skip

# Seconds from a request's head to the first octet of its answer, and to the last.
HISTOGRAMS: tuple[str, ...] = tuple(f"{kind}_{end}" for kind in KINDS for end in ("first", "total"))

_COUNTED = len(NUMBERS) + len(HISTOGRAMS) * WORDS
_WORDS = _COUNTED + len(GAUGES)
# Of a slot, in words of 8 octets: sequence, pid, generation, beat; then what its former
# workers counted; then the two records, each: checksum, octets of sheet, words, sheet.
_SEQUENCE, _PID, _GENERATION, _BEAT, _BEFORE = range(5)
_RECORDS = (_BEFORE + _COUNTED) * 8
_HEAD = 16
_RECORD = _HEAD + _WORDS * 8 + SHEET
_SLOT = -(-(_RECORDS + 2 * _RECORD) // mmap.PAGESIZE) * mmap.PAGESIZE
_SIZE = mmap.PAGESIZE + (SLOTS + 1) * _SLOT  # one more: the board
# Two versions of edgebox that count different things must not read each other's pages.
_MAGIC = b"edgebox\0%16d" % crc32(repr((NUMBERS, GAUGES, HISTOGRAMS, WORDS, SHEET)).encode())
_NOTHING = (0,) * _WORDS
_READS = 1000  # attempts; each that fails had a worker publish meanwhile, once a second


@dataclass(frozen=True, slots=True)
class Reading:
    """What a living worker published last. `numbers` are its own, gauges among them.

    `beat`: CLOCK_MONOTONIC seconds; `sheet`: {} until it has published one.
    """

    pid: int
    generation: int
    beat: float
    numbers: dict[str, int]
    histograms: dict[str, Histogram]
    sheet: dict[str, object]


@dataclass(frozen=True, slots=True)
class Totals:
    """All workers together: those that have ended too, but for the gauges."""

    numbers: dict[str, int]
    histograms: dict[str, Histogram]


class Slot:
    """One worker's part of the pages."""

    def __init__(self, view: memoryview) -> None:
        self._view = view
        self._words = view.cast("Q")
        self._times = view.cast("d")

    def claim(self, pid: int, generation: int) -> None:
        """A new process has this slot from now on; that it starts counts as a beat."""
        counted, _, _ = self._record()
        struct.pack_into(f"={_COUNTED}Q", self._view, _BEFORE * 8, *counted[:_COUNTED])
        self.publish({}, {}, b"{}")
        self._words[_GENERATION] = generation
        self.beat(time.monotonic())
        self._words[_PID] = pid

    def release(self) -> None:
        """The process has ended: what it counted stays, the rest is gone."""
        self._words[_PID] = 0

    def beat(self, now: float) -> None:
        """The process is alive at `now`, CLOCK_MONOTONIC seconds."""
        self._times[_BEAT] = now

    def publish(
        self, numbers: Mapping[str, int], histograms: Mapping[str, Histogram], sheet: bytes
    ) -> None:
        """Tell what the process has counted since it started; names that are left out are 0.

        `sheet` is a JSON object, at most SHEET octets: ValueError beyond.
        """
        if len(sheet) > SHEET:
            raise ValueError(f"a sheet of {len(sheet)} octets")
        own = [numbers.get(name, 0) for name in NUMBERS]
        for name in HISTOGRAMS:
            own += histograms[name].words if name in histograms else (0,) * WORDS
        words = [a + b for a, b in zip(self._before(), own, strict=True)]
        words += [numbers.get(name, 0) for name in GAUGES]
        octets = struct.pack(f"={_WORDS}Q", *words) + sheet
        sequence = self._words[_SEQUENCE] + 1
        start = _RECORDS + sequence % 2 * _RECORD
        self._view[start + _HEAD : start + _HEAD + len(octets)] = octets
        struct.pack_into("=QQ", self._view, start, crc32(octets), len(sheet))
        self._words[_SEQUENCE] = sequence

    def read(self) -> Reading | None:
        """What the worker here has published; None where there is no worker."""
        pid = self._words[_PID]
        if not pid:
            return None
        words, before, sheet = self._record()
        own = [max(0, a - b) for a, b in zip(words, before, strict=False)]
        numbers, histograms = _named((*own, *words[_COUNTED:]))
        return Reading(
            pid, self._words[_GENERATION], self._times[_BEAT], numbers, histograms,
            msgspec.json.decode(sheet or b"{}", type=dict[str, object]),
        )  # fmt: skip

    def counted(self) -> tuple[int, ...]:
        """What all workers that were ever here have counted, and the gauges of the living.

        In words, as `_named` takes them; none where nobody ever was.
        """
        if not self._words[_SEQUENCE]:
            return ()
        words, _, _ = self._record()
        return words if self._words[_PID] else words[:_COUNTED] + (0,) * len(GAUGES)

    def close(self) -> None:
        for view in (self._times, self._words, self._view):
            view.release()

    def _before(self) -> tuple[int, ...]:
        return struct.unpack_from(f"={_COUNTED}Q", self._view, _BEFORE * 8)

    def _record(self) -> tuple[tuple[int, ...], tuple[int, ...], bytes]:
        """The words of the record in force, those of former workers, and the sheet."""
        for _ in range(_READS):
            sequence = self._words[_SEQUENCE]
            if not sequence:  # nobody was ever here
                return _NOTHING, _NOTHING[:_COUNTED], b""
            start = _RECORDS + sequence % 2 * _RECORD
            checksum, size = struct.unpack_from("=QQ", self._view, start)
            end = start + _HEAD + _WORDS * 8 + min(size, SHEET)
            octets = bytes(self._view[start + _HEAD : end])
            before = self._before()
            if self._words[_SEQUENCE] == sequence and crc32(octets) == checksum:
                return struct.unpack_from(f"={_WORDS}Q", octets), before, octets[_WORDS * 8 :]
        raise RuntimeError("the shared pages are damaged")


class Pages:
    """All slots, behind one descriptor.

    `board` is a slot more, for the supervisor's own sheet: the plan, what went wrong with its
    workers. It counts its warnings and errors.
    """

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self._map = mmap.mmap(fd, _SIZE)
        whole = memoryview(self._map)
        starts = range(mmap.PAGESIZE, _SIZE, _SLOT)
        *self._slots, self.board = [Slot(whole[start : start + _SLOT]) for start in starts]
        whole.release()

    @classmethod
    def create(cls) -> Pages:
        """New pages, all empty; memory is taken only as slots are used."""
        fd = os.memfd_create("edgebox-pages", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(fd, _SIZE)
        os.pwrite(fd, _MAGIC, 0)
        # Whoever maps it is safe from SIGBUS: nobody can make it shorter any more.
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW)
        return cls(fd)

    @classmethod
    def attach(cls, fd: int) -> Pages:
        """The pages behind an inherited descriptor. ValueError: another version made them."""
        if os.fstat(fd).st_size != _SIZE or os.pread(fd, len(_MAGIC), 0) != _MAGIC:
            raise ValueError("the shared pages are of another version of edgebox")
        return cls(fd)

    def slot(self, number: int) -> Slot:
        return self._slots[number]

    def readings(self) -> Iterator[tuple[int, Reading]]:
        """Each slot that has a worker, by number."""
        for number, slot in enumerate(self._slots):
            reading = slot.read()
            if reading is not None:
                yield number, reading

    def totals(self) -> Totals:
        """What the box has done since the pages were made; no number ever goes down but gauges."""
        slots = [words for slot in (*self._slots, self.board) if (words := slot.counted())]
        return Totals(*_named([sum(column) for column in zip(*slots, strict=True)] or _NOTHING))

    def close(self) -> None:
        for slot in (*self._slots, self.board):
            slot.close()
        self._map.close()
        os.close(self.fd)


def _named(words: Sequence[int]) -> tuple[dict[str, int], dict[str, Histogram]]:
    """The numbers, gauges among them, and the histograms of a record."""
    starts = range(len(NUMBERS), _COUNTED, WORDS)
    histograms = {
        name: Histogram(words[start : start + WORDS])
        for name, start in zip(HISTOGRAMS, starts, strict=True)
    }
    gauges = zip(GAUGES, words[_COUNTED:], strict=True)
    return {**dict(zip(NUMBERS, words, strict=False)), **dict(gauges)}, histograms
