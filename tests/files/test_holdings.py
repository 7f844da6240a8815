"""A record, its content and its descriptor come and go together, and all is accounted for."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from edgebox.config.schema import Files
from edgebox.files.coverage import UNCOVERED, Coverage
from edgebox.files.entry import Directory, Docroot, FileEntry, Found, Identity, Missing, OpenFile
from edgebox.files.holdings import Holdings
from edgebox.files.statcache import Record
from edgebox.memory.ledger import Ledger
from edgebox.memory.workingset import WorkingSet

pytestmark = pytest.mark.usefixtures("no_leaks")

WWW = Docroot(b"/www")


class Rig:
    def __init__(self, working_set: int = 10_000, open_files: int = 2, budget: int = 1 << 30):
        self.ledger = Ledger(budget)
        self.working_set = WorkingSet(working_set, self.ledger)
        self.released: list[Coverage] = []
        config = Files(entries=16, negative_entries=2, open_files=open_files)
        self.holdings = Holdings(config, self.working_set, self.released.append)

    def keep(
        self, path: bytes, found: Found, used_at: float = 0.0, coverage: Coverage = UNCOVERED
    ) -> bool:
        return self.holdings.keep((WWW, path), Record(found, used_at, used_at, 0.0, coverage))

    def has(self, path: bytes) -> bool:
        return self.holdings.get((WWW, path)) is not None


def small(path: bytes, size: int) -> FileEntry:
    return FileEntry(path, Identity(1, 1, size, 1, 1), b'"x"', b"", content=b"x" * size)


def large(path: bytes) -> tuple[FileEntry, int]:
    fd = os.open("/dev/null", os.O_RDONLY)
    return FileEntry(path, Identity(1, 1, 1 << 40, 1, 1), b'"x"', b"", file=OpenFile(fd)), fd


def is_open(fd: int) -> bool:
    return os.path.lexists(f"/proc/self/fd/{fd}")


def test_an_evicted_content_takes_its_record_along() -> None:
    rig = Rig(working_set=10_000)
    for name in (b"/a", b"/b", b"/c"):
        assert rig.keep(name, small(name, 4_000))
    assert [rig.has(name) for name in (b"/a", b"/b", b"/c")] == [False, True, True]
    assert rig.released == [UNCOVERED]
    statistics = rig.holdings.statistics()
    assert (statistics.entries, statistics.evicted) == (2, 1)


def test_an_evicted_record_takes_its_content_along() -> None:
    rig = Rig(working_set=1 << 20)
    for i in range(20):
        name = b"/%d" % i
        rig.keep(name, small(name, 100))
    assert rig.working_set.statistics().objects == 16
    assert rig.working_set.statistics().held == 1_600


def test_a_dropped_large_file_is_closed_unless_somebody_has_it() -> None:
    rig = Rig(open_files=2)
    entry, fd = large(b"/0")
    rig.keep(b"/0", entry)
    assert entry.file is not None
    file = entry.file.acquire()
    del entry
    _, second = keep_large(rig, b"/1")
    keep_large(rig, b"/2")
    keep_large(rig, b"/3")  # the first two had to go
    assert not rig.has(b"/0")
    assert is_open(fd)
    assert not is_open(second)
    file.release()
    del file
    assert not is_open(fd)
    assert rig.holdings.statistics().open_files == 2
    rig.holdings.clear()


def keep_large(rig: Rig, path: bytes) -> tuple[bytes, int]:
    entry, fd = large(path)
    rig.keep(path, entry)
    return path, fd


def test_an_entry_in_hand_can_still_be_acquired_after_it_was_dropped() -> None:
    rig = Rig(open_files=1)
    entry, fd = large(b"/a")
    rig.keep(b"/a", entry)
    keep_large(rig, b"/b")
    assert not rig.has(b"/a")
    assert entry.file is not None
    entry.file.acquire().release()
    assert is_open(fd)
    rig.holdings.clear()


def test_no_open_files_still_means_one_between_two_requests() -> None:
    rig = Rig(open_files=0)
    keep_large(rig, b"/a")
    assert rig.has(b"/a")
    keep_large(rig, b"/b")
    assert not rig.has(b"/a")
    rig.holdings.clear()


def test_idle_descriptors_and_those_of_ended_coverages_are_closed() -> None:
    rig = Rig(open_files=3)
    ended = Coverage()
    fds = {}
    for path, used_at, coverage in (
        (b"/idle", 0.0, UNCOVERED),
        (b"/used", 50.0, UNCOVERED),
        (b"/ended", 50.0, ended),
    ):
        entry, fds[path] = large(path)
        rig.keep(path, entry, used_at, coverage)
        del entry
    ended.alive = False
    rig.holdings.close_idle(60.0)
    assert [path for path, fd in fds.items() if is_open(fd)] == [b"/used"]
    rig.holdings.clear()


def test_touching_saves_from_eviction() -> None:
    rig = Rig(working_set=10_000, open_files=2)
    rig.keep(b"/a", small(b"/a", 4_000))
    rig.keep(b"/b", small(b"/b", 4_000))
    keep_large(rig, b"/c")
    keep_large(rig, b"/d")
    for path in (b"/a", b"/c"):
        record = rig.holdings.get((WWW, path))
        assert record is not None
        rig.holdings.touch((WWW, path), record, 7.0)
        assert record.used_at == 7.0
    rig.keep(b"/e", small(b"/e", 4_000))
    keep_large(rig, b"/f")
    assert [rig.has(b"/" + name) for name in (b"a", b"b", b"c", b"d")] == [True, False, True, False]
    rig.holdings.clear()


def test_what_cannot_fit_is_not_kept_and_costs_nothing() -> None:
    rig = Rig(working_set=100)
    assert not rig.keep(b"/a", small(b"/a", 101))
    assert rig.ledger.held == 0
    assert rig.holdings.made_room_lately()


def test_every_record_is_in_the_ledger_until_it_leaves() -> None:
    rig = Rig()
    rig.keep(b"/a", small(b"/a", 500))
    rig.keep(b"/b", Directory(b"/b"))
    rig.keep(b"/none", Missing.NOT_FOUND)
    accounts = rig.ledger.statistics().accounts
    assert accounts["working set"] == 500
    assert accounts["paths"] == 3 * 1024
    assert not rig.holdings.made_room_lately()
    rig.holdings.discard((WWW, b"/a"))
    rig.holdings.clear()
    assert rig.ledger.held == 0
    assert not rig.holdings.made_room_lately()


def test_a_full_cache_of_missing_paths_makes_room_too(tmp_path: Path) -> None:
    rig = Rig()
    for i in range(5):
        rig.keep(b"/%d" % i, Missing.NOT_FOUND)
    assert rig.holdings.statistics().negative_entries == 2
    assert rig.holdings.statistics().evicted == 3
    assert rig.holdings.made_room_lately()
    assert rig.ledger.held == 2 * 1024


def test_an_unplanned_number_is_refused() -> None:
    with pytest.raises(ValueError, match="open_files"):
        Holdings(Files(), WorkingSet(1, Ledger(1)), lambda _: None)
