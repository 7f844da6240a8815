"""RAM and disk together: what is found where, what changes reach, what a dead disk costs."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import trio

from edgebox.cache.answer import Instant
from edgebox.cache.disk.client import DiskStore
from edgebox.cache.disk.purge import Kind, Mode
from edgebox.cache.disk.store import Settings
from edgebox.cache.disktier import DiskTier, _translate
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
KEY = b"http://example.com/page"
SMALL, LARGE = b"s" * 500, b"l" * 5000  # beside 1,000 octets that a spool holds in RAM


class Rig:
    """Tiers on a directory; `restart` gives those of the next process."""

    def __init__(self, directory: Path, now: Instant) -> None:
        self.directory = directory
        self.now = now
        self.warnings: list[str] = []
        self.origin: tuple[bytes, ...] = (b"one", b"two")
        self.start()

    def start(self) -> None:
        settings = Settings(os.fsencode(self.directory), 1 << 24, content_size=1000)
        self.store = DiskStore(settings, lambda level, text: self.warnings.append(text))
        shelf = Shelf(WorkingSet(100_000, Ledger(100_000)), whole_keys=True)
        self.disk = DiskTier(self.store, lambda: self.now, origin=lambda key: self.origin)
        self.tiers = Tiers(shelf, self.disk, lambda: None)

    def restart(self) -> None:
        self.store.close()
        self.start()

    async def put(
        self, entry: StoredResponse, body: bytes, born: int | None = None, files: bool = True
    ) -> Kept | None:
        born = self.tiers.mark() if born is None else born

        async def overflow() -> Overflow | None:
            return await self.tiers.open_overflow(None)

        spool = Spool(SpoolRules(1000, self.tiers.room, overflow, Tally()))
        await spool.append(body)
        arrival = Arrival(KEY, entry, born, 32, lambda: False)
        kept = await self.tiers.put(arrival, spool)
        spool.end()
        await self.tiers.abandon(spool)
        if kept is not None and files:
            await self.tiers.file(arrival, kept)
        return kept

    async def bodies(self) -> list[bytes]:
        """What is found, in order, with where it was if that is not RAM."""
        return sorted(map(body_of, await self.tiers.find(KEY)))


def body_of(kept: Kept) -> bytes:
    if kept.content is not None:
        return kept.content
    assert kept.file is not None
    return os.pread(kept.file.fileno(), kept.size, kept.offset)


@pytest.fixture
def rig(tmp_path: Path, later: Later) -> Iterator[Rig]:
    rig = Rig(tmp_path / "cache", later())
    yield rig
    rig.store.close()


def german(keep: Keep, **more: object) -> StoredResponse:
    return keep(HOUR, "Vary: Accept-Language", asked=("Accept-Language: de",), **more)


def french(keep: Keep, **more: object) -> StoredResponse:
    return keep(HOUR, "Vary: Accept-Language", asked=("Accept-Language: fr",), **more)


async def test_what_is_small_is_in_ram_before_it_is_on_disk_and_again_after_a_restart(
    rig: Rig, keep: Keep
) -> None:
    await rig.put(keep(HOUR), SMALL, files=False)
    assert [kept.content for kept in rig.tiers.find_in_ram(KEY)] == [SMALL]
    rig.restart()
    assert await rig.bodies() == []
    await rig.put(keep(HOUR), SMALL)
    rig.restart()
    assert not rig.tiers.find_in_ram(KEY)
    assert await rig.bodies() == [SMALL]
    assert [kept.content for kept in rig.tiers.find_in_ram(KEY)] == [SMALL]


async def test_what_is_large_is_only_on_disk(rig: Rig, keep: Keep) -> None:
    assert await rig.put(keep(HOUR), LARGE) is None
    (kept,) = await rig.tiers.find(KEY)
    assert (kept.content, body_of(kept)) == (None, LARGE)
    assert not rig.tiers.find_in_ram(KEY)


async def test_a_url_is_in_ram_with_all_its_variants_or_not_at_all(rig: Rig, keep: Keep) -> None:
    await rig.put(german(keep), SMALL)
    await rig.put(french(keep), LARGE)
    assert not rig.tiers.find_in_ram(KEY)
    assert await rig.bodies() == [LARGE, SMALL]
    await rig.put(german(keep, at=1), SMALL[1:])
    assert not rig.tiers.find_in_ram(KEY)
    assert await rig.bodies() == [LARGE, SMALL[1:]]
    rig.restart()
    await rig.put(french(keep, at=1), SMALL[2:])
    assert await rig.bodies() == [SMALL[2:], SMALL[1:]]
    assert len(rig.tiers.find_in_ram(KEY)) == 2


async def test_a_variant_that_comes_beside_those_on_disk_hides_none_of_them(
    rig: Rig, keep: Keep
) -> None:
    await rig.put(german(keep), SMALL)
    rig.restart()
    await rig.put(french(keep), SMALL[1:], files=False)
    assert len(rig.tiers.find_in_ram(KEY)) == 2


@pytest.mark.parametrize("body", [SMALL, LARGE], ids=["small", "large"])
async def test_a_renewed_record_is_on_disk_too(rig: Rig, keep: Keep, body: bytes) -> None:
    await rig.put(keep(HOUR), body)
    (kept,) = await rig.tiers.find(KEY)
    await rig.tiers.replace(
        KEY, kept, kept.with_entry(keep(HOUR, "X: new", at=5)), rig.store.mark()
    )
    for _ in range(2):
        (found,) = await rig.tiers.find(KEY)
        assert (b"X", b"new") in found.entry.fields
        assert body_of(found) == body
        rig.restart()


async def test_a_renewal_does_not_reach_octets_that_came_later(rig: Rig, keep: Keep) -> None:
    await rig.put(keep(HOUR), SMALL)
    (old,) = await rig.tiers.find(KEY)
    await rig.put(keep(HOUR, at=1), SMALL[1:])
    await rig.tiers.replace(KEY, old, old.with_entry(keep(HOUR, "X: new", at=5)), rig.store.mark())
    rig.restart()
    (found,) = await rig.tiers.find(KEY)
    assert (found.content, found.entry.received_steady) == (
        SMALL[1:],
        old.entry.received_steady + 1,
    )


@pytest.mark.parametrize("body", [SMALL, LARGE], ids=["small", "large"])
async def test_what_is_dropped_is_gone_from_both(rig: Rig, keep: Keep, body: bytes) -> None:
    await rig.put(keep(HOUR), body)
    (kept,) = await rig.tiers.find(KEY)
    await rig.tiers.drop(KEY, kept)
    assert await rig.bodies() == []


@pytest.mark.parametrize(
    "purge",
    [
        Purge(Scope.KEY, KEY),
        Purge(Scope.PREFIX, KEY[:-2]),
        Purge(Scope.TAG, b"t"),
        Purge(Scope.GROUP, b"http://example.com g"),
        Purge(Scope.ALL),
    ],
    ids=lambda purge: purge.scope.value,
)
@pytest.mark.parametrize("body", [SMALL, LARGE], ids=["small", "large"])
async def test_a_purge_reaches_the_disk(rig: Rig, keep: Keep, purge: Purge, body: bytes) -> None:
    entry = keep(HOUR, "Surrogate-Key: t", 'Cache-Groups: "g"')
    for restarts in (False, True):
        await rig.put(entry, body)
        assert await rig.bodies() == [body]
        if restarts:
            rig.restart()
        await rig.tiers.purge(purge, rig.now)
        assert await rig.bodies() == []
        rig.restart()
        assert await rig.bodies() == []


async def test_what_was_asked_for_before_a_purge_is_not_filed_after_it(
    rig: Rig, keep: Keep
) -> None:
    born = rig.tiers.mark()
    await rig.tiers.purge(Purge(Scope.KEY, KEY), rig.now)
    await rig.put(keep(HOUR), LARGE, born)
    assert await rig.bodies() == []
    await rig.put(keep(HOUR), SMALL, born)
    rig.restart()
    assert await rig.bodies() == []


async def test_soft_purges_and_invalidations_reach_the_disk(
    rig: Rig, keep: Keep, later: Later
) -> None:
    await rig.put(keep(HOUR), SMALL)
    rig.restart()
    rig.now = later(100)
    await rig.tiers.purge(Purge(Scope.KEY, KEY, soft=True), rig.now)
    (kept,) = await rig.tiers.find(KEY)
    assert kept.entry.remaining(later(101)) == -1
    rig.restart()
    await rig.tiers.invalidate(Purge(Scope.KEY, KEY))
    (kept,) = await rig.tiers.find(KEY)
    assert kept.entry.invalid


async def test_what_is_purged_while_it_is_read_is_not_in_ram_after(
    rig: Rig, keep: Keep, monkeypatch: pytest.MonkeyPatch
) -> None:
    await rig.put(keep(HOUR), SMALL)
    rig.restart()
    read = rig.store.find
    monkeypatch.setattr(rig.store, "find_nowait", lambda key, now: None)
    purged, reading = trio.Event(), trio.Event()

    def find_late(key: bytes, now: Instant) -> object:
        found = read(key, now)
        trio.from_thread.run_sync(reading.set)
        trio.from_thread.run(purged.wait)
        return found

    monkeypatch.setattr(rig.store, "find", find_late)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(rig.tiers.find, KEY)
        await reading.wait()
        await rig.tiers.purge(Purge(Scope.KEY, KEY), rig.now)
        purged.set()
    assert not rig.tiers.find_in_ram(KEY)


async def test_what_cannot_be_written_leaves_nothing_older_behind(
    rig: Rig, keep: Keep, monkeypatch: pytest.MonkeyPatch
) -> None:
    await rig.put(keep(HOUR), SMALL)
    monkeypatch.setattr("edgebox.cache.disktier.MOST_WAITING", 0)
    await rig.put(keep(HOUR, at=1), SMALL[1:])
    assert await rig.bodies() == [SMALL[1:]]  # from RAM
    rig.restart()
    assert await rig.bodies() == []


async def test_a_disk_that_does_not_answer_has_nothing(
    rig: Rig, keep: Keep, monkeypatch: pytest.MonkeyPatch
) -> None:
    await rig.put(keep(HOUR), SMALL)
    rig.restart()
    monkeypatch.setattr("edgebox.cache.disktier.PATIENCE", 0.01)
    monkeypatch.setattr(rig.store, "find_nowait", lambda key, now: None)
    answers = trio.Event()

    def hang(key: bytes, now: Instant) -> object:
        trio.from_thread.run(answers.wait)
        return []

    monkeypatch.setattr(rig.store, "find", hang)
    assert await rig.tiers.find(KEY) == []
    answers.set()
    while rig.disk._readers.borrowed_tokens:
        await trio.sleep(0.001)


async def test_without_a_directory_answers_are_in_ram(
    tmp_path: Path, keep: Keep, later: Later
) -> None:
    (tmp_path / "cache").write_text("no directory")
    rig = Rig(tmp_path / "cache", later())
    assert len(rig.warnings) == 1
    assert not rig.tiers.has_disk
    await rig.put(keep(HOUR), SMALL)
    await rig.put(keep(HOUR, at=1), SMALL[1:])
    assert await rig.bodies() == [SMALL[1:]]
    await rig.tiers.purge(Purge(Scope.ALL), rig.now)
    assert await rig.bodies() == []
    rig.store.close()


async def test_a_directory_that_vanishes_costs_no_answer(rig: Rig, keep: Keep) -> None:
    shutil.rmtree(rig.directory)
    await rig.put(keep(HOUR), SMALL)
    assert await rig.bodies() == [SMALL]
    await rig.put(keep(HOUR, at=1), LARGE)
    assert await rig.bodies() in ([SMALL], [LARGE])


def test_a_purge_that_names_too_much_purges_more() -> None:
    prefix = _translate(Purge(Scope.PREFIX, b"p" * 3000), invalidates=False)
    assert (prefix.kind, prefix.value, prefix.mode) == (Kind.PREFIX, b"p" * 1900, Mode.REMOVE)
    tag = _translate(Purge(Scope.TAG, b"t" * 3000, soft=True), invalidates=False)
    assert (tag.kind, tag.value, tag.mode) == (Kind.EVERYTHING, b"", Mode.EXPIRE)
    key = _translate(Purge(Scope.KEY, b"k" * 3000), invalidates=True)
    assert (key.kind, key.value, key.mode) == (Kind.KEY, b"k" * 3000, Mode.VALIDATE)


@pytest.mark.parametrize("body", [SMALL, LARGE])
async def test_what_another_worker_has_renewed_is_found_before_the_app_is_asked(
    rig: Rig, keep: Keep, body: bytes, later: Later
) -> None:
    other = Rig(rig.directory, rig.now)
    await rig.put(keep(HOUR), body)
    (theirs,) = await other.tiers.find(KEY)
    ours = await rig.tiers.find(KEY)
    assert await rig.tiers.find_later(KEY, ours) == ()
    await other.tiers.replace(KEY, theirs, theirs.with_entry(keep(HOUR, at=60)), other.tiers.mark())
    if body is SMALL:  # what is large has no copy in RAM that could be past
        (found,) = await rig.tiers.find_later(KEY, ours)
        assert found.entry.received_steady > ours[0].entry.received_steady
        assert rig.tiers.find_in_ram(KEY) == [found]
    (found,) = await rig.tiers.find(KEY)
    assert body_of(found) == body
    assert found.entry.received_steady == keep(HOUR, at=60).received_steady
    other.store.close()


@pytest.mark.parametrize("body", [SMALL, LARGE])
@pytest.mark.parametrize(
    ("origin", "found"),
    [
        ((b"one", b"two", b"three"), True),
        ((b"two",), True),
        ((b"three", b"two"), True),
        ((b"three",), False),
        ((), False),
    ],
)
async def test_what_is_there_is_of_use_while_one_of_its_servers_answers(
    rig: Rig, keep: Keep, body: bytes, origin: tuple[bytes, ...], found: bool
) -> None:
    await rig.put(keep(HOUR), body)
    rig.origin = origin
    rig.restart()
    assert await rig.bodies() == [body] * found


async def test_whoever_stores_last_has_the_url(rig: Rig, keep: Keep) -> None:
    await rig.put(keep(HOUR), SMALL)
    rig.origin = (b"three",)
    rig.restart()
    await rig.put(keep(HOUR, at=1), SMALL[1:])
    rig.restart()
    assert await rig.bodies() == [SMALL[1:]]
    rig.origin = (b"one",)
    rig.restart()
    assert await rig.bodies() == []


async def test_what_nobody_answers_for_is_found_by_nobody(rig: Rig, keep: Keep) -> None:
    rig.origin = ()
    await rig.put(keep(HOUR), SMALL)
    rig.restart()
    assert await rig.bodies() == []
