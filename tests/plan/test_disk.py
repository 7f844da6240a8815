"""Promises about disks and content: what is seen is right, and what is not seen is unknown."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from edgebox.plan.disk import block_kind, content, disk


def test_size_and_room_are_the_file_system_s(tmp_path: Path) -> None:
    found, seen = disk(str(tmp_path), "root"), os.statvfs(tmp_path)
    assert found.size == seen.f_blocks * seen.f_frsize
    assert found.mount is not None
    assert str(tmp_path.resolve()).startswith(found.mount)
    assert found.file_system


def test_a_directory_that_is_not_there_yet_lies_where_its_parent_does(tmp_path: Path) -> None:
    found = disk(str(tmp_path / "cache" / "edgebox"), "cache")
    assert found.path == str(tmp_path / "cache" / "edgebox")
    assert found.mount == disk(str(tmp_path), "cache").mount


def test_memory_is_told_from_disk() -> None:
    found = disk("/proc/self", "root")
    assert (found.mount, found.file_system, found.kind) == ("/proc", "proc", None)
    if disk("/dev/shm", "root").file_system == "tmpfs":
        assert disk("/dev/shm", "root").kind == "memory"


@pytest.mark.parametrize(
    ("name", "rotational", "kind"),
    [
        ("sda", "1", "rotating"),
        ("sdb", "0", "ssd"),
        ("nvme0n1", "0", "nvme"),
        ("mmcblk0", "0", "card"),
        ("vda", "1", "virtual"),
        ("xvda", "0", "virtual"),
        ("loop0", "0", None),
        ("sdc", None, None),
    ],
)
def test_a_block_device_is_known_by_name_and_by_what_it_says(
    tmp_path: Path, name: str, rotational: str | None, kind: str | None
) -> None:
    assert block_kind(device(tmp_path, name, rotational)) == kind


def test_a_partition_is_of_its_disk_s_kind(tmp_path: Path) -> None:
    partition = device(tmp_path, "sda", "0") / "sda1"
    partition.mkdir()
    (partition / "partition").write_text("1\n")
    assert block_kind(partition) == "ssd"


def test_an_array_is_as_slow_as_its_slowest_disk(tmp_path: Path) -> None:
    array = tmp_path / "md0"
    (array / "slaves").mkdir(parents=True)
    for name, rotational in (("nvme0n1", "0"), ("sda", "1")):
        (array / "slaves" / name).symlink_to(device(tmp_path, name, rotational))
    assert block_kind(array) == "rotating"
    (array / "slaves" / "loop0").symlink_to(device(tmp_path, "loop0", "0"))
    assert block_kind(array) is None


def test_files_directories_and_bytes_below_a_root_are_counted(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "x").write_bytes(b"1234")
    (tmp_path / "a" / "b" / "y").write_bytes(b"56")
    (tmp_path / "again").symlink_to(tmp_path / "a")
    (tmp_path / "alias").symlink_to(tmp_path / "x")
    found = content(str(tmp_path), 10)
    assert (found.files, found.directories, found.size) == (2, 3, 6)


def test_content_that_takes_too_long_to_count_is_unknown(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"1234")
    assert content(str(tmp_path), -1).size is None


def test_a_root_that_is_not_there_is_unknown_and_not_empty(tmp_path: Path) -> None:
    found = content(str(tmp_path / "none"), 10)
    assert (found.files, found.size) == (None, None)


def device(base: Path, name: str, rotational: str | None) -> Path:
    path = base / name
    (path / "queue").mkdir(parents=True)
    if rotational is not None:
        (path / "queue" / "rotational").write_text(rotational + "\n")
    return path
