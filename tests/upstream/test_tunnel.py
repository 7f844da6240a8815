"""Switching protocols: what was asked for, and nothing else."""

from __future__ import annotations

import pytest
import trio

from edgebox.upstream.errors import Malformed, UpstreamError
from edgebox.upstream.incoming import Incoming
from edgebox.upstream.tunnel import Tunnel

SWITCH = b"HTTP/1.1 101 Switching\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nX: y\r\n\r\n"


async def test_octets_go_both_ways_after_a_101(fake, group, get) -> None:
    heads = []

    async def echo(peer) -> None:
        heads.append(await peer.read_head())
        await peer.send(SWITCH + b"early")
        while data := await peer.read(5):
            await peer.send(data)

    app = await group((await fake(echo)).url)
    tunnel = await app.tunnel(get(b"/ws", upgrade=b"websocket"))
    assert isinstance(tunnel, Tunnel)
    assert (tunnel.status, tunnel.protocol) == (101, b"websocket")
    assert tunnel.fields == ((b"X", b"y"),)
    assert b"Connection: upgrade\r\nUpgrade: websocket\r\n" in heads[0]
    with trio.fail_after(5):
        assert await tunnel.receive() == b"early"
        await tunnel.send(b"hello")
        assert await tunnel.receive() == b"hello"
    assert app._servers[0].active == 1
    for _ in range(2):
        await tunnel.aclose()
    assert app._servers[0].active == 0


async def test_much_goes_both_ways_at_once(fake, group, get) -> None:
    async def echo(peer) -> None:
        await peer.read_head()
        await peer.send(SWITCH)
        for _ in range(100):
            await peer.send(await peer.read(50_000))

    app = await group((await fake(echo)).url)
    tunnel = await app.tunnel(get(upgrade=b"websocket"))
    received = 0
    async with trio.open_nursery() as nursery:
        nursery.start_soon(tunnel.send, bytes(5_000_000))
        with trio.fail_after(10):
            while received < 5_000_000:
                received += len(await tunnel.receive())
    await tunnel.aclose()


async def test_each_side_may_end_alone(fake, group, get) -> None:
    async def handle(peer) -> None:
        await peer.read_head()
        await peer.send(SWITCH)
        await peer.send(b"got " + await peer.read_all())

    app = await group((await fake(handle)).url)
    tunnel = await app.tunnel(get(upgrade=b"websocket"))
    await tunnel.send(b"all")
    tunnel.send_eof()
    with trio.fail_after(5):
        assert await tunnel.receive() == b"got all"
        assert await tunnel.receive() == b""
    await tunnel.aclose()


async def test_a_server_that_will_not_switch_answers(fake, group, get, always, read) -> None:
    answer = b"HTTP/1.1 426 Upgrade Required\r\nUpgrade: h2c\r\nContent-Length: 2\r\n\r\nno"
    server = await fake(always(answer))
    app = await group(server.url)
    for _ in range(2):
        incoming = await app.tunnel(get(upgrade=b"websocket"))
        assert isinstance(incoming, Incoming)
        assert (incoming.status, await read(incoming)) == (426, b"no")
    assert server.accepted == 1


async def test_56_a_101_that_names_no_protocol_is_a_502(fake, group, get, always) -> None:
    app = await group((await fake(always(b"HTTP/1.1 101 Switching\r\n\r\n"))).url)
    with pytest.raises(UpstreamError) as caught:
        await app.tunnel(get(upgrade=b"websocket"))
    assert caught.value.detail == Malformed.SWITCHED.value


async def test_56_a_101_in_the_middle_of_a_request_is_a_502(fake, group, get) -> None:
    async def handle(peer) -> None:
        await peer.read_head()
        await peer.send(SWITCH)
        await peer.read_all()

    async def endless():
        while True:
            yield bytes(65536)

    app = await group((await fake(handle)).url)
    with trio.fail_after(5), pytest.raises(UpstreamError) as caught:
        await app.tunnel(get(method=b"POST", body=endless(), upgrade=b"websocket"))
    assert caught.value.detail == Malformed.SWITCHED.value


async def test_closing_ends_both_directions(fake, group, get) -> None:
    async def handle(peer) -> None:
        await peer.read_head()
        await peer.send(SWITCH)
        await peer.read_all()

    app = await group((await fake(handle)).url)
    tunnel = await app.tunnel(get(upgrade=b"websocket"))

    async def wait() -> None:
        with pytest.raises(trio.ClosedResourceError):
            await tunnel.receive()

    with trio.fail_after(5):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait)
            await trio.testing.wait_all_tasks_blocked()
            await tunnel.aclose()
