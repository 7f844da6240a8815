"""An open file lives exactly as long as somebody needs it."""

from __future__ import annotations

import os

import pytest

from edgebox.files.entry import FileEntry, Identity, Missing, OpenFile


def is_open(fd: int) -> bool:
    return os.path.lexists(f"/proc/self/fd/{fd}")


def open_null() -> int:
    return os.open("/dev/null", os.O_RDONLY)


def test_the_last_release_closes() -> None:
    fd = open_null()
    file = OpenFile(fd)
    assert file.acquire() is file
    file.release()
    assert is_open(fd)
    file.release()
    assert not is_open(fd)


def test_the_last_reference_closes_what_nobody_released() -> None:
    fd = open_null()
    file = OpenFile(fd)
    file.acquire()
    assert is_open(fd)
    del file
    assert not is_open(fd)


def test_a_closed_file_is_not_acquired_or_released_again() -> None:
    file = OpenFile(open_null())
    file.release()
    with pytest.raises(ValueError, match="closed"):
        file.acquire()
    with pytest.raises(ValueError, match="more often"):
        file.release()


def test_identity_is_what_fstat_says() -> None:
    status = os.stat("/")
    identity = Identity.of(status)
    assert identity == (
        status.st_dev,
        status.st_ino,
        status.st_size,
        status.st_mtime_ns,
        status.st_ctime_ns,
    )
    entry = FileEntry(b"/", identity, b'"x"', b"")
    assert (entry.size, entry.mtime) == (status.st_size, int(status.st_mtime_ns // 10**9))


def test_what_lies_outside_is_told_as_not_found() -> None:
    assert Missing.OUTSIDE.status == Missing.NOT_FOUND.status == 404
    assert Missing.FORBIDDEN.status == 403
    assert Missing.NO_DESCRIPTORS.status == 503
    assert Missing.IO_ERROR.status == 500
