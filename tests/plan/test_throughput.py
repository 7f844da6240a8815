"""Promises of the ceilings: one measure for all, and a crossover where two of them meet."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgebox.config.schema import Config, Limits
from edgebox.plan.assumptions import RESPONSE_HEAD, Costs, Overrides
from edgebox.plan.basis import settle
from edgebox.plan.facts import Facts, Processor
from edgebox.plan.planner import plan
from edgebox.plan.throughput import crossover

Box = Callable[[str], Facts]


@given(speed=st.integers(10**8, 10**11), request=st.floats(1, 1000), byte=st.floats(0, 1))
def test_at_the_crossover_link_and_processor_carry_the_same(
    speed: int, request: float, byte: float
) -> None:
    costs = Costs(request=request, byte=byte)
    basis = settle(Facts(), Config(), Overrides(speed=speed, costs=costs))
    size = crossover(basis, 1).value
    assert basis.goodput is not None
    if size is None:
        assert basis.goodput * byte / 1e9 >= 1
    elif size:
        link = basis.goodput / (size + RESPONSE_HEAD)
        processor = 1e6 / (request + byte / 1000 * size)
        assert link == pytest.approx(processor, rel=0.01)


def test_a_processor_too_slow_for_the_bytes_alone_has_no_crossover() -> None:
    basis = settle(Facts(), Config(), Overrides(speed=10**11, costs=Costs(byte=1.0)))
    number = crossover(basis, 1)
    assert number.value is None
    assert "at every size" in number.reason


def test_ceilings_come_in_the_order_in_which_they_are_reached(box: Box) -> None:
    found = plan(box("bonded-pair"), Config())
    rates = [ceiling.rate for ceiling in found.ceilings if ceiling.rate is not None]
    assert rates == sorted(rates)
    assert found.bottleneck == found.ceilings[0].resource
    assert found.runner_up == found.ceilings[1].resource


def test_a_disk_limits_what_ram_does_not_hold_and_nothing_else(box: Box) -> None:
    assert plan(box("bonded-pair"), Config()).bottleneck == "disk"
    assert plan(box("bare-metal-1g"), Config()).ceiling("disk").rate is None


def test_more_ram_makes_the_disk_s_ceiling_higher(box: Box, changed: Callable[..., Facts]) -> None:
    facts = box("bonded-pair")
    more = changed(facts, "memory", total=2**37, available=2**37)
    before, after = (plan(f, Config()).ceiling("disk").rate or 0 for f in (facts, more))
    assert after > before


def test_half_a_core_carries_half(box: Box) -> None:
    def carried(quota: float) -> float:
        facts = Facts(processor=Processor(cores=1, quota=quota))
        return plan(facts, Config()).ceiling("processor").responses or 0

    assert carried(0.5) == pytest.approx(carried(1.0) / 2)


def test_a_limit_that_the_operator_set_is_a_ceiling_of_its_own(box: Box) -> None:
    found = plan(box("bare-metal-1g"), Config(limits=Limits(connections=10)))
    assert found.bottleneck == "connection limit"
    # Ten connections, two round trips of 100 ms each.
    assert found.ceiling("connection limit").responses == 50
