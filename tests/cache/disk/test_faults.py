"""A full, read-only or failing disk: a named outcome, one warning, and serving goes on."""

from __future__ import annotations

import errno
import os
import resource
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from edgebox.cache.disk import lock as lock_module
from edgebox.cache.disk import reader as reader_module
from edgebox.cache.disk.outcome import Outcome, outcome_of
from edgebox.cache.disk.purge import Kind, Mode, Purge
from edgebox.cache.disk.store import Settings, Store
from edgebox.cache.disk.writing import Writing
from tests.cache.disk.conftest import KEY, MakeRig, Rig, body_of

Mounted = Callable[[str], Path]


def resume(rig: Rig) -> None:
    """As if the pause was over."""
    rig.store._paused_until = 0.0


def test_a_full_disk_stops_writing_and_nothing_else(make_rig: MakeRig, mounted: Mounted) -> None:
    rig = make_rig(mounted("size=12m"), limit=1 << 30)
    kept = [b"http://kept/%d" % number for number in range(3)]
    for key in kept:
        assert rig.keep(body_of(key, 1, 90_000), key=key) is Outcome.STORED
    writing = rig.store.begin(None)
    assert isinstance(writing, Writing)
    written = 0
    while writing.write(bytes(50_000)):
        written = writing.size
    assert writing.outcome is Outcome.DISK_FULL
    assert len(os.pread(writing.fileno(), written, 0)) == written  # for those who read along
    assert writing.commit(KEY, rig.entry(), rig.store.mark()) is Outcome.DISK_FULL
    writing.close()

    assert rig.keep(b"x") is Outcome.PAUSED
    assert rig.warnings == [rig.warnings[0]]
    assert "disk full" in rig.warnings[0]
    assert len(rig.files()) == len(kept)
    for key in kept:
        assert rig.bodies(key) == [body_of(key, 1, 90_000)]
    assert rig.store.purge(Purge(kind=Kind.KEY, value=kept[0]), rig.now).done
    assert rig.bodies(kept[0]) == []
    resume(rig)
    assert rig.keep(b"room again") is Outcome.STORED
    assert rig.store.statistics().reserved == 0


def test_every_full_disk_is_warned_of_once(make_rig: MakeRig, mounted: Mounted) -> None:
    rig = make_rig(mounted("size=12m"), limit=1 << 30)
    for times in (1, 1, 1, 2):
        resume(rig)
        if times == 2:
            assert rig.keep(b"small") is Outcome.STORED
        assert rig.keep(bytes(6_000_000)) is Outcome.DISK_FULL
        assert len(rig.warnings) == times


@pytest.mark.parametrize("inodes", [11, 12])
def test_no_inodes_left_is_a_full_disk(make_rig: MakeRig, mounted: Mounted, inodes: int) -> None:
    rig = make_rig(mounted(f"size=16m,nr_inodes={inodes}"), limit=1 << 30)
    outcomes = {rig.keep(b"x", key=b"http://a/%d" % number) for number in range(20)}
    assert outcomes == {Outcome.STORED, Outcome.DISK_FULL, Outcome.PAUSED}
    assert sum(bool(rig.bodies(b"http://a/%d" % number)) for number in range(20)) > 0


@pytest.fixture
def read_only(make_rig: MakeRig) -> Iterator[Rig]:
    """A rig whose responses lie on what became read-only meanwhile."""
    rig = make_rig()
    rig.keep(b"kept")
    rig.vary("de", b"de")
    objects = str(rig.directory / "objects")
    for command in (
        ["mount", "--bind", objects, objects],
        ["mount", "-o", "remount,bind,ro", objects],
    ):
        try:
            subprocess.run(command, check=True, capture_output=True)
        except (OSError, subprocess.CalledProcessError) as error:
            pytest.skip(f"mounting needs root and CAP_SYS_ADMIN: {error}")
    yield rig
    subprocess.run(["umount", "--lazy", objects], check=True)


def test_a_read_only_disk_still_serves(read_only: Rig) -> None:
    rig = read_only
    assert rig.bodies() == [b"de", b"kept"]
    assert rig.keep(b"new") is Outcome.READ_ONLY
    assert rig.keep(b"new") is Outcome.PAUSED
    assert len(rig.warnings) == 1
    assert rig.bodies() == [b"de", b"kept"]


