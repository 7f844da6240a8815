"""What is evicted while it is still being sent counts until it is not."""

from __future__ import annotations

from edgebox.memory.ledger import Ledger
from edgebox.memory.lent import Lent
from edgebox.memory.workingset import SMALL, WorkingSet

KIB = 1024


def test_what_nobody_else_has_is_gone_at_once() -> None:
    ledger = Ledger(1000)
    lent = Lent(ledger)
    lent.note((bytes(100), 100))
    assert ledger.held == lent.held == 0


def test_what_somebody_has_counts_until_the_sweep_after_he_let_go() -> None:
    ledger = Ledger(1000)
    lent, octets = Lent(ledger), bytes(100)
    view = memoryview(octets)[10:]  # a sender's rest
    lent.note((octets, 100))
    del octets
    lent.sweep()
    assert ledger.held == 100
    del view
    lent.sweep()
    assert ledger.held == lent.held == 0


def working_set(capacity: int, budget: int) -> WorkingSet:
    return WorkingSet(capacity, Ledger(budget))


def test_the_working_set_yields_to_what_is_still_being_sent() -> None:
    found = working_set(1000 * KIB, 1000 * KIB)
    readers = []
    for number in range(200):
        octets = bytes(min(100 * KIB, found.room))
        if found.put(number, object(), len(octets), octets=octets):
            readers.append(octets)
        del octets
        assert found.ledger.held <= 1000 * KIB
    assert found.statistics().held < 1000 * KIB
    readers.clear()
    found.yield_room()
    assert found.ledger.account("being sent").held == 0
    assert found.ledger.held == found.statistics().held


def test_where_much_is_being_sent_large_objects_get_no_room() -> None:
    found = working_set(1000 * KIB, 2000 * KIB)
    assert found.room == 1000 * KIB
    slow = bytes(300 * KIB)
    found.put("slow", object(), 300 * KIB, octets=slow)
    found.put("other", object(), 900 * KIB)
    assert found.room == SMALL
    del slow
    found.yield_room()
    assert found.room == 1000 * KIB


def test_room_is_what_could_be_had_by_evicting_all() -> None:
    found = working_set(1000, 600)
    found.ledger.account("connections").charge(250)
    assert found.room == 350
    assert found.put("a", object(), 350)
    assert found.room == 350
    found.ledger.account("connections").charge(250)
    assert found.room == 100
    assert not found.put("b", object(), 101)
    found.ledger.account("connections").charge(5000)
    assert found.room == 0
