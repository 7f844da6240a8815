"""Claims are between processes: the other one here is a child that does as it is told."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from edgebox.cache.siblings.claims import NOBODY, Claims

KEY = b"http://example.com/a"
OTHER = """
import sys
from edgebox.cache.siblings.claims import Claims
claims = Claims(int(sys.argv[1]), sys.argv[2].encode())
for line in sys.stdin.buffer:
    print(eval(line), flush=True)
"""


class Other:
    """Another process that has the file, and claims for its own family."""

    def __init__(self, file: int, family: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", OTHER, str(file), family],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, pass_fds=[file],
        )  # fmt: skip
        self.pid = self._process.pid

    def do(self, expression: str) -> str:
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(expression.encode() + b"\n")
        self._process.stdin.flush()
        return self._process.stdout.readline().decode().strip()

    def take(self, key: bytes = KEY) -> int:
        return int(self.do(f"claims.take({key!r})"))

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        self._process.communicate()


@pytest.fixture
def file() -> Iterator[int]:
    fd = os.memfd_create("claims")
    yield fd
    os.close(fd)


@contextmanager
def beside(file: int, family: str = "1/1") -> Iterator[Other]:
    other = Other(file, family)
    try:
        yield other
    finally:
        other.kill()


def test_a_key_is_one_workers_until_he_has_let_go_as_often_as_he_took_it(file: int) -> None:
    claims = Claims(file, b"1/1")
    with beside(file) as other:
        assert claims.take(KEY) == 0
        assert claims.take(KEY) == 0
        assert other.take() == os.getpid()
        assert other.take(b"http://example.com/b") == 0
        assert claims.take(b"http://example.com/b") == other.pid
        claims.let_go(KEY)
        assert other.take() == os.getpid()
        claims.let_go(KEY)
        assert other.take() == 0
        assert claims.take(KEY) == other.pid
        other.do("claims.let_go(b'http://example.com/b')")
        assert claims.take(b"http://example.com/b") == 0


def test_who_is_killed_has_let_go(file: int) -> None:
    claims = Claims(file, b"1/1")
    with beside(file) as other:
        assert other.take() == 0
        assert claims.take(KEY) == other.pid
    assert claims.take(KEY) == 0


def test_another_family_is_no_business_of_ours(file: int) -> None:
    with beside(file, "1/2") as other:
        assert other.take() == 0
        assert Claims(file, b"1/1").take(KEY) == 0


def test_many_claims_are_kept_apart(file: int) -> None:
    """Locks on octets side by side are merged and split again by the kernel."""
    claims = Claims(file, b"1/1")
    keys = [b"http://example.com/%d" % number for number in range(500)]
    with beside(file) as other:
        assert {claims.take(key) for key in keys} == {0}
        for key in keys[::2]:
            claims.let_go(key)
        taken = [other.take(key) for key in keys]
        assert taken == [0, os.getpid()] * 250


def test_no_locks_left_is_nobody(file: int, monkeypatch: pytest.MonkeyPatch) -> None:
    closed = os.dup(file)
    os.close(closed)  # EBADF, as unexpected as ENOLCK
    assert Claims(closed, b"1/1").take(KEY) == NOBODY
