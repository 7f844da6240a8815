"""The tiers: what replaces what, what purges reach, and who is told."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import trio

from edgebox.cache.answer import Instant
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


class Rig:
    """Tiers that count how often they told of a change."""

    def __init__(self) -> None:
        self.told = 0
        self.tiers = Tiers(Shelf(WorkingSet(100_000, Ledger(100_000)), False), None, self._tell)

    def _tell(self) -> None:
        self.told += 1

    async def put(
        self, entry: StoredResponse, body: bytes = b"x", key: bytes = KEY, most: int = 32
    ) -> None:
        spool = Spool(SpoolRules(1000, self.tiers.room, self.no_overflow, Tally()))
        await spool.append(body)
        await self.tiers.put(Arrival(key, entry, 0, most, lambda: False), spool)
        spool.end()

    async def no_overflow(self) -> Overflow | None:
        return await self.tiers.open_overflow(None)

    def bodies(self, key: bytes = KEY) -> list[bytes | None]:
        return [kept.content for kept in self.tiers.find_in_ram(key)]


@pytest.fixture
def rig() -> Rig:
    return Rig()


async def test_a_later_version_replaces_the_same_variant_and_no_other(rig: Rig, keep: Keep) -> None:
    german = keep(HOUR, "Vary: Accept-Language", asked=("Accept-Language: de",))
    french = keep(HOUR, "Vary: Accept-Language", asked=("Accept-Language: fr",))
    await rig.put(german, b"1")
    assert rig.told == 0  # nothing was there that anybody could remember
    await rig.put(french, b"2")
    await rig.put(german, b"3")
    assert sorted(filter(None, rig.bodies())) == [b"2", b"3"]
    assert rig.told == 2
    assert await rig.tiers.find(KEY) == list(rig.tiers.find_in_ram(KEY))


async def test_of_too_many_variants_the_oldest_go(rig: Rig, keep: Keep) -> None:
    for number, at in ((1, 20), (2, 0), (3, 10)):
        entry = keep(HOUR, "Vary: X", asked=(f"X: {number}",), at=at)
        await rig.put(entry, b"%d" % number, most=2)
    assert sorted(filter(None, rig.bodies())) == [b"1", b"3"]


async def test_what_is_not_whole_in_ram_is_not_stored_without_a_disk(rig: Rig, keep: Keep) -> None:
    spool = Spool(SpoolRules(10, rig.tiers.room, rig.no_overflow, Tally()))
    reader = spool.read()
    await spool.append(b"x" * 10)
    await anext(reader)
    await spool.append(b"x" * 10)
    await rig.tiers.put(Arrival(KEY, keep(HOUR), 0, 32, lambda: False), spool)
    assert rig.bodies() == []


async def test_only_what_is_still_there_is_replaced(rig: Rig, keep: Keep) -> None:
    await rig.put(keep(HOUR))
    (kept,) = rig.tiers.find_in_ram(KEY)
    renewed = kept.with_entry(keep(HOUR, "X: new"))
    await rig.tiers.replace(KEY, kept, renewed, 0)
    assert rig.tiers.find_in_ram(KEY) == [renewed]
    await rig.tiers.replace(KEY, kept, kept, 0)  # from a flight that knew the one before
    assert rig.tiers.find_in_ram(KEY) == [renewed]
    await rig.tiers.drop(KEY, renewed)
    await rig.tiers.replace(KEY, renewed, renewed, 0)
    assert rig.bodies() == []
    assert rig.told == 2


@pytest.mark.parametrize(
    ("purge", "gone"),
    [
        (Purge(Scope.KEY, KEY), {KEY}),
        (Purge(Scope.PREFIX, b"http://example.com/p"), {KEY}),
        (Purge(Scope.TAG, b"t"), {b"http://example.com/other"}),
        (Purge(Scope.ALL), {KEY, b"http://example.com/other"}),
    ],
    ids=lambda value: value.scope.value if isinstance(value, Purge) else "",
)
async def test_a_purge_drops_what_it_covers(
    rig: Rig, keep: Keep, later: Later, purge: Purge, gone: set[bytes]
) -> None:
    other = b"http://example.com/other"
    await rig.put(keep(HOUR))
    await rig.put(keep(HOUR, "Surrogate-Key: t"), key=other)
    assert await rig.tiers.purge(purge, later()) == len(gone)
    assert {key for key in (KEY, other) if not rig.bodies(key)} == gone
    assert rig.told == 1
    assert await rig.tiers.purge(purge, later()) == 0
    assert rig.told == 1


async def test_a_soft_purge_leaves_it_for_stale_use(rig: Rig, keep: Keep, later: Later) -> None:
    await rig.put(keep("Cache-Control: max-age=3600, stale-if-error=60"))
    assert await rig.tiers.purge(Purge(Scope.KEY, KEY, soft=True), later(100)) == 1
    (kept,) = rig.tiers.find_in_ram(KEY)
    assert kept.entry.remaining(later(101)) == -1
    assert kept.entry.freshness.if_error == 60


async def test_what_is_invalidated_is_asked_for(rig: Rig, keep: Keep) -> None:
    await rig.put(keep(HOUR))
    await rig.tiers.invalidate(Purge(Scope.KEY, KEY))
    assert rig.tiers.find_in_ram(KEY)[0].entry.invalid
    await rig.tiers.invalidate(Purge(Scope.KEY, KEY))
    assert rig.told == 1


async def test_a_coding_that_was_added_is_told(rig: Rig, keep: Keep) -> None:
    await rig.put(keep(HOUR))
    (kept,) = rig.tiers.find_in_ram(KEY)
    assert isinstance(kept, Kept)
    kept.coded[b"br"] = b"y"
    rig.tiers.weigh(KEY, kept)
    assert rig.told == 1
    await trio.lowlevel.checkpoint()
