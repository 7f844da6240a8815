"""What is in RAM is read at once; what is not is left to a thread."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from edgebox.files.residency import is_resident, load_window, read_blocking, resident_read

CONTENT = os.urandom(1 << 20)


@pytest.fixture
def file(tmp_path: Path) -> Iterator[int]:
    path = tmp_path / "file"
    path.write_bytes(CONTENT)
    fd = os.open(path, os.O_RDWR)
    os.fsync(fd)
    yield fd
    os.close(fd)


def evict(fd: int) -> None:
    """Out of the page cache; the file system must have a disk."""
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    if is_resident(fd, 0, len(CONTENT)):
        pytest.skip("nothing is ever cold here: set TMPDIR to a directory on a disk")


def test_resident_octets_are_read_without_waiting(file: int) -> None:
    assert is_resident(file, 0, len(CONTENT))
    assert resident_read(file, 0, len(CONTENT)) == CONTENT
    assert resident_read(file, 100, 7) == CONTENT[100:107]
    assert resident_read(file, 5, 0) == b""


def test_cold_octets_are_refused_until_they_were_loaded(file: int) -> None:
    evict(file)
    assert resident_read(file, 0, len(CONTENT)) is None
    load_window(file, 0, len(CONTENT))
    assert is_resident(file, 0, len(CONTENT))
    assert resident_read(file, 0, len(CONTENT)) == CONTENT


def test_a_window_whose_start_or_end_is_cold_is_not_resident(file: int) -> None:
    for warm in (0, len(CONTENT) - 1):
        evict(file)
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_RANDOM)  # no read-ahead
        os.pread(file, 1, warm)
        assert not is_resident(file, 0, len(CONTENT))
        assert resident_read(file, 0, len(CONTENT)) is None
        assert is_resident(file, warm, 1)


def test_what_ends_early_is_not_resident_and_not_waited_for(file: int) -> None:
    assert resident_read(file, 0, len(CONTENT) + 1) is None
    assert read_blocking(file, 0, len(CONTENT) + 1) == CONTENT
    assert read_blocking(file, len(CONTENT), 10) == b""
    # Sending it will end early by itself; no thread could help.
    assert is_resident(file, len(CONTENT), 1 << 20)
    load_window(file, len(CONTENT) - 10, 1 << 30)


def test_an_empty_window_is_resident(file: int) -> None:
    assert is_resident(file, 0, 0)
    load_window(file, 0, 0)
    assert read_blocking(file, 0, 0) == b""


@pytest.mark.skipif(not Path("/dev/shm").is_dir(), reason="mount a tmpfs on /dev/shm")
def test_a_file_system_in_memory_never_waits() -> None:
    fd = os.open("/dev/shm", os.O_TMPFILE | os.O_RDWR)
    try:
        os.write(fd, CONTENT)
        assert is_resident(fd, 0, len(CONTENT))
        assert resident_read(fd, 0, len(CONTENT)) == CONTENT
        assert resident_read(fd, 0, len(CONTENT) + 1) is None
    finally:
        os.close(fd)


def test_errors_other_than_waiting_are_raised(tmp_path: Path) -> None:
    not_for_reading = os.open(tmp_path, os.O_PATH)
    try:
        for read in (resident_read, read_blocking, is_resident):
            with pytest.raises(OSError, match="Bad file descriptor"):
                read(not_for_reading, 0, 10)
    finally:
        os.close(not_for_reading)
