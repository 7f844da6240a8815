"""Which connections are kept, and which are used again."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from edgebox.upstream.pool import Pool
from edgebox.upstream.wire import Wire


class Pairs:
    """Makes wires and keeps their other ends."""

    def __init__(self) -> None:
        self.others: dict[Wire, socket.socket] = {}

    def make(self) -> Wire:
        ours, other = socket.socketpair()
        ours.setblocking(False)
        wire = Wire(ours)
        self.others[wire] = other
        return wire

    def is_open(self, wire: Wire) -> bool:
        other = self.others[wire]
        other.setblocking(False)
        try:
            return other.recv(1, socket.MSG_PEEK) != b""
        except BlockingIOError:
            return True


@pytest.fixture
async def pairs() -> Iterator[Pairs]:
    made = Pairs()
    yield made
    for wire, other in made.others.items():
        wire.close()
        other.close()


async def test_the_one_used_last_is_used_first(pairs: Pairs) -> None:
    pool, wires = Pool(8, 10), [pairs.make() for _ in range(3)]
    for now, wire in enumerate(wires):
        pool.put(wire, now)
    assert [pool.take_nowait(3) for _ in range(4)] == [*reversed(wires), None]


async def test_more_than_its_size_is_not_kept(pairs: Pairs) -> None:
    pool, wires = Pool(2, 10), [pairs.make() for _ in range(3)]
    for wire in wires:
        pool.put(wire, 0)
    assert [pairs.is_open(wire) for wire in wires] == [False, True, True]
    assert pool.statistics() == {"idle": 2, "stale": 0}


async def test_none_is_kept_where_none_shall_be(pairs: Pairs) -> None:
    pool, wire = Pool(0, 10), pairs.make()
    pool.put(wire, 0)
    assert not pairs.is_open(wire)
    assert pool.take_nowait(0) is None


async def test_what_is_too_old_is_closed_when_found(pairs: Pairs) -> None:
    pool, wires = Pool(8, 10), [pairs.make() for _ in range(2)]
    for wire in wires:
        pool.put(wire, 0)
    assert pool.take_nowait(10) is None
    assert not any(pairs.is_open(wire) for wire in wires)


async def test_the_sweep_closes_what_is_too_old_or_dead(pairs: Pairs) -> None:
    pool, (old, dead, fine) = Pool(8, 10), [pairs.make() for _ in range(3)]
    pool.put(old, 0)
    pool.put(dead, 5)
    pool.put(fine, 6)
    pairs.others[dead].shutdown(socket.SHUT_WR)
    pool.sweep(10)
    assert [pairs.is_open(wire) for wire in (old, dead, fine)] == [False, False, True]
    assert pool.statistics() == {"idle": 1, "stale": 1}


@pytest.mark.parametrize("octets", [b"", b"HTTP/1.1 408 Request Timeout\r\n\r\n"])
async def test_one_that_speaks_or_ends_unasked_is_dead(pairs: Pairs, octets: bytes) -> None:
    pool, (dead, fine) = Pool(8, 10), [pairs.make(), pairs.make()]
    pool.put(fine, 0)
    pool.put(dead, 0)
    pairs.others[dead].send(octets) if octets else pairs.others[dead].shutdown(socket.SHUT_WR)
    assert pool.take_nowait(1) is fine
    assert pool.statistics() == {"idle": 0, "stale": 1}


async def test_clear_closes_all(pairs: Pairs) -> None:
    pool, wires = Pool(8, 10), [pairs.make() for _ in range(3)]
    for wire in wires:
        pool.put(wire, 0)
    pool.clear()
    assert not any(pairs.is_open(wire) for wire in wires)
