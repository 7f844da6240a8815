"""The bound of the cache directory: never passed, never by removing what is not ours."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgebox.files.compression.sweep import (
    BLOCK,
    Held,
    Room,
    TooLargeForRoom,
    choose_victims,
    footprint,
    scan,
)
from edgebox.files.compression.variants import variant_name
from edgebox.files.entry import Identity

held = st.builds(
    Held,
    st.binary(min_size=1, max_size=8),
    st.integers(1, 50).map(lambda blocks: blocks * BLOCK),
    st.integers(0, 20),
)


def add(directory: Path, number: int, size: int = 100, used: int = 0) -> Path:
    """A variant as if some helper had made it, used last at `used` seconds."""
    name = variant_name(Identity(1, number, 1, 1, 1), b"br")
    path = directory / os.fsdecode(name)
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(bytes(size))
    os.utime(path, (used, used))
    return path


def total(directory: Path) -> int:
    return sum(held.footprint for held in scan(os.fsencode(directory)))


@given(st.lists(held, max_size=30), st.integers(0, 600 * BLOCK))
def test_victims_are_the_oldest_and_no_more_than_needed(files: list[Held], limit: int) -> None:
    victims = choose_victims(files, limit)
    kept = list(files)
    for victim in victims:
        kept.remove(victim)
    assert sum(h.footprint for h in kept) <= limit
    if victims:
        assert sum(h.footprint for h in kept) + victims[-1].footprint > limit
        assert all(h.used_ns >= victims[-1].used_ns for h in kept)


@pytest.mark.parametrize(
    ("size", "octets"), [(0, BLOCK), (1, BLOCK), (BLOCK, BLOCK), (BLOCK + 1, 2 * BLOCK)]
)
def test_a_file_counts_by_whole_blocks_and_a_marker_by_one(size: int, octets: int) -> None:
    assert footprint(size) == octets


def test_the_later_of_access_and_change_is_the_last_use(tmp_path: Path) -> None:
    path = add(tmp_path, 1)
    os.utime(path, (9, 5))
    assert [h.used_ns for h in scan(os.fsencode(tmp_path))] == [9_000_000_000]
    os.utime(path, (3, 5))
    assert [h.used_ns for h in scan(os.fsencode(tmp_path))] == [5_000_000_000]


def test_only_names_that_variants_have_are_ever_removed(tmp_path: Path) -> None:
    """An operator who names a directory in use loses nothing."""
    strangers = ["index.html", "ab/notes.txt", "ab/x.gz", "photos/ab.br", "abc/y.br"]
    for name in strangers:
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(bytes(100_000))
    ours = add(tmp_path, 1)
    assert Room(os.fsencode(tmp_path), 0).recount() == 1
    assert not ours.exists()
    assert all((tmp_path / name).exists() for name in strangers)


def test_a_recount_removes_the_least_recently_used(tmp_path: Path) -> None:
    paths = [add(tmp_path, n, used=1000 + n) for n in range(10)]
    assert Room(os.fsencode(tmp_path), 4 * BLOCK).recount() == 6
    assert [path.exists() for path in paths] == [False] * 6 + [True] * 4


def test_a_burst_never_passes_the_limit(tmp_path: Path) -> None:
    limit = 20 * BLOCK
    room = Room(os.fsencode(tmp_path), limit)
    for number in range(60):
        size = number * 731 % (3 * BLOCK)
        with room.admit(size):
            add(tmp_path, number, size, used=number)
            assert total(tmp_path) <= limit
    assert total(tmp_path) > limit // 2


@pytest.mark.slow
def test_the_limit_holds_for_several_writers_together(tmp_path: Path) -> None:
    limit = 20 * BLOCK
    exceeded = []

    def write(first: int) -> None:
        room = Room(os.fsencode(tmp_path), limit)
        for number in range(first, first + 40):
            with room.admit(BLOCK):
                add(tmp_path, number, BLOCK, used=number)
                if total(tmp_path) > limit:
                    exceeded.append(number)

    threads = [threading.Thread(target=write, args=(n * 1000,)) for n in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not exceeded


def test_a_sweep_leaves_room_so_that_the_next_does_not_come_at_once(tmp_path: Path) -> None:
    room = Room(os.fsencode(tmp_path), 100 * BLOCK)
    for number in range(100):
        with room.admit(1):
            add(tmp_path, number, used=number)
    swept = []
    for number in range(100, 110):
        with room.admit(1) as removed:
            add(tmp_path, number, used=number)
        swept.append(removed)
    assert swept == [11] + [0] * 9


def test_what_is_larger_than_the_limit_removes_nothing(tmp_path: Path) -> None:
    room = Room(os.fsencode(tmp_path), 2 * BLOCK)
    kept = add(tmp_path, 1)
    with pytest.raises(TooLargeForRoom), room.admit(2 * BLOCK + 1):
        pytest.fail("admitted")
    assert kept.exists()


@pytest.mark.parametrize("octets", [b"", b"garbage", b"-5"])
def test_a_sum_that_was_lost_is_made_anew_from_the_files(tmp_path: Path, octets: bytes) -> None:
    for number in range(10):
        add(tmp_path, number, used=number)
    (tmp_path / ".sum").write_bytes(octets)
    with Room(os.fsencode(tmp_path), 10 * BLOCK).admit(1):
        add(tmp_path, 99, used=99)
    assert total(tmp_path) <= 10 * BLOCK
    assert int((tmp_path / ".sum").read_bytes()) == total(tmp_path)


def test_shrinking_gives_a_tenth_back(tmp_path: Path) -> None:
    for number in range(50):
        add(tmp_path, number, used=number)
    assert Room(os.fsencode(tmp_path), 1 << 30).shrink() == 5
    assert total(tmp_path) == 45 * BLOCK
