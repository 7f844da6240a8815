"""What the ghosts say of more and of less RAM holds when there is more or less."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgebox.memory.ghost import SHARES, Ghosts
from edgebox.memory.ledger import Ledger
from edgebox.memory.workingset import WorkingSet


def replay(capacity: int, uses: list[tuple[int, int]]) -> WorkingSet:
    """A working set after these uses of (key, size), each put here where it is not."""
    found = WorkingSet(capacity, Ledger(10 * capacity))
    for key, size in uses:
        if found.get(key) is None:
            found.put(key, object(), size)
    return found


def hit_ratio(working_set: WorkingSet, uses: int) -> float:
    return working_set.ghosts.statistics()["hits"] / uses


def skewed(count: int, objects: int) -> list[tuple[int, int]]:
    """Uses of objects of various sizes, of which few are asked for often."""
    draw = random.Random(1)
    keys = [int(objects * draw.random() ** 3) for _ in range(count)]
    return [(key, 50 + key * 7 % 100) for key in keys]


def test_nothing_is_said_before_anything_was_used() -> None:
    assert WorkingSet(100, Ledger(100)).what_if() == []


def test_with_what_there_is_the_ratio_is_the_one_there_was() -> None:
    uses = skewed(5000, 500)
    found = replay(10_000, uses)
    assert dict(found.what_if())[10_000] == pytest.approx(hit_ratio(found, len(uses)))


@pytest.mark.parametrize("share", [s for s in SHARES if s > 1])
def test_more_ram_brings_at_least_what_is_said_and_much_of_it_is_said(share: float) -> None:
    uses = skewed(5000, 500)
    now = replay(8_000, uses)
    said = dict(now.what_if())[int(8_000 * share)]
    before = hit_ratio(now, len(uses))
    after = hit_ratio(replay(int(8_000 * share), uses), len(uses))
    assert said <= after + 0.02
    assert said - before >= 0.5 * (after - before)


@pytest.mark.parametrize("share", [s for s in SHARES if s < 1])
def test_less_ram_costs_at_most_what_is_said(share: float) -> None:
    uses = skewed(5000, 500)
    said = dict(replay(8_000, uses).what_if())[int(8_000 * share)]
    after = hit_ratio(replay(int(8_000 * share), uses), len(uses))
    assert 0 < said <= after + 0.02


def test_a_set_that_is_not_full_gains_nothing_from_more_and_loses_nothing_above_what_it_holds() -> (
    None
):
    found = replay(1_000_000, skewed(2000, 50))
    ratios = {ratio for _, ratio in found.what_if()}
    assert len(ratios) == 1


@given(
    uses=st.lists(st.tuples(st.integers(0, 20), st.integers(1, 60)), max_size=200),
    capacity=st.integers(1, 300),
)
def test_more_ram_is_never_said_to_be_worse(uses: list[tuple[int, int]], capacity: int) -> None:
    points = replay(capacity, uses).what_if()
    sizes, ratios = [s for s, _ in points], [r for _, r in points]
    assert sizes == sorted(sizes)
    assert ratios == sorted(ratios)
    assert all(0 <= ratio <= 1 for ratio in ratios)


def test_names_are_bounded_and_fewer_are_noted_where_many_go() -> None:
    ghosts = Ghosts(most=100)
    for name in range(10_000):
        ghosts.evicted(f"/{name}", 1, 10_000)
    statistics = ghosts.statistics()
    assert statistics["ghosts"] <= 100
    assert statistics["one_in"] >= 64
    for name in range(10_000):
        ghosts.missed(f"/{name}")
    returned = ghosts.statistics()["returns"]
    assert 0.5 * 10_000 < returned < 2 * 10_000  # as if all had been noted


def test_a_name_that_went_too_long_ago_is_dropped() -> None:
    ghosts = Ghosts()
    ghosts.evicted("old", 1, 10)
    for name in range(50):
        ghosts.evicted(name, 1, 10)
    ghosts.missed("old")
    assert ghosts.statistics()["returns"] == 0


def test_what_was_long_ago_weighs_less(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edgebox.memory.ghost.FORGET", 1000)
    uses = [(0, 10)] * 1500 + [(key, 10) for key in range(1, 601)]
    (ratio,) = {ratio for size, ratio in replay(100, uses).what_if() if size == 100}
    assert ratio < 1500 / 2100 - 0.05


def test_an_object_that_comes_under_another_key_is_known_by_its_name() -> None:
    found = WorkingSet(100, Ledger(1000))
    for number in range(3):
        found.put(("answer", number), object(), 60, name=b"/page")
        found.put(("other", number), object(), 60)
    assert found.ghosts.statistics()["returns"] == 2
