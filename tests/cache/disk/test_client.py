"""A worker's disk store: there is a housekeeper, and no trouble of the disk is the worker's."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import trio

from edgebox.cache.answer import Instant
from edgebox.cache.disk import client as module
from edgebox.cache.disk.client import DiskStore
from edgebox.cache.disk.outcome import Outcome
from edgebox.cache.disk.purge import Kind, Purge
from edgebox.cache.disk.store import Settings
from edgebox.cache.entry import StoredResponse
from tests.cache.disk.conftest import KEY

PATIENCE = 60.0
Said = list[tuple[str, str]]
Make = Callable[..., DiskStore]


@pytest.fixture
def said() -> Said:
    return []


@pytest.fixture
def make(tmp_path: Path, said: Said, monkeypatch: pytest.MonkeyPatch) -> Make:
    monkeypatch.setattr(module, "FIRST_BACKOFF", 0.01)
    monkeypatch.setattr(module, "TURN", 0.02)

    def make_(directory: Path | None = None) -> DiskStore:
        path = os.fsencode(directory or tmp_path / "cache")
        return DiskStore(Settings(path, 1 << 24), lambda level, text: said.append((level, text)))

    return make_


@pytest.fixture
def entry(keep: Callable[..., StoredResponse]) -> StoredResponse:
    return keep("Cache-Control: max-age=3600")


async def wait_until(condition: Callable[[], object]) -> None:
    with trio.fail_after(PATIENCE):
        while not condition():
            await trio.sleep(0.005)


def bodies(disk: DiskStore, now: Instant) -> list[bytes | None]:
    found = disk.find(KEY, now)
    for filed in found:
        filed.release()
    return [filed.content for filed in found]


@pytest.mark.slow
async def test_it_has_a_housekeeper_as_long_as_it_runs(
    make: Make, entry: StoredResponse, later: Callable[..., Instant], said: Said
) -> None:
    disk = make()
    async with trio.open_nursery() as nursery:
        await nursery.start(disk.run)
        assert disk.keep(KEY, entry, b"body", disk.mark()) is Outcome.STORED
        assert bodies(disk, later()) == [b"body"]
        await wait_until(lambda: disk.statistics().report.keys == 1)
        pid = disk.statistics().housekeeper
        assert pid is not None
        nursery.cancel_scope.cancel()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    assert said == []
    disk.close()


@pytest.mark.slow
async def test_a_housekeeper_that_dies_is_replaced(make: Make, said: Said) -> None:
    disk = make()
    async with trio.open_nursery() as nursery:
        await nursery.start(disk.run)
        for deaths in (1, 2):
            await wait_until(lambda: disk.statistics().housekeeper)
            os.kill(disk.statistics().housekeeper or 0, signal.SIGKILL)
            await wait_until(lambda n=deaths: disk.statistics().deaths == n)
        await wait_until(lambda: disk.statistics().report.surveys)
        nursery.cancel_scope.cancel()
    assert [level for level, _ in said] == ["warning"] * 2
    assert "signal 9" in said[0][1]
    disk.close()


@pytest.mark.slow
async def test_of_two_workers_one_has_the_housekeeper_and_the_other_stands_by(
    make: Make, said: Said
) -> None:
    first, second = make(), make()
    async with trio.open_nursery() as nursery:
        async with trio.open_nursery() as inner:
            await inner.start(first.run)
            await wait_until(lambda: first.statistics().report.surveys)
            await nursery.start(second.run)
            await trio.sleep(0.2)
            assert second.statistics().housekeeper is None
            inner.cancel_scope.cancel()
        await wait_until(lambda: second.statistics().housekeeper)
        await wait_until(lambda: second.statistics().report.surveys)
        nursery.cancel_scope.cancel()
    assert said == []
    first.close()
    second.close()


@pytest.mark.slow
async def test_what_one_worker_purges_the_other_does_not_find(
    make: Make, entry: StoredResponse, later: Callable[..., Instant]
) -> None:
    first, second = make(), make()
    first.keep(KEY, entry, b"body", first.mark())
    assert bodies(second, later()) == [b"body"]
    assert second.purge(Purge(kind=Kind.EVERYTHING), later()).done
    assert bodies(first, later()) == []
    first.close()
    second.close()


async def test_a_directory_that_cannot_be_used_is_warned_of_once(
    make: Make,
    mounted: Callable[[str], Path],
    entry: StoredResponse,
    later: Callable[..., Instant],
    said: Said,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "AGAIN", 0.01)
    point = mounted("size=16m,ro")
    disk = make(point)
    assert not disk.enabled
    async with trio.open_nursery() as nursery:
        await nursery.start(disk.run)
        await trio.sleep(0.1)
        assert disk.keep(KEY, entry, b"body", disk.mark()) is Outcome.DISABLED
        assert disk.begin(None) is Outcome.DISABLED
        assert bodies(disk, later()) == []
        assert disk.find_nowait(KEY, later()) == []
        assert disk.statistics().store is None
        assert len(said) == 1
        assert "Read-only file system" in said[0][1]
        subprocess.run(["mount", "-o", "remount,rw", str(point)], check=True)
        await wait_until(lambda: disk.enabled)
        assert disk.keep(KEY, entry, b"body", disk.mark()) is Outcome.STORED
        nursery.cancel_scope.cancel()
    disk.close()


@pytest.mark.slow
async def test_a_purge_while_there_was_no_store_is_made_up_for(
    make: Make,
    mounted: Callable[[str], Path],
    entry: StoredResponse,
    later: Callable[..., Instant],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "AGAIN", 0.01)
    point = mounted("size=16m")
    before = make(point)
    before.keep(KEY, entry, b"body", before.mark())
    before.close()
    subprocess.run(["mount", "-o", "remount,ro", str(point)], check=True)
    disk = make(point)
    assert disk.purge(Purge(kind=Kind.KEY, value=KEY), later()) is Outcome.DISABLED
    subprocess.run(["mount", "-o", "remount,rw", str(point)], check=True)
    async with trio.open_nursery() as nursery:
        await nursery.start(disk.run)
        await wait_until(lambda: disk.enabled)
        assert bodies(disk, later()) == []
        await trio.sleep(0.1)
        assert bodies(disk, later()) == []
        nursery.cancel_scope.cancel()
    disk.close()


@pytest.mark.slow
async def test_an_emptied_directory_begins_anew(
    make: Make, entry: StoredResponse, later: Callable[..., Instant], tmp_path: Path, said: Said
) -> None:
    disk = make()
    async with trio.open_nursery() as nursery:
        await nursery.start(disk.run)
        disk.keep(KEY, entry, b"body", disk.mark())
        await wait_until(lambda: disk.statistics().report.surveys)
        subprocess.run(["find", str(tmp_path / "cache"), "-mindepth", "1", "-delete"], check=True)
        await wait_until(lambda: said)
        await wait_until(lambda: disk.keep(KEY, entry, b"new", disk.mark()) is Outcome.STORED)
        assert bodies(disk, later()) == [b"new"]
        await wait_until(lambda: disk.statistics().deaths and disk.statistics().report.keys == 1)
        nursery.cancel_scope.cancel()
    assert "was emptied" in said[0][1]
    disk.close()
