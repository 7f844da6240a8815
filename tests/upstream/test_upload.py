"""A request's body: streamed both ways, and never longer than anybody wants it."""

from __future__ import annotations

import pytest
import trio

from edgebox.config.upstreams import Upstream
from edgebox.upstream.errors import Reason, Truncated, UpstreamError
from edgebox.upstream.group import UpstreamGroup

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


class Body:
    """A body that counts, and knows whether it was closed; `last` is raised at its end."""

    def __init__(self, piece: bytes, times: int, last: BaseException | None = None) -> None:
        self.piece, self.times, self.last = piece, times, last
        self.given = 0
        self.reading = False
        self.closed = False

    def __aiter__(self):
        return self

    async def __anext__(self) -> bytes:
        self.reading = True
        try:
            await trio.lowlevel.checkpoint()
        finally:
            self.reading = False
        if self.given == self.times:
            if self.last is not None:
                raise self.last
            raise StopAsyncIteration
        self.given += 1
        return self.piece

    async def aclose(self) -> None:
        self.closed = True


def receiving(count: int, received: list[bytes], answer: bytes = OK):
    async def handle(peer) -> None:
        while True:
            received.append(await peer.read_head())
            received.append(await peer.read(count))
            await peer.send(answer)

    return handle


@pytest.mark.parametrize("size", [1, 64 * 1024, 300_000])
async def test_octets_go_out_whole(fake, group, get, read, size: int) -> None:
    received: list[bytes] = []
    body = bytes(n % 251 for n in range(size))
    server = await fake(receiving(size, received))
    app = await group(server.url)
    for _ in range(2):
        assert await read(await app.fetch(get(method=b"POST", body=body))) == b"ok"
    assert received[1::2] == [body, body]
    # After a large one nobody knows whether the server read it all: another connection.
    assert server.accepted == (1 if size == 1 else 2)


@pytest.mark.parametrize("body", [None, b""])
async def test_an_empty_body_is_told(fake, group, get, read, body: bytes | None) -> None:
    received: list[bytes] = []
    app = await group((await fake(receiving(0, received))).url)
    assert await read(await app.fetch(get(method=b"POST", body=body))) == b"ok"
    assert b"Content-Length: 0\r\n" in received[0]


async def test_a_stream_of_known_length_goes_out_as_it_is(fake, group, get, read) -> None:
    received: list[bytes] = []
    server = await fake(receiving(6, received))
    app = await group(server.url)
    for _ in range(2):
        body = Body(b"abc", 2)
        answer = await app.fetch(get(method=b"PUT", body=body, length=6))
        assert (await read(answer), body.closed) == (b"ok", True)
    assert received[1] == b"abcabc"
    assert b"Content-Length: 6\r\n" in received[0]
    assert server.accepted == 1


async def test_a_stream_of_unknown_length_goes_out_in_chunks(
    fake, group, get, read, pieces
) -> None:
    received: list[bytes] = []
    chunks = b"3\r\nabc\r\n1\r\nd\r\n0\r\n\r\n"
    app = await group((await fake(receiving(len(chunks), received))).url)
    body = pieces(b"abc", b"", b"d")
    assert await read(await app.fetch(get(method=b"POST", body=body))) == b"ok"
    assert received[1] == chunks
    assert b"Transfer-Encoding: chunked\r\n" in received[0]


async def test_what_lies_beyond_its_length_is_not_sent(fake, group, get, read) -> None:
    received: list[bytes] = []
    server = await fake(receiving(5, received))
    app = await group(server.url)
    for _ in range(2):
        answer = await app.fetch(get(method=b"PUT", body=Body(b"abc", 9), length=5))
        assert await read(answer) == b"ok"
    assert received[1::2] == [b"abcab", b"abcab"]
    assert server.accepted == 1


async def test_a_slow_server_slows_the_client_down(fake, group, get) -> None:
    go_on = trio.Event()

    async def handle(peer) -> None:
        await peer.read_head()
        await go_on.wait()
        await peer.read_all()

    body = Body(bytes(65536), 10_000)
    app = await group((await fake(handle)).url)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(app.fetch, get(method=b"POST", body=body))
        await trio.testing.wait_all_tasks_blocked(0.1)
        given = body.given
        assert given < 200  # what the kernel's buffers hold
        go_on.set()
        with trio.fail_after(10):
            while body.given <= given:
                await trio.sleep(0.01)
        nursery.cancel_scope.cancel()
    assert body.closed


async def test_a_server_that_stops_reading_is_a_504(fake, group, get) -> None:
    async def handle(peer) -> None:
        await peer.read_head()
        await trio.sleep_forever()

    body = Body(bytes(65536), 10_000)
    app = await group((await fake(handle)).url, body_timeout=0.1)
    with trio.fail_after(5), pytest.raises(UpstreamError) as caught:
        await app.fetch(get(method=b"POST", body=body))
    assert (caught.value.reason, caught.value.status) == (Reason.SEND_TIMEOUT, 504)
    assert body.closed


