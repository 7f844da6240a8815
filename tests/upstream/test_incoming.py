"""A body as it arrives: complete or visibly not, without delay, and without hoarding."""

from __future__ import annotations

import pytest
import trio

from edgebox.upstream.errors import Reason, Truncated

HEAD = b"HTTP/1.1 200 OK\r\n"
LENGTH = HEAD + b"Content-Length: 10\r\n\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
CLOSE = HEAD + b"\r\n"


async def read_until_cut(incoming) -> tuple[bytes, Truncated]:
    content = b""
    with trio.fail_after(5), pytest.raises(Truncated) as caught:
        async for piece in incoming:
            content += piece
    return content, caught.value


@pytest.mark.parametrize(
    ("answer", "content"),
    [
        (LENGTH + b"0123456789", b"0123456789"),
        (HEAD + b"Content-Length: 0\r\n\r\n", b""),
        (CHUNKED + b"5\r\nhello\r\n0\r\n\r\n", b"hello"),
        (HEAD.replace(b"200", b"204") + b"\r\n", b""),
        (HEAD.replace(b"200", b"304") + b"Content-Length: 7\r\n\r\n", b""),
    ],
)
async def test_a_body_that_came_with_the_head_is_whole_and_the_connection_free(
    fake, group, get, always, read, answer: bytes, content: bytes
) -> None:
    server = await fake(always(answer))
    app = await group(server.url)
    for _ in range(3):
        incoming = await app.fetch(get())
        assert (incoming.whole, app._servers[0].active) == (content, 0)
        assert await read(incoming) == content
    assert server.accepted == 1


async def test_head_has_a_length_and_no_body(fake, group, get, always, read) -> None:
    server = await fake(always(LENGTH))
    app = await group(server.url)
    for _ in range(2):
        incoming = await app.fetch(get(method=b"HEAD"))
        assert (incoming.length, await read(incoming)) == (10, b"")
    assert server.accepted == 1


async def test_a_body_that_ends_with_the_connection_is_complete(
    fake, group, get, once, read
) -> None:
    server = await fake(once(CLOSE + b"hello"))
    app = await group(server.url)
    incoming = await app.fetch(get())
    assert (incoming.whole, incoming.length) == (None, None)
    assert await read(incoming) == b"hello"
    assert await read(await app.fetch(get())) == b"hello"
    assert server.accepted == 2


async def test_a_large_body_comes_whole_and_in_order(fake, group, get, read) -> None:
    body = bytes(range(256)) * 20_000

    async def handle(peer) -> None:
        await peer.read_head()
        await peer.send(HEAD + b"Content-Length: %d\r\n\r\n" % len(body) + body)
        await peer.read_head()
        await peer.send(LENGTH + b"0123456789")

    server = await fake(handle)
    app = await group(server.url)
    assert await read(await app.fetch(get())) == body
    assert await read(await app.fetch(get())) == b"0123456789"
    assert server.accepted == 1


@pytest.mark.parametrize("step", [1, 5])
async def test_trailers_are_known_at_the_end(fake, group, get, read, step: int) -> None:
    answer = CHUNKED + b"5\r\nhello\r\n0\r\nX-Sum: 1\r\nContent-Length: 9\r\n\r\n"

    async def handle(peer) -> None:
        for _ in range(2):
            await peer.read_head()
            for at in range(0, len(answer), step):
                await peer.send(answer[at : at + step])

    server = await fake(handle)
    app = await group(server.url)
    for _ in range(2):
        incoming = await app.fetch(get())
        assert await read(incoming) == b"hello"
        assert incoming.trailers == ((b"X-Sum", b"1"),)
    assert server.accepted == 1


async def test_50_a_body_shorter_than_its_length_is_cut_off(fake, group, get, once) -> None:
    app = await group((await fake(once(LENGTH + b"01234"))).url)
    incoming = await app.fetch(get())
    content, error = await read_until_cut(incoming)
    assert (content, error.reason, error.status) == (b"01234", Reason.TRUNCATED, 502)
    with pytest.raises(Truncated):  # and stays so
        await anext(incoming)
    await incoming.aclose()
    with pytest.raises(Truncated):
        await anext(incoming)


async def test_50_a_reset_in_the_middle_is_told_likewise(fake, group, get) -> None:
    async def handle(peer) -> None:
        await peer.read_head()
        await peer.send(LENGTH + b"01234")
        await trio.sleep(0.02)
        await peer.reset()

    app = await group((await fake(handle)).url)
    content, error = await read_until_cut(await app.fetch(get()))
    assert (content, error.reason) == (b"01234", Reason.TRUNCATED)


@pytest.mark.parametrize("end", [b"", b"\r\n", b"\r\n0", b"\r\n0\r\n", b"\r\n0\r\nX: y\r\n"])
async def test_51_chunks_without_the_last_one_are_cut_off(
    fake, group, get, once, end: bytes
) -> None:
    app = await group((await fake(once(CHUNKED + b"5\r\nhello" + end))).url)
    content, error = await read_until_cut(await app.fetch(get()))
    assert (content, error.reason) == (b"hello", Reason.TRUNCATED)


async def test_malformed_chunks_are_cut_off_and_the_server_blamed(fake, group, get, once) -> None:
    app = await group((await fake(once(CHUNKED + b"5\r\nhello\r\nxyz\r\n"))).url)
    _, error = await read_until_cut(await app.fetch(get()))
    assert error.reason is Reason.BAD_RESPONSE
    (statistics,) = app.statistics()["servers"].values()
    assert statistics["failed"] == 1


