"""Promises of how memory is shared out."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from edgebox.config.schema import Config
from edgebox.plan.assumptions import HELPER, MIB, SUPERVISOR, WORKER, Overrides
from edgebox.plan.basis import settle
from edgebox.plan.facts import Facts, Memory, Processor
from edgebox.plan.shares import LEAST, Shares, share


def shares(memory: int, cores: int = 1) -> Shares:
    facts = Facts(memory=Memory(total=memory), processor=Processor(cores=cores))
    found = share(settle(facts, Config(), Overrides()))
    assert found is not None
    return found


def test_processes_are_reserved_as_if_every_core_had_a_worker() -> None:
    assert shares(64 * 1024 * MIB, cores=8).processes == SUPERVISOR + 8 * WORKER + HELPER


def test_on_a_small_box_the_processes_take_two_fifths_but_at_least_one_worker() -> None:
    assert shares(300 * MIB, cores=8).processes == 120 * MIB
    assert shares(200 * MIB, cores=8).processes == LEAST


def test_a_half_a_quarter_and_an_eighth_of_the_rest() -> None:
    found = shares(1024 * MIB)
    assert found.objects == found.rest // 2
    assert found.connections == found.rest // 4
    assert found.buffers == found.rest // 8


@given(st.integers(0, 2**40), st.integers(1, 256))
def test_shares_never_exceed_the_budget(memory: int, cores: int) -> None:
    found = shares(memory, cores)
    parts = (found.processes, found.objects, found.connections, found.buffers)
    assert min(parts) >= 0
    assert sum(parts) <= memory


def test_unknown_memory_is_not_shared_out() -> None:
    assert share(settle(Facts(), Config(), Overrides())) is None