def test_what_a_read_only_disk_cannot_purge_is_not_served(read_only: Rig) -> None:
    rig = read_only
    assert rig.store.purge(Purge(kind=Kind.KEY, value=KEY), rig.now) is Outcome.READ_ONLY
    assert rig.bodies() == []
    rig.store.turn(rig.now)  # what is not about single files can be written down
    assert not rig.store.statistics().dark
    assert rig.bodies() == []


def test_a_directory_that_cannot_be_written_is_an_error_at_the_start(mounted: Mounted) -> None:
    directory = mounted("size=12m,ro")
    with pytest.raises(OSError, match="Read-only"):
        Store(Settings(os.fsencode(directory), 1 << 20), print)


def test_a_disk_that_fails_at_writing(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    rig.keep(b"kept")

    def fail(*_: object) -> int:
        raise OSError(errno.EIO, "Input/output error")

    writing = rig.store.begin(None)
    assert isinstance(writing, Writing)
    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", fail)
        assert not writing.write(b"x" * 10)
        assert not writing.write(b"x")
    assert writing.outcome is Outcome.IO_ERROR
    writing.close()
    assert rig.keep(b"x") is Outcome.PAUSED
    assert rig.bodies() == [b"kept"]


def test_a_disk_that_fails_at_reading_loses_nothing(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig.keep(b"kept")

    def fail(*_: object) -> bytes:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(reader_module, "read_blocking", fail)
        assert rig.bodies() == []
        assert rig.store.statistics().flaws == {"unreadable": 1}
    assert rig.bodies() == [b"kept"]


@pytest.mark.parametrize("mode", list(Mode))
def test_what_cannot_be_read_can_be_purged(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, mode: Mode
) -> None:
    rig.vary("de", b"de")
    rig.vary("fr", b"fr")
    read = reader_module.read_blocking
    unreadable = rig.path(entry=rig.entry("Vary: X-Language", asked=("X-Language: fr",))).stat()

    def fail(fd: int, *where: int) -> bytes:
        if os.fstat(fd).st_ino == unreadable.st_ino:
            raise OSError(errno.EIO, "Input/output error")
        return read(fd, *where)

    with monkeypatch.context() as patch:
        patch.setattr(reader_module, "read_blocking", fail)
        purge = Purge(kind=Kind.KEY, value=KEY, mode=mode)
        assert rig.store.purge(purge, rig.now).done
    found = rig.store.find(KEY, rig.now)
    assert len(found) == (0 if mode is Mode.REMOVE else 1)
    for filed in found:
        assert filed.entry.invalid or filed.entry.remaining(rig.now) <= 0
        filed.release()


def test_no_descriptors_left(rig: Rig) -> None:
    rig.keep(b"kept")
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    hogs = [os.open("/dev/null", os.O_RDONLY)]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hogs[0] + 1, before[1]))
    try:
        assert rig.keep(b"new") is Outcome.NO_DESCRIPTORS
        assert rig.store.find(KEY, rig.now) == []
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
        os.close(hogs[0])
    assert rig.bodies() == [b"kept"]
    resume(rig)
    assert rig.keep(b"new") is Outcome.STORED


def test_a_stopped_holder_of_a_lock_is_not_waited_for(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lock_module, "PATIENCE", 0.01)
    rig.keep(b"kept")
    with lock_module.locked(leaf := os.open(rig.path().parent, os.O_RDONLY)):
        assert rig.keep(b"new", after=1.0) is Outcome.BUSY
        assert rig.bodies() == [b"kept"]
    os.close(leaf)
    assert rig.keep(b"new", after=1.0) is Outcome.STORED


@pytest.mark.parametrize(
    ("number", "outcome"),
    [
        (errno.ENOSPC, Outcome.DISK_FULL),
        (errno.EDQUOT, Outcome.DISK_FULL),
        (errno.EROFS, Outcome.READ_ONLY),
        (errno.EACCES, Outcome.DENIED),
        (errno.EIO, Outcome.IO_ERROR),
        (errno.EUCLEAN, Outcome.IO_ERROR),
    ],
)
def test_every_error_has_an_outcome(number: int, outcome: Outcome) -> None:
    assert outcome_of(OSError(number, "")) is outcome
    assert not outcome.done
    assert outcome.pause > 0
