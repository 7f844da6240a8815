"""What is watched is heard of; what cannot be watched is said, and stands for nothing."""

from __future__ import annotations

import errno
import os
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import trio
import trio.testing
from inotify_simple import INotify, flags

from edgebox.files import watchdog as module
from edgebox.files.coverage import UNCOVERED, Coverage
from edgebox.files.entry import Docroot
from edgebox.files.trail import walk
from edgebox.files.watchdog import Watchdog

pytestmark = pytest.mark.usefixtures("no_leaks")

WaitUntil = Callable[[Callable[[], bool]], Awaitable[None]]


@dataclass
class Rig:
    """A watchdog with its listener, over a real directory."""

    docroot: Docroot
    limit: int = 100
    changed: list[bytes] = field(default_factory=list)
    ended: int = 0
    said: list[tuple[str, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.dog = Watchdog(self.limit, self, lambda level, text: self.said.append((level, text)))

    def path_changed(self, docroot: Docroot, path: bytes) -> None:
        assert docroot == self.docroot
        self.changed.append(path)

    def coverage_ended(self) -> None:
        self.ended += 1

    def cover_once(self, path: bytes) -> Coverage | None:
        with self.dog.begin() as look:
            return self.dog.cover(look, self.docroot, path, walk(self.docroot.root, path))

    def cover(self, path: bytes) -> Coverage:
        """As the store does: the first look at a directory only sets the watches."""
        coverage = self.cover_once(path) or self.cover_once(path)
        assert coverage is not None
        return coverage


@pytest.fixture
def www(tmp_path: Path) -> Path:
    root = tmp_path / "www"
    (root / "a" / "b").mkdir(parents=True)
    (root / "page").write_bytes(b"page")
    (root / "a" / "b" / "page").write_bytes(b"page")
    return root


@pytest.fixture
def rig(www: Path) -> Iterator[Rig]:
    rig = Rig(Docroot(os.fsencode(www)))
    yield rig
    rig.dog.close()


@pytest.fixture
async def running(rig: Rig) -> AsyncIterator[Rig]:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(rig.dog.run)
        yield rig
        nursery.cancel_scope.cancel()


def test_the_first_look_is_too_early_to_count(rig: Rig) -> None:
    assert rig.cover_once(b"/page") is None
    coverage = rig.cover_once(b"/page")
    assert coverage is not None
    assert coverage is not UNCOVERED
    assert coverage.alive


def test_paths_of_one_directory_share_a_coverage_and_its_watches(rig: Rig) -> None:
    coverage = rig.cover(b"/a/b/page")
    assert rig.cover_once(b"/a/b/none") is coverage
    assert rig.cover(b"/a/page") is not coverage
    assert rig.dog.statistics().watches == 3
    assert rig.dog.statistics().coverages == 2


async def test_a_change_of_a_file_is_a_change_of_its_path_alone(
    running: Rig, www: Path, wait_until: WaitUntil
) -> None:
    coverage = running.cover(b"/a/b/page")
    (www / "a" / "b" / "page").write_bytes(b"new")
    await wait_until(lambda: b"/a/b/page" in running.changed)
    assert set(running.changed) == {b"/a/b/page"}
    assert coverage.alive
    assert running.ended == 0


async def test_every_kind_of_change_is_heard(
    running: Rig, www: Path, wait_until: WaitUntil
) -> None:
    running.cover(b"/page")

    async def hears(path: bytes, change: Callable[[], object]) -> None:
        running.changed.clear()
        change()
        await wait_until(lambda: path in running.changed)

    page = www / "page"
    with page.open("r+b") as file:
        # The writer keeps it open: no close_write yet.
        await hears(b"/page", lambda: (file.write(b"x"), file.flush()))
        await hears(b"/page", lambda: file.truncate(0))
    await hears(b"/page", lambda: page.chmod(0o600))
    await hears(b"/page", lambda: os.utime(page, (1, 1)))
    await hears(b"/new", lambda: (www / "new").write_bytes(b"new"))
    await hears(b"/page", lambda: (www / "new").rename(page))
    await hears(b"/page", lambda: page.rename(www / "other"))
    await hears(b"/other", lambda: (www / "other").unlink())
    await hears(b"/link", lambda: (www / "link").symlink_to("page"))
    await hears(b"/a", lambda: (www / "a").rename(www / "z"))


async def test_a_change_on_the_way_ends_the_coverage(
    running: Rig, www: Path, wait_until: WaitUntil
) -> None:
    deep, beside = running.cover(b"/a/b/page"), running.cover(b"/page")
    (www / "a").rename(www / "z")
    await wait_until(lambda: not deep.alive)
    assert beside.alive
    assert running.ended > 0
    # What is there now is another way, and watched anew.
    again = running.cover(b"/z/b/page")
    (www / "z" / "b" / "page").write_bytes(b"new")
    await wait_until(lambda: b"/z/b/page" in running.changed)
    assert again.alive


async def test_a_directory_put_in_anothers_place_is_watched_itself(
    running: Rig, www: Path, wait_until: WaitUntil
) -> None:
    old = running.cover(b"/a/b/page")
    (www / "next" / "b").mkdir(parents=True)
    (www / "a").rename(www / "previous")
    (www / "next").rename(www / "a")
    await wait_until(lambda: not old.alive)
    running.cover(b"/a/b/page")
    running.changed.clear()
    (www / "a" / "b" / "page").write_bytes(b"new")
    await wait_until(lambda: b"/a/b/page" in running.changed)


async def test_a_change_of_the_root_itself_ends_everything_below(
    running: Rig, www: Path, wait_until: WaitUntil
) -> None:
    for change in (lambda: www.chmod(0o700), lambda: www.rename(www.parent / "moved")):
        coverages = [running.cover(b"/a/b/page"), running.cover(b"/page")]
        change()
        await wait_until(lambda: not any(c.alive for c in coverages))  # noqa: B023


async def test_a_deleted_directory_loses_its_watch(
    running: Rig, www: Path, wait_until: WaitUntil
) -> None:
    coverage = running.cover(b"/a/b/none")
    (www / "a" / "b" / "page").unlink()
    (www / "a" / "b").rmdir()
    await wait_until(lambda: not coverage.alive)
    await wait_until(lambda: running.dog.statistics().watches == 2)


async def test_what_appears_where_a_directory_was_missing_is_heard_of(
    running: Rig, www: Path, wait_until: WaitUntil
) -> None:
    coverage = running.cover(b"/none/deeper/page")
    (www / "none").mkdir()
    await wait_until(lambda: not coverage.alive)


async def test_symlinks_end_what_they_led_to(
    running: Rig, www: Path, wait_until: WaitUntil
) -> None:
    (www / "file").symlink_to("page")
    (www / "directory").symlink_to("a")
    file, directory = running.cover(b"/file"), running.cover(b"/directory/b/page")
    (www / "page").write_bytes(b"new")
    await wait_until(lambda: not file.alive)
    assert directory.alive
    (www / "new").symlink_to("b")
    (www / "new").rename(www / "directory")
    await wait_until(lambda: not directory.alive)


async def test_a_change_during_a_look_makes_it_look_again(
    running: Rig, www: Path, wait_until: WaitUntil
) -> None:
    running.cover(b"/page")
    trail = walk(running.docroot.root, b"/page")
    with running.dog.begin() as beside, running.dog.begin() as look:
        (www / "page").write_bytes(b"new")
        await wait_until(lambda: b"/page" in running.changed)
        assert running.dog.cover(look, running.docroot, b"/page", trail) is None
        assert running.dog.cover(beside, running.docroot, b"/other", trail) is not None


def test_a_path_that_nobody_holds_is_forgotten(rig: Rig) -> None:
    coverage = rig.cover(b"/a/b/page")
    assert rig.cover(b"/a/b/other") is coverage
    rig.dog.release(coverage)
    assert rig.dog.statistics().coverages == 1
    rig.dog.release(coverage)
    assert rig.dog.statistics().coverages == 0
    rig.dog.release(UNCOVERED)


@pytest.mark.slow
async def test_a_queue_that_overflows_ends_every_coverage(
    rig: Rig, www: Path, wait_until: WaitUntil
) -> None:
    coverages = [rig.cover(b"/page"), rig.cover(b"/a/b/page")]
    (www / "other").touch()
    limit = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    for _ in range(limit // 2 + 10):  # in turn, or the kernel would merge them
        os.utime(www / "page")
        os.utime(www / "other")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(rig.dog.run)
        await wait_until(lambda: rig.dog.statistics().overflows > 0)
        nursery.cancel_scope.cancel()
    assert not any(coverage.alive for coverage in coverages)
    assert rig.ended > 0
    assert [level for level, _ in rig.said] == ["warning"]
    assert "overflow" in rig.said[0][1]
    assert rig.cover(b"/page").alive  # and goes on from there


def event(wd: int, mask: int, name: bytes = b"") -> bytes:
    padded = name + b"\0" * (16 - len(name) % 16) if name else b""
    return struct.pack("iIII", wd, mask, 0, len(padded)) + padded


def test_an_overflow_spoils_looks_under_way_and_is_said_once(rig: Rig) -> None:
    coverage = rig.cover(b"/page")
    with rig.dog.begin() as look:
        rig.dog.hear(event(-1, flags.Q_OVERFLOW))
        trail = walk(rig.docroot.root, b"/page")
        assert rig.dog.cover(look, rig.docroot, b"/page", trail) is None
    rig.dog.hear(event(-1, flags.Q_OVERFLOW))
    assert not coverage.alive
    assert rig.dog.statistics().overflows == 2
    assert len(rig.said) == 1


def test_an_unmounted_file_system_ends_what_was_on_it(rig: Rig, www: Path) -> None:
    coverage = rig.cover(b"/page")
    status = www.stat()
    watch = rig.dog._watches[status.st_dev, status.st_ino]
    rig.dog.hear(event(watch.descriptor, flags.UNMOUNT) + event(watch.descriptor, flags.IGNORED))
    assert not coverage.alive
    statistics = rig.dog.statistics()
    assert (statistics.unmounted, statistics.watches) == (1, 0)
    assert "unmounted" in rig.said[0][1]


def test_events_of_unknown_watches_are_nothing(rig: Rig) -> None:
    coverage = rig.cover(b"/page")
    rig.dog.hear(event(4711, flags.MODIFY, b"page") + event(4711, flags.IGNORED))
    assert coverage.alive
    assert not rig.changed


def test_a_burst_of_writes_is_one_change(rig: Rig, www: Path) -> None:
    rig.cover(b"/page")
    status = www.stat()
    wd = rig.dog._watches[status.st_dev, status.st_ino].descriptor
    rig.dog.hear(event(wd, flags.MODIFY, b"page") * 100)
    assert rig.changed == [b"/page"]


def test_the_longest_unused_directory_loses_its_watch_when_there_are_too_many(www: Path) -> None:
    for name in "cdef":
        (www / name).mkdir()
    rig = Rig(Docroot(os.fsencode(www)), limit=3)
    try:
        kept = rig.cover(b"/c/page")
        rig.cover(b"/d/page")
        rig.dog.touch(kept)
        rig.cover(b"/e/page")  # in place of d
        assert rig.dog.statistics().watches == 3
        assert rig.dog.statistics().evicted == 1
        assert rig.cover_once(b"/c/page") is kept
        assert kept.alive
        assert rig.cover_once(b"/d/page") is None  # to be watched again
        assert [level for level, _ in rig.said] == ["warning"]
    finally:
        rig.dog.close()


async def test_a_directory_that_is_watched_again_is_heard_of_again(
    www: Path, wait_until: WaitUntil
) -> None:
    for name in "cd":
        (www / name).mkdir()
    rig = Rig(Docroot(os.fsencode(www)), limit=2)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(rig.dog.run)
        before = rig.cover(b"/c/page")
        rig.cover(b"/d/page")
        assert rig.cover(b"/c/page") is not before
        (www / "c" / "page").write_bytes(b"page")
        await wait_until(lambda: b"/c/page" in rig.changed)
        nursery.cancel_scope.cancel()
    rig.dog.close()


def test_a_way_with_more_directories_than_watches_is_not_covered(www: Path) -> None:
    rig = Rig(Docroot(os.fsencode(www)), limit=2)
    try:
        assert rig.cover_once(b"/a/b/page") is UNCOVERED
        assert rig.dog.statistics().uncovered == 1
        assert rig.cover(b"/a/page") is not UNCOVERED
    finally:
        rig.dog.close()


def test_the_users_watch_limit_is_survived(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> int:
        raise OSError(errno.ENOSPC, "inotify watch limit reached")

    monkeypatch.setattr(INotify, "add_watch", refuse)
    assert rig.cover_once(b"/page") is UNCOVERED
    assert rig.cover_once(b"/page") is UNCOVERED
    assert rig.dog.statistics().uncovered == 2
    assert len(rig.said) == 1
    assert "max_user_watches" in rig.said[0][1]
    monkeypatch.undo()
    assert rig.cover(b"/page") is not UNCOVERED


async def test_without_an_inotify_instance_nothing_is_covered_and_nothing_fails(
    www: Path, descriptors_to_spare: Callable[[int], AbstractContextManager[None]]
) -> None:
    with descriptors_to_spare(0):
        rig = Rig(Docroot(os.fsencode(www)))
    assert not rig.dog.active
    assert rig.cover_once(b"/page") is UNCOVERED
    assert "inotify instance" in rig.said[0][1]
    with trio.fail_after(5):
        await rig.dog.run()
    rig.dog.close()


def test_no_watches_is_no_inotify(www: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "INotify", None)  # would fail if it were called
    rig = Rig(Docroot(os.fsencode(www)), limit=0)
    assert rig.cover_once(b"/page") is UNCOVERED
    assert not rig.said


async def test_closing_ends_the_hearing(rig: Rig) -> None:
    with trio.fail_after(5):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(rig.dog.run)
            await trio.testing.wait_all_tasks_blocked()
            rig.dog.close()
