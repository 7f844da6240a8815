"""Purges, in force for every worker as soon as they are written down.

Deleting files takes time, and fetches under way know nothing of a purge. So each purge gets
the next *tick*, and what was begun at a lesser one is concerned by it.

KEY purges change the files of their key themselves. Here they only have to stop fetches under
way, for which a table of ticks by hash of the key will do: it may stop one too many. The
others go into a ring and count against each file that is found, until the housekeeper has
carried them out; after that they stay for fetches that take long. When the ring is full of
purges that nobody carries out, one purge of everything takes their place.

Ticks are microseconds of the wall clock, and always more than the last: a file that was lost
begins anew above all that came before, with a purge of everything, since nobody knows what was
in it. The file is mapped for reading, so that asking for the tick costs no system call, and
written by pwrite(2): a store into a mapping is answered by SIGBUS when the disk fails.
"""

from __future__ import annotations

import mmap
import os
import threading
from typing import NamedTuple
from zlib import crc32

import msgspec

from edgebox.cache.answer import Instant
from edgebox.cache.disk import clock, ring
from edgebox.cache.disk.layout import PURGES
from edgebox.cache.disk.lock import locked
from edgebox.cache.disk.purge import Kind, Mode, Purge, PurgeSet, apply, hardest
from edgebox.cache.disk.ring import Header, Record
from edgebox.cache.entry import StoredResponse
from edgebox.files.entry import OpenFile

_TICK, _LAST, _DONE = 1, 2, 3  # places of the header's words in the mapping


class _Known(NamedTuple):
    """The ring as of one reading of the header, by number.

    `horizon`: of the purges up to this tick some may be gone from the ring. `done`: those up to
    this tick are carried out. `names` is for looking up, and may have more than is in the ring.
    """

    header: Header
    purges: dict[int, Purge]
    horizon: int
    done: int
    names: PurgeSet


