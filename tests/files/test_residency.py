"""What is in RAM is read at once; what is not is left to a thread."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from edgebox.files.residency import (
    is_resident,
    lives_in_memory,
    load_window,
    read_blocking,
    resident_read,
)

CONTENT = os.urandom(1 << 20)


@pytest.fixture
def file(tmp_path: Path) -> Iterator[int]:
    path = tmp_path / "file"
    path.write_bytes(CONTENT)
    fd = os.open(path, os.O_RDWR)
    os.fsync(fd)
    yield fd
    os.close(fd)


def cold(fd: int, ask: Callable[[], object], refusal: object, warm: int | None = None) -> bool:
    """Whether `ask` gives `refusal` when the file (but for the octet at `warm`) is on disk only.

    Asking once makes the kernel read ahead, so each question needs a cold file; and it
    may keep a page, or be quick enough, so one refusal in some tries is proof.
    """
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)
    for _ in range(50):
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        if warm is not None:
            os.pread(fd, 1, warm)
        if ask() == refusal:
            return True
    if lives_in_memory(fd):
        pytest.skip("nothing is ever cold here: set TMPDIR to a directory on a disk")
    return False


def test_resident_octets_are_read_without_waiting(file: int) -> None:
    assert is_resident(file, 0, len(CONTENT))
    assert resident_read(file, 0, len(CONTENT)) == CONTENT
    assert resident_read(file, 100, 7) == CONTENT[100:107]
    assert resident_read(file, 5, 0) == b""


def test_cold_octets_are_refused_until_they_were_loaded(file: int) -> None:
    assert cold(file, lambda: resident_read(file, 0, len(CONTENT)), None)
    assert cold(file, lambda: is_resident(file, 0, len(CONTENT)), False)
    load_window(file, 0, len(CONTENT))
    assert is_resident(file, 0, len(CONTENT))
    assert resident_read(file, 0, len(CONTENT)) == CONTENT


@pytest.mark.parametrize("warm", [0, len(CONTENT) - 1])
def test_a_window_whose_start_or_end_is_cold_is_not_resident(file: int, warm: int) -> None:
    assert cold(file, lambda: resident_read(file, 0, len(CONTENT)), None, warm)
    assert cold(file, lambda: is_resident(file, 0, len(CONTENT)), False, warm)
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
