"""Bodies over TLS: all that holds for TCP, and an end that must be told."""

from __future__ import annotations

from contextlib import suppress

import pytest
import trio

from edgebox.upstream.errors import Reason, Truncated

CLOSE = b"HTTP/1.1 200 OK\r\n\r\n"


@pytest.fixture
async def secure(fake, group, certified, ca_file):
    async def start(handle, **keys):
        server = await fake(handle, tls=certified("127.0.0.1"))
        return await group(server.url, tls={"ca": ca_file}, **keys)

    return start


async def test_large_bodies_go_both_ways_at_once(secure, get, read) -> None:
    size, piece = 4_000_000, bytes(range(250)) * 80

    async def echo(peer) -> None:
        await peer.read_head()
        await peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size)
        for _ in range(size // len(piece)):
            await peer.send(await peer.read(len(piece)))

    async def body():
        for _ in range(size // len(piece)):
            yield piece

    app = await secure(echo)
    answer = await app.fetch(get(method=b"PUT", body=body(), length=size))
    assert await read(answer) == piece * (size // len(piece))


async def test_an_end_with_notice_is_complete(secure, get, read) -> None:
    async def handle(peer) -> None:
        await peer.read_head()
        await peer.send(CLOSE + b"hello")

    app = await secure(handle)
    assert await read(await app.fetch(get())) == b"hello"


async def test_an_end_without_notice_may_be_anybodys(secure, get) -> None:
    async def handle(peer) -> None:
        await peer.read_head()
        await peer.send(CLOSE + b"hello")
        await trio.sleep(0.02)
        await peer.stream.transport_stream.aclose()

    app = await secure(handle)
    answer = await app.fetch(get())
    assert await anext(answer) == b"hello"
    with pytest.raises(Truncated) as caught:
        await anext(answer)
    assert caught.value.reason is Reason.TRUNCATED


async def test_a_stall_is_cut_off(secure, get) -> None:
    async def handle(peer) -> None:
        await peer.read_head()
        await peer.send(CLOSE + b"hello")
        await trio.sleep_forever()

    app = await secure(handle, body_timeout=0.05)
    answer = await app.fetch(get())
    assert await anext(answer) == b"hello"
    with trio.fail_after(5), pytest.raises(Truncated) as caught:
        await anext(answer)
    assert caught.value.reason is Reason.BODY_TIMEOUT


async def test_a_connection_that_is_kept_is_closed_with_notice(secure, get, read) -> None:
    ended = []

    async def handle(peer) -> None:
        await peer.read_head()
        await peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        with suppress(trio.BrokenResourceError):
            ended.append(await peer.stream.receive_some())

    app = await secure(handle)
    await read(await app.fetch(get()))
    app.drain(app._servers[0].name)
    await trio.testing.wait_all_tasks_blocked(0.02)
    assert ended == [b""]
