"""Promises of what is measured of connections: enough of them, the largest, and within reason."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from edgebox.plan.measured import (
    CEILING,
    ENOUGH,
    FLOOR,
    Measurements,
    Running,
    connection_size,
)

MIB = 1024 * 1024
REST = Running(connections=10, resident=60 * MIB, held=5 * MIB, sockets=MIB)


def busy(connections: int, each: int, kernel: int = 0, held: int = 0) -> Running:
    return Running(
        connections=10 + connections,
        resident=60 * MIB + connections * each + held,
        held=5 * MIB + held,
        sockets=MIB + connections * kernel,
    )


def test_the_process_s_part_and_the_kernel_s_are_both_counted() -> None:
    assert connection_size(busy(ENOUGH, 9000, kernel=6000), REST) == 15_000


def test_objects_that_came_meanwhile_are_no_connections() -> None:
    assert connection_size(busy(ENOUGH, 10_000, held=900 * MIB), REST) == 10_000


def test_few_connections_tell_nothing() -> None:
    assert connection_size(busy(ENOUGH - 1, 10_000), REST) is None


def test_idle_connections_do_not_make_the_next_plan_reckless() -> None:
    assert connection_size(busy(10_000, 500), REST) == FLOOR


def test_what_else_grows_is_not_put_down_to_connections_without_end() -> None:
    assert connection_size(busy(ENOUGH, 10 * MIB), REST) == CEILING


def test_the_largest_counts_against_the_quietest_moment() -> None:
    found = Measurements(rest=busy(500, 10_000))
    for moment in (REST, busy(5000, 20_000), busy(5500, 21_000), busy(9000, 12_000), busy(3, 0)):
        found = found.after(moment)
    assert found.largest == 20_000
    assert found.rest.connections == 10


def test_a_single_moment_proves_nothing() -> None:
    found = Measurements(rest=REST)
    for moment in (busy(5000, 9000), busy(5000, 90_000), busy(5000, 9500)):
        found = found.after(moment)
    assert found.largest == 9500


@given(st.lists(st.builds(Running, *(), **{
    key: st.integers(0, 2**50) for key in ("connections", "resident", "held", "sockets")
}), min_size=1, max_size=10))  # fmt: skip
def test_no_moment_makes_it_nonsense(moments: list[Running]) -> None:
    found = Measurements(rest=moments[0])
    for moment in moments:
        found = found.after(moment)
        assert found.largest is None or FLOOR <= found.largest <= CEILING
