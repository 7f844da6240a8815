"""Reads and writes on one connection."""

from __future__ import annotations

import socket

import pytest
import trio

from edgebox.upstream.wire import Wire


@pytest.fixture
async def pair():
    ours, other = socket.socketpair()
    ours.setblocking(False)
    wire = Wire(ours)
    yield wire, other
    wire.close()
    other.close()


async def test_what_is_there_is_received_at_once_and_else_waited_for(pair) -> None:
    wire, other = pair
    assert wire.receive_nowait() is None
    other.send(b"a")
    assert wire.receive_nowait() == b"a"
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_expect, wire.receive, b"b")
        await trio.testing.wait_all_tasks_blocked()
        other.send(b"b")
    other.close()
    assert await wire.receive() == b""


async def _expect(receive, octets: bytes) -> None:
    assert await receive() == octets


async def test_reads_that_never_wait_give_way_now_and_then(pair) -> None:
    wire, other = pair
    other.send(b"x" * 20)
    wire._recv = lambda size: b"x"  # always ready
    with trio.CancelScope() as scope:
        scope.cancel()
        for _ in range(100):
            await wire.receive()
    assert scope.cancelled_caught


async def test_sending_takes_what_fits_and_waits_for_room(pair) -> None:
    wire, other = pair
    data = bytes(4_000_000)
    sent = wire.send_nowait(data)
    assert 0 < sent < len(data)
    assert wire.send_nowait(data) == 0
    async with trio.open_nursery() as nursery:

        async def drain() -> None:
            await trio.sleep(0.01)
            other.recv(1_000_000)

        nursery.start_soon(drain)
        with trio.fail_after(5):
            assert await wire.send(data) > 0


async def test_a_broken_connection_raises(pair) -> None:
    wire, other = pair
    other.close()
    with pytest.raises(BrokenPipeError):
        wire.send_nowait(b"x")
    with pytest.raises(BrokenPipeError):
        await wire.send(b"x")


async def test_expiring_ends_whoever_waits(pair) -> None:
    wire, _ = pair
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_expect, wire.receive, b"")
        await trio.testing.wait_all_tasks_blocked()
        wire.expire()
    assert wire.expired


async def test_closing_wakes_whoever_waits_and_may_be_repeated(pair) -> None:
    wire, _ = pair

    async def wait(what, *arguments) -> None:
        with pytest.raises(trio.ClosedResourceError):
            await what(*arguments)

    while wire.send_nowait(bytes(65536)):
        pass
    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait, wire.receive)
        nursery.start_soon(wait, wire.send, b"x")
        await trio.testing.wait_all_tasks_blocked()
        wire.close()
        wire.close()
    wire.abort()  # harmless afterwards
