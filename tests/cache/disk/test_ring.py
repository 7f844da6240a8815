"""The file of purges: read as it was written, or known to be damaged."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgebox.cache.disk import ring
from edgebox.cache.disk.purge import Kind, Purge
from edgebox.cache.disk.ring import Header, Record

BOOT = bytes(range(16))
HEADER = Header(1_900_000_000_000_000, 700, 699, BOOT)


@pytest.fixture
def fd(tmp_path: Path) -> Iterator[int]:
    fd = os.open(tmp_path / "purges", os.O_RDWR | os.O_CREAT)
    ring.allocate(fd)
    yield fd
    os.close(fd)


def test_a_new_file_has_no_header_yet(fd: int) -> None:
    assert ring.read_header(fd) is None
    assert os.fstat(fd).st_size == ring.SIZE


def test_the_header_is_read_as_it_was_written(fd: int) -> None:
    ring.write_header(fd, HEADER)
    assert ring.read_header(fd) == HEADER


@given(st.integers(0, 51), st.integers(1, 255))
def test_a_damaged_header_is_none(fd: int, at: int, flip: int) -> None:
    ring.write_header(fd, HEADER)
    damage(fd, at, flip)
    assert ring.read_header(fd) is None


@given(st.integers(1, 5000), st.binary(max_size=ring.LONGEST))
def test_a_record_is_read_as_it_was_written(fd: int, number: int, value: bytes) -> None:
    record = Record(Purge(kind=Kind.TAG, value=value, tick=9, wall=1.5, boot=BOOT), 8)
    ring.write_record(fd, number, record)
    assert ring.read_record(fd, number) == record
    assert ring.read_record(fd, number + ring.RECORDS) is None


@given(st.integers(0, 60), st.integers(1, 255))
def test_a_damaged_record_is_none(fd: int, at: int, flip: int) -> None:
    ring.write_record(fd, 3, Record(Purge(kind=Kind.TAG, value=b"x" * 60), 8))
    damage(fd, ring.RING_AT + 3 * ring.RECORD + at, flip)
    assert ring.read_record(fd, 3) is None


def test_the_longest_record_fits(fd: int) -> None:
    longest = Purge(
        kind=Kind.EVERYTHING, value=b"v" * ring.LONGEST, tick=1 << 62, wall=1e12, steady=1e12,
        boot=BOOT,
    )  # fmt: skip
    ring.write_record(fd, 1, Record(longest, 1 << 62))
    assert ring.read_record(fd, 1) == (longest, 1 << 62)
    assert ring.read_record(fd, 2) is None


def damage(fd: int, at: int, flip: int) -> None:
    os.pwrite(fd, bytes([os.pread(fd, 1, at)[0] ^ flip]), at)
