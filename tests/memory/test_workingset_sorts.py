from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from edgebox.memory.ledger import Ledger
from edgebox.memory.workingset import WorkingSet

STEPS = st.lists(
    st.tuples(st.sampled_from(["put", "discard", "get"]), st.integers(0, 9), st.integers(1, 40))
)


@given(STEPS)
def test_sorts_add_up_to_what_is_held(steps: list[tuple[str, int, int]]) -> None:
    def sort(key: object) -> str:
        assert isinstance(key, int)
        return "odd" if key % 2 else "even"

    held = WorkingSet(100, Ledger(120), sort=sort)
    for what, key, size in steps:
        match what:
            case "put":
                held.put(key, object(), size)
            case "discard":
                held.discard(key)
            case _:
                held.get(key)
        statistics = held.statistics()
        assert sum(objects for objects, _ in held.sorts.values()) == statistics.objects
        assert sum(octets for _, octets in held.sorts.values()) == statistics.held
        assert all(objects > 0 for objects, _ in held.sorts.values())