@pytest.mark.parametrize(
    "answer",
    [
        LENGTH + b"0123456789" + LENGTH + b"smuggled!!",
        CHUNKED + b"5\r\nhello\r\n0\r\n\r\n" + LENGTH + b"smuggled!!",
        HEAD.replace(b"200", b"204") + b"\r\nx",
    ],
)
async def test_52_octets_beyond_the_body_are_never_the_next_answer(
    fake, group, get, always, read, answer: bytes
) -> None:
    server = await fake(always(answer))
    app = await group(server.url)
    first, second = [await read(await app.fetch(get())) for _ in range(2)]
    assert first == second
    assert server.accepted == 2


async def test_52_octets_that_come_later_are_not_either(fake, group, get, read) -> None:
    async def handle(peer) -> None:
        await peer.read_head()
        await peer.send(LENGTH + b"0123456789")
        await trio.sleep(0.01)
        await peer.send(LENGTH + b"smuggled!!")
        await peer.read_all()

    server = await fake(handle)
    app = await group(server.url)
    for _ in range(2):
        assert await read(await app.fetch(get())) == b"0123456789"
        await trio.sleep(0.05)
    assert server.accepted == 2


async def test_60_a_stall_in_the_middle_is_cut_off(fake, group, get) -> None:
    async def handle(peer) -> None:
        await peer.read_head()
        await peer.send(LENGTH + b"01234")
        await peer.read_all()

    app = await group((await fake(handle)).url, body_timeout=0.05)
    content, error = await read_until_cut(await app.fetch(get()))
    assert (content, error.reason, error.status) == (b"01234", Reason.BODY_TIMEOUT, 504)


async def test_60_a_body_that_ends_with_the_connection_is_cut_off_by_a_stall_too(
    fake, group, get
) -> None:
    async def handle(peer) -> None:
        await peer.read_head()
        await peer.send(CLOSE + b"01234")
        await peer.read_all()

    app = await group((await fake(handle)).url, body_timeout=0.05)
    content, error = await read_until_cut(await app.fetch(get()))
    assert (content, error.reason) == (b"01234", Reason.BODY_TIMEOUT)


async def test_each_event_is_handed_on_as_it_comes(fake, group, get) -> None:
    taken = trio.Event()

    async def handle(peer) -> None:
        nonlocal taken
        await peer.read_head()
        await peer.send(CHUNKED)
        for n in range(5):
            await peer.send(b"8\r\ndata: %d\n\r\n" % n)
            await taken.wait()
            taken = trio.Event()
        await peer.send(b"0\r\n\r\n")

    app = await group((await fake(handle)).url)
    incoming = await app.fetch(get())
    with trio.fail_after(5):
        for n in range(5):
            assert await anext(incoming) == b"data: %d\n" % n
            taken.set()
        with pytest.raises(StopAsyncIteration):
            await anext(incoming)


async def test_a_server_is_not_read_faster_than_its_reader(fake, group, get) -> None:
    sent = 0

    async def handle(peer) -> None:
        nonlocal sent
        await peer.read_head()
        await peer.send(CLOSE)
        while True:
            await peer.send(bytes(65536))
            sent += 65536

    app = await group((await fake(handle)).url)
    incoming = await app.fetch(get())
    await anext(incoming)
    await trio.testing.wait_all_tasks_blocked(0.05)
    filled = sent  # what the kernel's buffers hold
    await trio.sleep(0.05)
    assert sent == filled
    for _ in range(400):
        await anext(incoming)
    assert sent > filled
    await incoming.aclose()


async def test_a_fast_server_does_not_starve_the_others(fake, group, get) -> None:
    async def handle(peer) -> None:
        await peer.read_head()
        await peer.send(CLOSE)
        while True:
            await peer.send(bytes(1 << 20))

    app = await group((await fake(handle)).url)
    incoming = await app.fetch(get())
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await trio.lowlevel.checkpoint()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(other)
        for _ in range(100):
            await anext(incoming)
        nursery.cancel_scope.cancel()
    assert turns > 5
    await incoming.aclose()


async def test_closing_early_closes_the_connection_and_may_be_repeated(fake, group, get) -> None:
    gone = trio.Event()

    async def handle(peer) -> None:
        await peer.read_head()
        await peer.send(LENGTH + b"01234")
        await peer.read_all()
        gone.set()

    app = await group((await fake(handle)).url)
    incoming = await app.fetch(get())
    assert app._servers[0].active == 1
    for _ in range(2):
        await incoming.aclose()
    with trio.fail_after(5):
        await gone.wait()
    assert app._servers[0].active == 0
    with pytest.raises(Truncated):
        await anext(incoming)


async def test_closing_after_the_end_keeps_the_connection(fake, group, get, always, read) -> None:
    server = await fake(always(LENGTH + b"0123456789"))
    app = await group(server.url)
    for _ in range(2):
        incoming = await app.fetch(get())
        await read(incoming)
        await incoming.aclose()
    assert server.accepted == 1


async def test_connection_close_is_heeded(fake, group, get, always, read) -> None:
    answer = HEAD + b"Connection: close\r\nContent-Length: 2\r\n\r\nok"
    server = await fake(always(answer))
    app = await group(server.url)
    for _ in range(2):
        assert await read(await app.fetch(get())) == b"ok"
    assert server.accepted == 2
