"""The files never take more than the limit, whoever dies while writing."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from edgebox.cache.disk import lock as lock_module
from edgebox.cache.disk.outcome import Busy
from edgebox.cache.disk.space import SLOTS, Space, Taken
from tests.cache.disk.conftest import Fork, kill

# fork() beside threads that trio left to be used again: the child uses none.
pytestmark = pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")

LIMIT = 100
Open = Callable[..., Space]


@pytest.fixture
def open_space(tmp_path: Path) -> Open:
    (tmp_path / "objects").mkdir(exist_ok=True)
    opened: list[Space] = []

    def open_(*, limit: int = LIMIT, writes: bool = True) -> Space:
        opened.append(Space(os.fsencode(tmp_path), limit, writes=writes))
        return opened[-1]

    return open_  # what is open still, closes with its last reference


@pytest.fixture
def space(open_space: Open) -> Space:
    return open_space()


def test_no_more_is_granted_than_there_is(space: Space, open_space: Open) -> None:
    other = open_space()
    assert space.reserve(60)
    assert not other.reserve(41)
    assert other.reserve(40)
    assert not space.reserve(1)
    other.release(40)
    assert space.reserve(40)
    assert space.taken() == other.taken() == Taken(0, 100)


def test_what_has_a_name_counts_until_it_has_none(space: Space, open_space: Open) -> None:
    assert space.reserve(60)
    space.charge(7, 60)
    space.release(60)
    assert space.taken() == Taken(60, 0)
    assert not space.reserve(41)
    open_space(writes=False).credit(7, 60)
    assert space.reserve(100)


def test_it_is_remembered(open_space: Open) -> None:
    space = open_space()
    space.charge(7, 60)
    space.close()
    assert open_space().taken() == Taken(60, 0)


def test_counting_a_directory_sets_its_errors_right(space: Space) -> None:
    space.charge(7, 60)
    space.charge(8, 10)
    space.settle(7, 20)
    assert space.taken() == Taken(30, 0)
    space.settle(9, 5)
    space.finish_count()
    assert space.taken() == Taken(35, 0)


def test_who_cannot_have_a_slot_reserves_nothing(open_space: Open) -> None:
    assert not open_space(writes=False).reserve(1)
    for _ in range(SLOTS):
        assert open_space().reserve(1)
    assert not open_space().reserve(1)


def test_what_a_dead_process_had_reserved_is_given_back(open_space: Open, fork: Fork) -> None:
    keeper, living = open_space(writes=False), open_space()
    assert living.reserve(10)
    ready, tell = os.pipe()

    def work() -> None:
        assert open_space().reserve(90)
        os.write(tell, b"!")
        signal.pause()

    child = fork(work)
    assert os.read(ready, 1) == b"!"
    assert keeper.reclaim() == 0
    assert keeper.taken() == Taken(0, 100)
    kill(child)
    assert keeper.reclaim() == 90
    assert living.taken() == Taken(0, 10)
    os.close(ready)
    os.close(tell)


def test_a_slot_is_taken_over_empty(open_space: Open) -> None:
    open_space().reserve(90)
    first = open_space()
    assert first.reserve(10)
    first.close()
    assert open_space().taken() == Taken(0, 90)


def test_without_the_file_nothing_is_granted_before_all_was_counted(
    space: Space, open_space: Open, tmp_path: Path
) -> None:
    (tmp_path / "objects" / "000").mkdir()
    (tmp_path / "space").unlink()
    assert space.lost
    again = open_space()
    assert not again.counted
    assert not again.reserve(1)
    again.settle(0, 60)
    again.finish_count()
    assert again.counted
    assert again.reserve(40)
    assert not again.reserve(1)


@pytest.mark.parametrize("octets", [b"", b"x" * 100, b"x" * 36864, b"x" * 50_000])
def test_a_foreign_file_is_made_anew(open_space: Open, tmp_path: Path, octets: bytes) -> None:
    (tmp_path / "space").write_bytes(octets)
    space = open_space()
    assert space.taken() == Taken(0, 0)
    assert space.reserve(LIMIT)


def test_nothing_goes_below_nothing(space: Space) -> None:
    space.credit(3, 50)
    assert space.taken() == Taken(0, 0)
    space.charge(3, 20)
    space.settle(3, 0)
    assert space.taken() == Taken(0, 0)


def test_nobody_changes_anything_while_another_is_at_it(
    space: Space, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lock_module, "PATIENCE", 0.01)
    fd = os.open(tmp_path / "space", os.O_RDWR)
    with lock_module.locked(fd):
        for change in (
            lambda: space.reserve(1),
            lambda: space.charge(0, 1),
            lambda: space.credit(0, 1),
            lambda: space.settle(0, 1),
            space.finish_count,
            space.reclaim,
        ):
            with pytest.raises(Busy):
                change()
        space.release(0)  # one's own slot is nobody else's
    os.close(fd)
    assert space.taken() == Taken(0, 0)


def test_threads_and_processes_together_stay_within(open_space: Open, fork: Fork) -> None:
    spaces = [open_space(limit=1000) for _ in range(3)]
    granted: list[int] = []

    def take(space: Space) -> None:
        granted.extend(7 for _ in range(100) if space.reserve(7))

    threads = [threading.Thread(target=take, args=(s,)) for s in spaces for _ in range(2)]
    child = fork(lambda: take_all(open_space(limit=1000)))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    _, status = os.waitpid(child, 0)
    theirs = os.waitstatus_to_exitcode(status)
    assert len(granted) + theirs == 1000 // 7


def take_all(space: Space) -> int:
    return sum(space.reserve(7) for _ in range(100))
