"""A disk that hangs costs nobody more than a moment, and nothing wrong is served from it."""

from __future__ import annotations

import os
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
import trio

from edgebox.cache import disktier, spool, tiers
from edgebox.cache.answer import Instant
from edgebox.cache.disk.client import DiskStore
from edgebox.cache.disk.store import Settings
from edgebox.cache.disk.writing import Writing
from edgebox.cache.disktier import DiskTier
from edgebox.cache.entry import StoredResponse
from edgebox.cache.flight import Tally
from edgebox.cache.purges import Purge, Scope
from edgebox.cache.shelf import Kept, Shelf
from edgebox.cache.spool import Overflow, Spool, SpoolRules
from edgebox.cache.tiers import Arrival, Tiers
from edgebox.memory.ledger import Ledger
from edgebox.memory.workingset import WorkingSet

Keep = Callable[..., StoredResponse]
Later = Callable[..., Instant]
HOUR = "Cache-Control: max-age=3600"
KEY, OTHER = b"http://example.com/page", b"http://example.com/other"
LARGE = b"l" * 5000  # beside 1,000 octets that a spool holds in RAM
ENOUGH = 5.0  # seconds


class Disk:
    """Tiers on a directory, whose disk hangs from `stop` to `go_on`; nobody is patient then."""

    def __init__(self, directory: Path, now: Instant, patch: pytest.MonkeyPatch) -> None:
        self.now = now
        self.patch = patch
        settings = Settings(os.fsencode(directory), 1 << 24, content_size=1000)
        self.store = DiskStore(settings, lambda level, text: None)
        self.tier = DiskTier(self.store, lambda: now, most_open=4)
        shelf = Shelf(WorkingSet(100_000, Ledger(100_000)), whole_keys=True)
        self.tiers = Tiers(shelf, self.tier, lambda: None)
        self._runs = threading.Event()
        self._runs.set()

    def stop(self) -> None:
        self._runs.clear()
        for module in (disktier, spool, tiers):
            self.patch.setattr(module, "PATIENCE", 0.02)
        self.patch.setattr(disktier, "IMPATIENCE", 0.01)
        self.patch.setattr(disktier, "GIVE_UP", 0.05)

    async def go_on(self) -> None:
        """And wait until all threads have come back."""
        self._runs.set()
        self.patch.undo()
        limiters = (self.tier._readers, self.tier._writers, self.tier._purgers)
        with trio.fail_after(ENOUGH):
            while any(limiter.borrowed_tokens for limiter in limiters):
                await trio.sleep(0.001)

    def hanging(self, work: Callable[..., object]) -> Callable[..., object]:
        def wait_first(*arguments: object, **more: object) -> object:
            assert self._runs.wait(ENOUGH)
            return work(*arguments, **more)

        return wait_first

    def spool(self) -> Spool:
        async def overflow() -> Overflow | None:
            return await self.tiers.open_overflow(None)

        return Spool(SpoolRules(1000, self.tiers.room, overflow, Tally()))

    def arrival(self, entry: StoredResponse, key: bytes = KEY) -> Arrival:
        return Arrival(key, entry, self.tiers.mark(), 32, lambda: False)

    async def put(self, entry: StoredResponse, body: bytes, key: bytes = KEY) -> None:
        filled, arrival = self.spool(), self.arrival(entry, key)
        await filled.append(body)
        kept = await self.tiers.put(arrival, filled)
        filled.end()
        await self.tiers.abandon(filled)
        if kept is not None:
            await self.tiers.file(arrival, kept)


@pytest.fixture
async def disk(
    tmp_path: Path, later: Later, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Disk]:
    disk = Disk(tmp_path / "cache", later(), pytest.MonkeyPatch())
    for name in ("purge", "keep", "begin"):
        monkeypatch.setattr(disk.store, name, disk.hanging(getattr(disk.store, name)))
    for name in ("write", "commit"):
        monkeypatch.setattr(Writing, name, disk.hanging(getattr(Writing, name)))
    yield disk
    await disk.go_on()
    disk.store.close()


def size_of(found: list[Kept] | object) -> list[int]:
    return [kept.size for kept in found]  # type: ignore[attr-defined]