async def test_a_fast_upload_does_not_starve_the_others(fake, group, get, read) -> None:
    class Ready:
        """Always has a piece, and never waits."""

        def __init__(self) -> None:
            self.left = 1000

        def __aiter__(self):
            return self

        async def __anext__(self) -> bytes:
            if not self.left:
                raise StopAsyncIteration
            self.left -= 1
            return b"x"

    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await trio.lowlevel.checkpoint()

    body = Ready()
    app = await group((await fake(receiving(1000, []))).url)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(other)
        nursery.start_soon(app.fetch, get(method=b"POST", body=body, length=1000))
        while body.left == 1000:
            await trio.lowlevel.checkpoint()
        before = turns
        while body.left:
            await trio.lowlevel.checkpoint()
        assert turns - before > 50
        nursery.cancel_scope.cancel()


async def test_the_head_may_take_as_long_as_the_upload(fake, group, get, read) -> None:
    async def slowly():
        for _ in range(4):
            await trio.sleep(0.05)
            yield b"x"

    app = await group((await fake(receiving(4, []))).url, head_timeout=0.1)
    outgoing = get(method=b"POST", body=slowly(), length=4)
    assert await read(await app.fetch(outgoing)) == b"ok"


async def test_but_not_longer_than_allowed_from_then_on(fake, group, get) -> None:
    async def handle(peer) -> None:
        await peer.read_all()

    app = await group((await fake(handle)).url, head_timeout=0.05)
    with trio.fail_after(5), pytest.raises(UpstreamError) as caught:
        await app.fetch(get(method=b"POST", body=Body(b"x", 4), length=4))
    assert caught.value.reason is Reason.HEAD_TIMEOUT


@pytest.mark.parametrize("keep_alive", [True, False])
async def test_an_early_refusal_stops_the_upload(fake, group, get, read, keep_alive) -> None:
    async def handle(peer) -> None:
        await peer.read_head()
        extra = b"" if keep_alive else b"Connection: close\r\n"
        await peer.send(b"HTTP/1.1 413 No\r\n" + extra + b"Content-Length: 2\r\n\r\n")
        await refused.wait()
        await peer.send(b"no")
        await trio.sleep_forever()

    refused = trio.Event()
    body = Body(bytes(65536), 10_000)
    server = await fake(handle)
    app = await group(server.url)
    with trio.fail_after(5):
        answer = await app.fetch(get(method=b"POST", body=body))
        assert (answer.status, body.closed, body.reading) == (413, True, False)
        refused.set()
        assert await read(answer) == b"no"
    assert body.given < 10_000
    assert app._servers[0].active == 0
    (statistics,) = app.statistics()["servers"].values()
    assert statistics["idle"] == 0


async def test_an_early_success_goes_on_beside_the_upload(fake, group, get, read) -> None:
    """An app that answers as it reads: neither side may wait for the other."""

    async def handle(peer) -> None:
        await peer.read_head()
        await peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 6553600\r\n\r\n")
        for _ in range(100):
            await peer.send(await peer.read(65536))

    body = Body(bytes(65536), 100)
    app = await group((await fake(handle)).url)
    with trio.fail_after(10):
        answer = await app.fetch(get(method=b"PUT", body=body, length=6553600))
        assert await read(answer) == bytes(6553600)


async def test_an_upload_that_ends_beside_the_answer_starts_no_clock(
    fake, group, get, read
) -> None:
    async def handle(peer) -> None:
        await peer.read_head()
        await peer.send(OK[:-2])
        await peer.read(4)
        await trio.sleep(0.1)
        await peer.send(b"ok")

    app = await group((await fake(handle)).url, head_timeout=0.05)

    async def slowly():
        for _ in range(4):
            await trio.sleep(0.01)
            yield b"x"

    answer = await app.fetch(get(method=b"PUT", body=slowly(), length=4))
    assert (answer.whole, await read(answer)) == (None, b"ok")


async def test_a_whole_answer_before_the_end_leaves_no_upload_behind(fake, group, get) -> None:
    async def handle(peer) -> None:
        await peer.read_head()
        await peer.send(OK)
        await trio.sleep_forever()

    body = Body(bytes(65536), 10_000)
    app = await group((await fake(handle)).url)
    answer = await app.fetch(get(method=b"POST", body=body))
    assert (answer.whole, body.closed, body.reading) == (b"ok", True, False)


