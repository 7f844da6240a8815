"""Locks exclude everybody else, end with their holder, and are not waited for in vain."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

import pytest

from edgebox.cache.disk import lock as module
from edgebox.cache.disk.lock import (
    is_octet_locked,
    locked,
    locked_octet,
    try_lock,
    try_lock_octet,
)
from edgebox.cache.disk.outcome import Busy
from tests.cache.disk.conftest import Fork, kill

# fork() beside threads that trio left to be used again: the child uses none.
pytestmark = pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")


def open_directory(path: Path) -> int:
    return os.open(path, os.O_RDONLY | os.O_DIRECTORY)


def test_threads_exclude_each_other(tmp_path: Path) -> None:
    inside, most = 0, 0

    def work() -> None:
        nonlocal inside, most
        for _ in range(20):
            fd = open_directory(tmp_path)
            with locked(fd):
                inside += 1
                most = max(most, inside)
                inside -= 1
            os.close(fd)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == 1


def test_who_waits_too_long_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PATIENCE", 0.01)
    holder, waiter = open_directory(tmp_path), open_directory(tmp_path)
    with locked(holder):
        with pytest.raises(Busy), locked(waiter):
            pytest.fail("two hold one lock")
        assert not try_lock(waiter)
    with locked(waiter):
        pass
    os.close(holder)
    os.close(waiter)


def test_a_killed_holder_lets_go(tmp_path: Path, fork: Fork) -> None:
    ready, tell = os.pipe()

    def work() -> None:
        with locked(open_directory(tmp_path)):
            os.write(tell, b"!")
            signal.pause()

    child = fork(work)
    assert os.read(ready, 1) == b"!"
    fd = open_directory(tmp_path)
    assert not try_lock(fd)
    kill(child)
    assert try_lock(fd)
    for descriptor in (fd, ready, tell):
        os.close(descriptor)


def test_an_octet_is_locked_for_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PATIENCE", 0.01)
    one, other = (os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT) for _ in range(2))
    with locked_octet(one, 512):
        with locked_octet(other, 0), locked(other):
            assert is_octet_locked(other, 512)
            assert not is_octet_locked(other, 1024)
        with pytest.raises(Busy), locked_octet(other, 512):
            pytest.fail("two hold one octet")
    with locked_octet(other, 512):
        pass
    os.close(one)
    os.close(other)


def test_a_killed_holder_lets_go_of_an_octet(tmp_path: Path, fork: Fork) -> None:
    ready, tell = os.pipe()
    fd = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)

    def work() -> None:
        assert try_lock_octet(os.open(tmp_path / "file", os.O_RDWR), 7)
        os.write(tell, b"!")
        signal.pause()

    child = fork(work)
    assert os.read(ready, 1) == b"!"
    assert not try_lock_octet(fd, 7)
    kill(child)
    assert try_lock_octet(fd, 7)
    for descriptor in (fd, ready, tell):
        os.close(descriptor)