class PurgeLog:
    """The purges of one cache directory. OSError or Busy where the file cannot be used."""

    def __init__(self, directory: bytes, boot: bytes) -> None:
        self._boot = boot
        self._lock = threading.Lock()
        self._refreshing = threading.Lock()
        self._path = os.path.join(directory, PURGES)
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        # Closed by us, or with the last reference: threads may outlive who opened it.
        self._file = OpenFile(os.open(self._path, flags, 0o600))
        with locked(self._fd):
            self._prepare()
        self._map = mmap.mmap(self._fd, ring.RING_AT, prot=mmap.PROT_READ)
        self._words = memoryview(self._map).cast("Q")
        self._known = _Known(Header(0, 0, 0, b""), {}, 0, 0, PurgeSet())

    def close(self) -> None:
        self._words.release()
        self._map.close()
        self._file.release()

    @property
    def _fd(self) -> int:
        return self._file.fileno()  # -1 once it is closed, not another file's number

    @property
    def lost(self) -> bool:
        """Whether the file at the path is another by now, or none."""
        try:
            return not os.path.samestat(os.stat(self._path), os.fstat(self._fd))
        except OSError:
            return True

    def mark(self) -> int:
        """The tick of the last purge: what begins now is not concerned by it. OSError."""
        return self._refresh().header.tick

    # -- asking

    def refuses(self, key: bytes, entry: StoredResponse, born: int) -> bool:
        """Whether a fetch that began at the mark `born` has been purged since, or may have been."""
        known = self._refresh()
        tick = known.header.tick
        if tick == born:
            return False
        if born < known.horizon or born > tick or self.key_purged(key, born):
            return True
        return bool(known.names.concerning(key, entry, born))

    def judge(
        self, key: bytes, entry: StoredResponse, born: int, now: Instant
    ) -> StoredResponse | None:
        """What the purges since `born` leave of a stored response; None: nothing.

        Only those that are not carried out yet; KEY purges are, before they return.
        """
        known = self._refresh()
        if born > known.header.tick:
            return None  # the file was lost since, and the clock set back
        since = max(born, known.done)
        if since >= known.header.tick:
            return entry
        left: StoredResponse | None = entry
        for purge in known.names.concerning(key, entry, since):
            if left is not None:
                left = apply(purge.mode, left, purge.at(now, self._boot))
        return left

    def since(self, tick: int) -> tuple[Purge, ...] | None:
        """The purges after `tick`, KEY purges apart; None if not all of them are known."""
        known = self._refresh()
        if tick < known.horizon:
            return None
        return tuple(purge for purge in known.purges.values() if purge.tick > tick)

    def key_purged(self, key: bytes, tick: int) -> bool:
        """Whether this key, or one that shares its place in the table, was purged after `tick`."""
        return self._words[ring.TABLE_AT // 8 + _place(key)] > tick

    def pending(self) -> dict[int, Purge]:
        """What is to be carried out, by number."""
        known = self._refresh()
        return {number: p for number, p in known.purges.items() if number > known.header.done}

    # -- telling

    def add(self, purge: Purge, now: Instant, *, durable: bool) -> Purge:
        """Put a purge into force. `durable`: not even a power cut undoes it.

        Raises OSError, Busy, or ValueError where it names more than fits a record.
        """
        if purge.kind is not Kind.KEY and len(purge.value) + len(purge.origin) > ring.LONGEST:
            raise ValueError(f"a {purge.kind.value} may have {ring.LONGEST} octets")
        with self._lock, locked(self._fd):
            header = self._header()
            tick = max(header.tick + 1, _microseconds(now))
            purge = msgspec.structs.replace(
                purge, tick=tick, wall=now.wall, steady=now.steady, boot=self._boot
            )
            if purge.kind is Kind.KEY:
                ring.write_table(self._fd, _place(purge.value), tick)
                ring.write_header(self._fd, header._replace(tick=tick))
                return purge
            if header.last - header.done >= ring.RECORDS - 1:
                purge, header = self._collapse(purge), header._replace(done=header.last)
            before = ring.read_record(self._fd, header.last)
            record = Record(purge, header.tick if before is None else before.purge.tick)
            ring.write_record(self._fd, header.last + 1, record)
            if durable:
                os.fdatasync(self._fd)
            ring.write_header(self._fd, header._replace(tick=tick, last=header.last + 1))
            return purge

    def carried_out(self, number: int) -> None:
        """No file is left that a purge up to this number concerns. Raises OSError or Busy."""
        with self._lock, locked(self._fd):
            header = self._header()
            ring.write_header(self._fd, header._replace(done=max(header.done, number)))

    def _collapse(self, purge: Purge) -> Purge:
        """One purge of everything, in place of all that wait and of `purge`."""
        mode = hardest([purge, *self.pending().values()])
        return msgspec.structs.replace(
            purge, kind=Kind.EVERYTHING, value=b"", origin=b"", mode=mode
        )

    # -- the file

    def _prepare(self) -> None:
        now = clock.now()
        tick = _microseconds(now)
        header = ring.read_header(self._fd)
        if header is not None and os.fstat(self._fd).st_size == ring.SIZE:
            if header.boot != self._boot:
                # A power cut may have taken the last ticks, but not the time of day.
                header = header._replace(tick=max(header.tick, tick), boot=self._boot)
                ring.write_header(self._fd, header)
            return
        ring.allocate(self._fd)
        purge = Purge(
            kind=Kind.EVERYTHING, tick=tick, wall=now.wall, steady=now.steady, boot=self._boot
        )
        ring.write_record(self._fd, 1, Record(purge, 0))
        os.fdatasync(self._fd)
        ring.write_header(self._fd, Header(tick, 1, 0, self._boot))

    def _header(self) -> Header:
        header = ring.read_header(self._fd)
        if header is None:
            raise OSError(f"{os.fsdecode(self._path)} is damaged")
        return header

    def _refresh(self) -> _Known:
        """What is known, read on if the header has changed: as a whole, for any thread."""
        words, header = self._words, self._known.header
        if (words[_TICK], words[_LAST], words[_DONE]) == header[:3]:
            return self._known
        with self._refreshing:
            self._known = self._read_on(self._known, self._header())
            return self._known

    def _read_on(self, known: _Known, header: Header) -> _Known:
        first = max(1, header.last - ring.RECORDS + 1)
        if not first - 1 <= known.header.last <= header.last or len(known.names) > 2 * ring.RECORDS:
            known = _Known(header._replace(last=first - 1), {}, 0, 0, PurgeSet())
        purges, names, horizon = dict(known.purges), known.names, known.horizon
        for number in range(known.header.last + 1, header.last + 1):
            record = ring.read_record(self._fd, number)
            if record is None:
                if number == first > 1:
                    continue  # the next is being written over it, so it is carried out
                # Damaged: it may have been about anything.
                everything = Purge(kind=Kind.EVERYTHING, mode=Mode.REMOVE, tick=header.tick)
                record = Record(everything, header.tick)
            if not purges:
                horizon = record.before
            purges[number] = record.purge
            names.add(record.purge)
        while (oldest := next(iter(purges), first)) < first:
            horizon = purges.pop(oldest).tick
        done = purges[header.done].tick if header.done in purges else 0
        return _Known(header, purges, horizon, done, names)


def _place(key: bytes) -> int:
    return crc32(key) % ring.TABLE


def _microseconds(now: Instant) -> int:
    return int(now.wall * 1e6)