@pytest.mark.parametrize("purge", [Purge(Scope.KEY, KEY), Purge(Scope.ALL)])
async def test_a_purge_is_in_force_though_the_disk_learns_of_it_later(
    disk: Disk, keep: Keep, purge: Purge
) -> None:
    await disk.put(keep(HOUR), LARGE)
    await disk.put(keep(HOUR), LARGE[1:], OTHER)
    disk.stop()
    with trio.fail_after(ENOUGH):
        await disk.tiers.purge(purge, disk.now)
    assert await disk.tiers.find(KEY) == []
    assert disk.tier.statistics().owed == 1
    await disk.go_on()
    assert await disk.tiers.find(KEY) == []
    assert disk.store.find(KEY, disk.now) == []
    assert size_of(await disk.tiers.find(OTHER)) == ([4999] if purge.scope is Scope.KEY else [])
    assert disk.tier.statistics().owed == 0


async def test_what_comes_after_the_purge_is_found_once_the_disk_is_back(
    disk: Disk, keep: Keep
) -> None:
    disk.stop()
    await disk.tiers.purge(Purge(Scope.KEY, KEY), disk.now)
    await disk.go_on()
    await disk.put(keep(HOUR), LARGE)
    assert size_of(await disk.tiers.find(KEY)) == [5000]


async def test_a_flood_of_forms_waits_for_no_disk_and_leaves_nothing_valid(
    disk: Disk, keep: Keep
) -> None:
    await disk.put(keep(HOUR), LARGE)
    await disk.put(keep(HOUR), LARGE, OTHER)
    disk.stop()
    purge = Purge(Scope.KEY, OTHER)
    with trio.fail_after(ENOUGH):
        for _ in range(disktier.PURGERS + 3):  # more than there are threads
            await disk.tiers.invalidate(purge)
        await disk.tiers.invalidate(Purge(Scope.KEY, KEY))
    for key in (KEY, OTHER):
        assert await disk.tiers.find(key) == []
    await disk.go_on()
    assert await disk.tiers.find(KEY) == []  # everything was missed, so everything goes
    disk.store._turn()
    assert not disk.store.statistics().store.dark  # type: ignore[union-attr]
    await disk.put(keep(HOUR, at=1), LARGE)
    assert size_of(await disk.tiers.find(KEY)) == [5000]


async def test_clients_get_all_octets_though_the_disk_stops_taking_them(
    disk: Disk, keep: Keep
) -> None:
    filled = disk.spool()
    reader = filled.read()
    got = bytearray()

    async def read() -> None:
        async for octets in reader:
            got.extend(octets)

    with trio.fail_after(ENOUGH):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(read)
            for number in range(20):
                if number == 5:
                    disk.stop()
                await filled.append(bytes([number]) * 500)
            filled.end()
    assert bytes(got) == b"".join(bytes([n]) * 500 for n in range(20))
    assert not filled.storable
    await disk.tiers.abandon(filled)


async def test_clients_hear_of_the_end_though_the_answer_is_not_stored_yet(
    disk: Disk, keep: Keep
) -> None:
    filled, arrival = disk.spool(), disk.arrival(keep(HOUR))
    await filled.append(LARGE)
    disk.stop()
    disk.patch.setattr(disktier, "GIVE_UP", ENOUGH)
    with trio.fail_after(ENOUGH):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(disk.tiers.put, arrival, filled)
            while not filled.ended:
                await trio.sleep(0.001)
            await disk.go_on()
    assert size_of(await disk.tiers.find(KEY)) == [5000]
    await disk.tiers.abandon(filled)


async def test_answers_that_wait_to_be_written_do_not_pile_up(disk: Disk, keep: Keep) -> None:
    await disk.put(keep(HOUR), LARGE, OTHER)
    disk.stop()
    small = Kept(keep(HOUR), 3, b"abc")
    with trio.fail_after(ENOUGH):
        async with trio.open_nursery() as nursery:
            for number in range(50):
                arrival = disk.arrival(small.entry, b"http://example.com/%d" % number)
                nursery.start_soon(disk.tiers.file, arrival, small)
    await disk.go_on()
    # What it has may be older than what it was never told.
    assert await disk.tiers.find(OTHER) == []


async def test_files_beyond_the_bound_are_not_found_and_not_opened(disk: Disk, keep: Keep) -> None:
    for number in range(6):
        await disk.put(keep(HOUR), LARGE, b"http://example.com/%d" % number)
    held = [await disk.tiers.find(b"http://example.com/%d" % number) for number in range(6)]
    assert [len(found) for found in held] == [1, 1, 1, 1, 0, 0]
    assert disk.tier.statistics().open_files == 4
    assert await disk.tiers.open_overflow(5000) is None
    held.clear()
    assert size_of(await disk.tiers.find(b"http://example.com/5")) == [5000]
