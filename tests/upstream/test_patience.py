"""Deadlines that are all equally far away."""

from __future__ import annotations

import socket

import pytest
import trio

from edgebox.upstream.patience import Patience
from edgebox.upstream.wire import Wire


@pytest.fixture
async def wires():
    pairs = [socket.socketpair() for _ in range(3)]
    made = [Wire(ours) for ours, _ in pairs]
    yield made
    for wire, (_, other) in zip(made, pairs, strict=True):
        wire.close()
        other.close()


async def test_each_wait_may_take_as_long_as_the_others(wires, nursery, autojump_clock) -> None:
    patience = Patience(10)
    nursery.start_soon(patience.run)
    for wire in wires:
        patience.begin(wire)
        await trio.sleep(3)
    await trio.sleep(0.9)
    assert [wire.expired for wire in wires] == [False, False, False]
    await trio.sleep(0.2)
    assert [wire.expired for wire in wires] == [True, False, False]
    await trio.sleep(6)
    assert [wire.expired for wire in wires] == [True, True, True]
    assert patience.statistics() == {"waiting": 0}


async def test_a_wait_that_ended_or_began_anew_does_not_expire(
    wires, nursery, autojump_clock
) -> None:
    patience = Patience(10)
    nursery.start_soon(patience.run)
    for wire in wires:
        patience.begin(wire)
    await trio.sleep(9)
    patience.end(wires[0])
    patience.end(wires[0])
    patience.begin(wires[1])
    await trio.sleep(9)
    assert [wire.expired for wire in wires] == [False, False, True]


async def test_no_patience_at_all_still_lets_others_run(wires, nursery, autojump_clock) -> None:
    patience = Patience(0)
    nursery.start_soon(patience.run)
    patience.begin(wires[0])
    await trio.sleep(0.01)
    assert wires[0].expired
