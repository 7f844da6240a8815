"""The shelf: variants by key, within the working set and its budget."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from edgebox.cache.entry import StoredResponse
from edgebox.cache.shelf import HEAD, FetchRoom, Kept, Shelf
from edgebox.memory.ledger import Ledger
from edgebox.memory.workingset import WorkingSet

Keep = Callable[..., StoredResponse]
HOUR = "Cache-Control: max-age=3600"


def make(capacity: int = 10_000, whole_keys: bool = False) -> tuple[Shelf, WorkingSet]:
    working_set = WorkingSet(capacity, Ledger(2 * capacity))
    return Shelf(working_set, whole_keys), working_set


@pytest.fixture
def kept(keep: Keep) -> Callable[..., Kept]:
    def build(size: int = 100, *lines: str) -> Kept:
        return Kept(keep(HOUR, *lines), size, b"x" * size)

    return build


def test_variants_of_a_key_are_found_together(kept: Callable[..., Kept]) -> None:
    shelf, _ = make()
    one, two = kept(), kept()
    shelf.put(b"a", one)
    shelf.put(b"a", two)
    shelf.put(b"b", kept())
    assert shelf.find(b"a") == [one, two]
    assert shelf.find(b"none") == []
    assert shelf.statistics() == {"keys": 2, "answers": 3}


def test_what_is_replaced_or_dropped_gives_its_room_back(kept: Callable[..., Kept]) -> None:
    shelf, working_set = make()
    one, two = kept(5000), kept(10)
    shelf.put(b"a", one)
    shelf.put(b"a", two, [one])
    assert shelf.find(b"a") == [two]
    assert working_set.ledger.held == two.weight
    shelf.drop(b"a", two)
    shelf.drop(b"a", two)
    assert (working_set.ledger.held, shelf.statistics()["keys"]) == (0, 0)


def test_heads_are_weighed_beside_bodies(kept: Callable[..., Kept]) -> None:
    plain = kept(100)
    plain.coded[b"br"] = b"y" * 40
    plain.coded[b"gzip"] = None
    assert plain.weight > HEAD + 140
    assert kept(100, "X-Long: " + "l" * 500).weight > kept(100).weight + 500


def test_the_least_recently_used_goes_first(kept: Callable[..., Kept]) -> None:
    shelf, _ = make(10_000)
    for key in (b"a", b"b", b"c"):
        shelf.put(key, kept(2000))
    shelf.find(b"a")
    shelf.put(b"d", kept(3000))
    assert [bool(shelf.find(key)) for key in (b"a", b"b", b"c", b"d")] == [True, False, True, True]


@pytest.mark.parametrize("whole_keys", [False, True])
def test_an_evicted_variant_takes_the_others_along_where_that_is_wished(
    kept: Callable[..., Kept], whole_keys: bool
) -> None:
    shelf, working_set = make(10_000, whole_keys)
    shelf.put(b"a", kept(2000))
    shelf.put(b"a", kept(2000))
    shelf.put(b"b", kept(5000))
    assert len(shelf.find(b"a")) == (0 if whole_keys else 1)
    assert working_set.ledger.held == sum(k.weight for key in (b"a", b"b") for k in shelf.find(key))


@pytest.mark.parametrize("size", [5000, 20_000])
def test_a_variant_that_drove_out_its_own_kind_does_not_pass_for_all(
    kept: Callable[..., Kept], size: int
) -> None:
    shelf, working_set = make(10_000, whole_keys=True)
    shelf.put(b"a", kept(6000))
    shelf.put(b"a", kept(size))
    assert shelf.find(b"a") == []
    assert working_set.ledger.held == 0


def test_what_is_too_large_is_not_shelved(kept: Callable[..., Kept]) -> None:
    shelf, working_set = make(10_000)
    shelf.put(b"a", kept(20_000))
    assert shelf.find(b"a") == []
    assert working_set.ledger.held == 0


def test_codings_are_weighed_when_they_are_there(kept: Callable[..., Kept]) -> None:
    shelf, working_set = make(10_000)
    plain = kept(1000)
    shelf.put(b"a", plain)
    renewed = plain.with_entry(plain.entry)  # a 304 came while it was coded
    shelf.put(b"a", renewed, [plain])
    before = working_set.ledger.held
    plain.coded[b"br"] = b"y" * 400
    shelf.weigh(b"a", plain.coded)
    assert working_set.ledger.held == before + 400
    assert shelf.find(b"a") == [renewed]
    assert renewed.coded[b"br"] is not None


def test_change_reaches_one_key_or_all(kept: Callable[..., Kept]) -> None:
    shelf, working_set = make(10_000)
    for key in (b"a", b"b"):
        shelf.put(key, kept())
    seen: list[bytes] = []

    def mark(key: bytes, each: Kept) -> StoredResponse:
        seen.append(key)
        return each.entry.invalidated()

    assert shelf.change(mark, b"a") == 1
    assert seen == [b"a"]
    assert shelf.find(b"a")[0].entry.invalid
    assert shelf.change(lambda key, each: each.entry) == 0
    assert shelf.change(lambda key, each: None) == 2
    assert working_set.ledger.held == 0


def test_what_is_stored_yields_to_fetches_under_way(kept: Callable[..., Kept]) -> None:
    working_set = WorkingSet(10_000, Ledger(10_000))
    shelf = Shelf(working_set, whole_keys=False)
    shelf.put(b"a", kept(8000))
    room: FetchRoom = shelf.room
    room.charge(500)
    assert shelf.find(b"a")
    assert not room.cramped
    room.charge(3000)
    assert not shelf.find(b"a")
    room.charge(7000)
    assert room.cramped
    room.refund(10_500)
    assert working_set.ledger.held == 0


def test_a_renewed_record_keeps_the_octets(kept: Callable[..., Kept]) -> None:
    one = kept()
    renewed = one.with_entry(one.entry.invalidated())
    assert renewed.content is one.content
    assert renewed.coded is one.coded
    assert not one.entry.invalid
