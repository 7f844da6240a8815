"""A file system is written out by somebody else, who holds nothing of ours."""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path

import pytest

from edgebox.cache.disk.lock import try_lock
from edgebox.cache.disk.syncing import Syncing, sync_file_system

pytestmark = pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")


def wait(syncing: Syncing) -> bool:
    deadline = time.monotonic() + 120
    while (done := syncing.poll()) is None:
        assert time.monotonic() < deadline
        time.sleep(0.001)
    return done


@pytest.mark.slow
def test_it_is_told_when_it_is_over(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x")
    assert wait(Syncing(os.fsencode(tmp_path)))


def test_it_is_told_when_it_went_wrong(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        sync_file_system(os.fsencode(tmp_path / "none"))
    assert not wait(Syncing(os.fsencode(tmp_path / "none")))


def test_nobody_waits_for_it_and_it_holds_no_lock(tmp_path: Path) -> None:
    ours = os.open(tmp_path, os.O_RDONLY)
    assert try_lock(ours)

    def sync(path: bytes) -> None:
        assert not os.path.exists(f"/proc/self/fd/{ours}")
        while not os.path.exists(path + b"/go"):
            time.sleep(0.001)

    syncing = Syncing(os.fsencode(tmp_path), sync)
    assert syncing.poll() is None
    os.close(ours)
    other = os.open(tmp_path, os.O_RDONLY)
    deadline = time.monotonic() + 60
    while not try_lock(other):
        assert time.monotonic() < deadline
        time.sleep(0.001)
    fcntl.flock(other, fcntl.LOCK_UN)
    (tmp_path / "go").touch()
    assert wait(syncing)
    os.close(other)
