"""Files that get their name last."""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from edgebox.files.compression.newfile import can_be_unnamed, open_new, remove_leftovers

BOTH_WAYS = pytest.mark.parametrize("unnamed", [True, False])


@BOTH_WAYS
def test_a_published_file_has_all_its_octets(tmp_path: Path, unnamed: bool) -> None:
    directory = os.fsencode(tmp_path)
    with open_new(directory, unnamed=unnamed) as file:
        file.write(b"hello ")
        assert not (tmp_path / "a").exists()
        file.write(b"world")
        file.publish(os.fsencode(tmp_path / "a"))
    assert (tmp_path / "a").read_bytes() == b"hello world"
    assert os.listdir(tmp_path) == ["a"]


@BOTH_WAYS
def test_a_file_given_up_leaves_nothing(tmp_path: Path, unnamed: bool) -> None:
    with pytest.raises(ZeroDivisionError), open_new(os.fsencode(tmp_path), unnamed=unnamed) as file:
        file.write(b"half of it")
        raise ZeroDivisionError
    assert os.listdir(tmp_path) == []


def test_who_comes_second_is_told(tmp_path: Path) -> None:
    target = os.fsencode(tmp_path / "a")
    with open_new(os.fsencode(tmp_path), unnamed=True) as file:
        (tmp_path / "a").write_bytes(b"first")
        with pytest.raises(FileExistsError):
            file.publish(target)
    assert (tmp_path / "a").read_bytes() == b"first"


@BOTH_WAYS
def test_no_descriptor_is_left(tmp_path: Path, unnamed: bool) -> None:
    before = os.listdir("/proc/self/fd")
    with open_new(os.fsencode(tmp_path), unnamed=unnamed) as file:
        file.publish(os.fsencode(tmp_path / "a"))
    assert os.listdir("/proc/self/fd") == before


def test_leftovers_of_the_dead_go_and_those_of_the_living_stay(tmp_path: Path) -> None:
    (tmp_path / ".new-1-0").write_bytes(b"its writer was killed")
    (tmp_path / "other").write_bytes(b"not ours")
    with open_new(os.fsencode(tmp_path), unnamed=False) as file:
        assert remove_leftovers(os.fsencode(tmp_path)) == 1
        file.publish(os.fsencode(tmp_path / "a"))
    assert sorted(os.listdir(tmp_path)) == ["a", "other"]


def test_a_locked_leftover_is_somebody_s(tmp_path: Path) -> None:
    path = tmp_path / ".new-1-0"
    with path.open("wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert remove_leftovers(os.fsencode(tmp_path)) == 0
    assert remove_leftovers(os.fsencode(tmp_path)) == 1


def test_looking_for_unnamed_files_leaves_nothing(tmp_path: Path) -> None:
    assert can_be_unnamed(os.fsencode(tmp_path)) in (True, False)
    assert os.listdir(tmp_path) == []


def test_a_directory_that_takes_no_files_is_told_early(
    tmp_path: Path, mounted: Callable[[str], Path]
) -> None:
    with pytest.raises(OSError) as missing:
        can_be_unnamed(os.fsencode(tmp_path / "missing"))
    assert missing.value.errno == errno.ENOENT
    with pytest.raises(OSError) as read_only:
        can_be_unnamed(os.fsencode(mounted("ro")))
    assert read_only.value.errno == errno.EROFS