@pytest.mark.parametrize("late", [False, True])
async def test_an_answer_that_ends_before_the_upload_ends_it(
    fake, group, get, read, late: bool
) -> None:
    async def handle(peer) -> None:
        await peer.read_head()
        await peer.send(OK[: -2 if late else None])
        await trio.sleep(0.02)
        await peer.send(b"ok" if late else b"")
        await trio.sleep_forever()

    body = Body(bytes(65536), 10_000)
    app = await group((await fake(handle)).url)
    with trio.fail_after(5):
        answer = await app.fetch(get(method=b"POST", body=body))
        assert await read(answer) == b"ok"
    assert (body.closed, body.reading) == (True, False)
    (statistics,) = app.statistics()["servers"].values()
    assert (statistics["active"], statistics["idle"]) == (0, 0)


async def test_closing_the_answer_stops_the_upload(fake, group, get) -> None:
    async def handle(peer) -> None:
        await peer.read_head()
        await peer.send(b"HTTP/1.1 200 OK\r\n\r\nx")
        await trio.sleep_forever()

    body = Body(bytes(65536), 10_000)
    app = await group((await fake(handle)).url)
    answer = await app.fetch(get(method=b"POST", body=body))
    await answer.aclose()
    assert (body.closed, body.reading) == (True, False)


@pytest.mark.parametrize("length", [None, 100])
async def test_a_body_that_fails_cuts_the_request_off(fake, group, get, length) -> None:
    received = []

    async def handle(peer) -> None:
        await peer.read_head()
        received.append(await peer.read_all())

    server = await fake(handle)
    app = await group(server.url)
    gone = ValueError("the client is gone")
    body = Body(b"abc", 2, last=gone)
    with trio.fail_after(5), pytest.raises(UpstreamError) as caught:
        await app.fetch(get(method=b"PUT", body=body, length=length))
    assert (caught.value.reason, caught.value.__cause__) == (Reason.REQUEST_BODY, gone)
    assert caught.value.status == 400
    await trio.testing.wait_all_tasks_blocked(0.01)
    assert received
    assert not received[0].endswith(b"0\r\n\r\n")
    (statistics,) = app.statistics()["servers"].values()
    assert (server.accepted, statistics["failed"]) == (1, 0)


async def test_a_body_that_ends_early_cuts_the_request_off(fake, group, get) -> None:
    app = await group((await fake(receiving(100, []))).url)
    with trio.fail_after(5), pytest.raises(UpstreamError) as caught:
        await app.fetch(get(method=b"PUT", body=Body(b"abc", 2), length=100))
    assert caught.value.reason is Reason.REQUEST_BODY


@pytest.mark.parametrize("framing", [b"Content-Length: 99\r\n\r\n", b"\r\n"])
async def test_a_body_that_fails_beside_an_answer_cuts_the_answer_off(
    fake, group, get, framing: bytes
) -> None:
    async def handle(peer) -> None:
        await peer.read_head()
        await peer.send(b"HTTP/1.1 200 OK\r\n" + framing + b"x")
        await peer.read_all()

    proceed = trio.Event()

    async def failing():
        yield b"abc"
        await proceed.wait()
        raise ValueError("the client is gone")

    app = await group((await fake(handle)).url)
    answer = await app.fetch(get(method=b"PUT", body=failing()))
    assert await anext(answer) == b"x"
    proceed.set()
    with trio.fail_after(5), pytest.raises(Truncated) as caught:
        await anext(answer)
    assert caught.value.reason is Reason.REQUEST_BODY


async def test_a_body_that_was_begun_is_not_sent_again(fake, group, get, read) -> None:
    async def handle(peer) -> None:
        await peer.read_head()
        await peer.read(3)
        await peer.reset()

    server = await fake(handle)
    app = await group(server.url)
    with trio.fail_after(5), pytest.raises(UpstreamError) as caught:
        await app.fetch(get(method=b"PUT", body=Body(b"abc", 2)))
    assert (caught.value.reason, server.accepted) == (Reason.RESET, 1)


async def test_octets_are_sent_again(fake, group, get, read) -> None:
    received = []

    async def handle(peer) -> None:
        await peer.read_head()
        received.append(await peer.read(5))
        if peer.number == 0:
            await peer.reset()
        await peer.send(OK)

    app = await group((await fake(handle)).url)
    assert await read(await app.fetch(get(method=b"PUT", body=b"hello"))) == b"ok"
    assert received == [b"hello", b"hello"]


async def test_a_group_that_ends_ends_its_uploads(fake, get) -> None:
    async def handle(peer) -> None:
        await peer.read_head()
        await trio.sleep_forever()

    server = await fake(handle)
    body = Body(bytes(65536), 10_000)
    app = UpstreamGroup("app", Upstream(servers=(server.url,)), lambda level, text: None)
    async with trio.open_nursery() as nursery:
        await nursery.start(app.run)

        async def ask() -> None:
            with pytest.raises(UpstreamError):
                await app.fetch(get(method=b"POST", body=body))

        async with trio.open_nursery() as asking:
            asking.start_soon(ask)
            await trio.testing.wait_all_tasks_blocked(0.05)
            nursery.cancel_scope.cancel()
    assert body.closed
