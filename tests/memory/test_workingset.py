"""The working set stays within its bytes and the ledger's, and tells who had to go."""

from __future__ import annotations

from collections.abc import Hashable

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from edgebox.memory.ledger import Ledger
from edgebox.memory.workingset import WorkingSet


class Rig:
    def __init__(self, capacity: int = 100, budget: int = 1000) -> None:
        self.ledger = Ledger(budget)
        self.others = self.ledger.account("connections")
        self.set = WorkingSet(capacity, self.ledger)
        self.evicted: list[tuple[Hashable, object]] = []

    def put(self, key: Hashable, size: int) -> bool:
        return self.set.put(key, f"<{key}>", size, lambda k, v: self.evicted.append((k, v)))


def test_the_least_recently_used_makes_room() -> None:
    rig = Rig()
    rig.put("a", 40)
    rig.put("b", 40)
    assert rig.set.get("a") == "<a>"
    rig.put("c", 40)
    assert rig.evicted == [("b", "<b>")]
    rig.set.touch("a")
    rig.set.touch("nobody")
    rig.put("d", 40)
    assert [key for key, _ in rig.evicted] == ["b", "c"]
    assert rig.set.get("b") is None


def test_what_is_kept_is_charged_and_what_goes_is_refunded() -> None:
    rig = Rig()
    rig.put("a", 40)
    assert rig.ledger.held == 40
    rig.set.discard("a")
    rig.set.discard("a")
    assert rig.ledger.held == 0
    assert not rig.evicted  # its owner knows


def test_replacing_counts_the_new_size_only() -> None:
    rig = Rig()
    rig.put("a", 90)
    rig.put("a", 60)
    assert rig.ledger.held == 60
    assert not rig.evicted
    assert rig.set.statistics().objects == 1


def test_what_is_too_large_is_refused_and_replaces_what_was_there() -> None:
    rig = Rig()
    rig.put("a", 50)
    rig.put("b", 50)
    assert not rig.put("a", 101)
    assert rig.set.get("a") is None
    assert rig.set.get("b") == "<b>"
    assert rig.ledger.held == 50
    assert rig.set.statistics().refused == 1


def test_exactly_full_is_not_too_full() -> None:
    rig = Rig()
    assert rig.put("a", 100)
    assert rig.put("b", 0)
    assert not rig.evicted


def test_it_yields_to_what_others_hold() -> None:
    rig = Rig(capacity=100, budget=100)
    rig.put("a", 40)
    rig.put("b", 40)
    rig.others.charge(50)
    assert rig.ledger.overdraft() == 30
    rig.set.yield_room()
    assert rig.ledger.overdraft() == 0
    assert [key for key, _ in rig.evicted] == ["a"]
    assert rig.put("c", 40)  # in place of b: there is room for one
    assert rig.ledger.held == 90
    rig.others.charge(100)
    assert not rig.put("d", 10)  # others alone are over the budget
    assert rig.set.get("c") is not None
    rig.set.yield_room()
    assert rig.set.statistics().objects == 0


def test_an_owner_may_discard_while_it_is_told() -> None:
    rig = Rig()
    rig.put("friend", 50)
    rig.set.put("a", "<a>", 50, lambda key, value: rig.set.discard("friend"))
    rig.set.touch("friend")
    assert rig.put("b", 60)
    assert rig.ledger.held == 60


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 120)), max_size=50))
def test_never_more_bytes_than_allowed(puts: list[tuple[int, int]]) -> None:
    rig = Rig(capacity=100, budget=150)
    rig.others.charge(70)
    for key, size in puts:
        kept = rig.put(key, size)
        assert kept is (size <= 80)
        assert (rig.set.get(key) is not None) is kept
        assert rig.set.statistics().held <= 80
        assert rig.ledger.held == 70 + rig.set.statistics().held


def test_what_is_too_much_after_a_resize_goes_at_once_the_longest_unused_first() -> None:
    rig = Rig()
    for key in "abc":
        rig.put(key, 30)
    rig.set.touch("a")
    rig.set.resize(65)
    assert [key for key, _ in rig.evicted] == ["b"]
    assert rig.ledger.held == 60
    rig.set.resize(0)
    assert rig.ledger.held == 0
    assert not rig.put("d", 1)
    rig.set.resize(200)
    assert rig.put("d", 150)
    assert rig.set.statistics().capacity == 200


class Life(RuleBasedStateMachine):
    """Whatever is done: charged bytes are those of the objects that are still here."""

    def __init__(self) -> None:
        super().__init__()
        self.rig = Rig(capacity=100, budget=120)
        self.sizes: dict[int, int] = {}

    @rule(key=st.integers(0, 5), size=st.integers(0, 110))
    def put(self, key: int, size: int) -> None:
        self.sizes.pop(key, None)
        if self.rig.put(key, size):
            self.sizes[key] = size

    @rule(key=st.integers(0, 5))
    def discard(self, key: int) -> None:
        self.rig.set.discard(key)
        self.sizes.pop(key, None)

    @rule(key=st.integers(0, 5))
    def touch(self, key: int) -> None:
        self.rig.set.touch(key)

    @rule(size=st.integers(0, 60))
    def others_take(self, size: int) -> None:
        self.rig.others.refund(self.rig.others.held)
        self.rig.others.charge(size)
        self.rig.set.yield_room()

    @invariant()
    def sums_are_right(self) -> None:
        for key, _ in self.rig.evicted:
            assert isinstance(key, int)
            self.sizes.pop(key)
        self.rig.evicted.clear()
        statistics = self.rig.set.statistics()
        assert statistics.held == sum(self.sizes.values())
        assert statistics.objects == len(self.sizes)
        assert statistics.held <= 100


TestLife = Life.TestCase
TestLife.settings = settings(stateful_step_count=20)
