"""One request and its answer's head, against servers that do what no server should."""

from __future__ import annotations

import pytest
import trio

from edgebox.upstream.errors import Malformed, Reason, UpstreamError
from edgebox.upstream.exchange import MAX_INTERIM

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


async def failure(group, outgoing) -> UpstreamError:
    with trio.fail_after(5), pytest.raises(UpstreamError) as caught:
        await group.fetch(outgoing)
    return caught.value


async def test_a_request_goes_out_as_it_was_made_and_its_answer_comes_back(
    fake, group, get, read
) -> None:
    heads = []

    async def handle(peer) -> None:
        heads.append(await peer.read_head())
        await peer.send(b"HTTP/1.1 404 No\r\nA: b\r\nContent-Length: 2\r\nC: d\r\n\r\nno")

    app = await group((await fake(handle)).url)
    answer = await app.fetch(get(b"/a?b"))
    assert heads == [b"GET /a?b HTTP/1.1\r\nHost: example.com\r\n\r\n"]
    assert (answer.status, answer.length) == (404, 2)
    assert answer.fields == ((b"A", b"b"), (b"C", b"d"))
    assert (answer.whole, await read(answer)) == (b"no", b"no")


@pytest.mark.parametrize("step", [1, 7])
async def test_a_head_may_come_in_pieces(fake, group, get, read, step: int) -> None:
    async def handle(peer) -> None:
        await peer.read_head()
        for at in range(0, len(OK), step):
            await peer.send(OK[at : at + step])
            await trio.lowlevel.checkpoint()

    app = await group((await fake(handle)).url)
    assert await read(await app.fetch(get())) == b"ok"


@pytest.mark.parametrize(
    ("answer", "malformed"),
    [
        (b"HTTP/1.1 2x0 OK\r\n\r\n", Malformed.HEAD),
        (b"SSH-2.0-OpenSSH_9.2\r\n", Malformed.HEAD),
        (b"HTTP/1.1 200 OK\r\nA: b\0c\r\n\r\n", Malformed.HEAD),
        (b"HTTP/1.1 200 OK\r\nA: " + b"b" * 40_000 + b"\r\n\r\n", Malformed.TOO_LARGE),
        (b"HTTP/1.1 200 OK\r\nA: " + b"b" * 40_000, Malformed.TOO_LARGE),
        (b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", Malformed.LENGTH),
        (
            b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
            Malformed.HEAD,
        ),
    ],
    ids=["status", "banner", "nul", "giant", "endless", "length", "lengths"],
)
async def test_53_54_garbage_is_a_502_and_ends_the_connection(
    fake, group, get, always, answer: bytes, malformed: Malformed
) -> None:
    gone = trio.Event()

    async def handle(peer) -> None:
        await peer.read_head()
        await peer.send(answer)
        await peer.read_all()
        gone.set()

    server = await fake(handle)
    app = await group(server.url)
    error = await failure(app, get())
    assert (error.reason, error.status) == (Reason.BAD_RESPONSE, 502)
    assert error.detail.startswith((malformed.value, Malformed.LENGTH.value))
    assert server.url in str(error)
    with trio.fail_after(5):
        await gone.wait()


async def test_55_interim_responses_are_passed_on_or_skipped(fake, group, get, read) -> None:
    async def handle(peer) -> None:
        while True:
            await peer.read_head()
            await peer.send(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Hints\r\nLink: </a>\r\n")
            await trio.sleep(0.01)
            await peer.send(b"\r\nHTTP/1.1 102 Processing\r\n\r\n" + OK)

    seen = []

    async def note(status: int, fields: object) -> None:
        seen.append((status, fields))

    app = await group((await fake(handle)).url)
    assert await read(await app.fetch(get())) == b"ok"
    answer = await app.fetch(get(on_interim=note))
    assert (answer.status, await read(answer), answer.reused) == (200, b"ok", True)
    assert seen == [(103, ((b"Link", b"</a>"),)), (102, ())]


async def test_55_interim_responses_without_end_are_a_502(fake, group, get, always) -> None:
    flood = b"HTTP/1.1 103 Hints\r\n\r\n" * (MAX_INTERIM + 1)
    app = await group((await fake(always(flood + OK))).url)
    error = await failure(app, get())
    assert (error.reason, error.detail) == (Reason.BAD_RESPONSE, Malformed.INTERIM_FLOOD.value)


async def test_56_an_unasked_101_is_a_502(fake, group, get, always) -> None:
    switch = b"HTTP/1.1 101 Switching\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n"
    app = await group((await fake(always(switch))).url)
    error = await failure(app, get())
    assert (error.status, error.detail) == (502, Malformed.SWITCHED.value)


@pytest.mark.parametrize("method", [b"GET", b"POST"])
@pytest.mark.parametrize("reset", [False, True])
async def test_59_a_connection_that_died_unused_costs_nothing(
    fake, group, get, read, method: bytes, reset: bool
) -> None:
    async def handle(peer) -> None:
        await peer.read_head()
        await peer.send(OK)
        await read_whole.wait()
        if reset:
            await peer.reset()
        ended.set()

    server = await fake(handle)
    app = await group(server.url)
    for _ in range(3):
        read_whole, ended = trio.Event(), trio.Event()
        assert await read(await app.fetch(get(method=method))) == b"ok"
        read_whole.set()
        await ended.wait()
        await trio.sleep(0.02)  # the end arrives
    assert (server.accepted, app.statistics()["resent"]) == (3, 0)


def resetting(after: int, answer: bytes = b""):
    """Answers `after` requests on each connection, then resets on the next."""

    async def handle(peer) -> None:
        for _ in range(after):
            await peer.read_head()
            await peer.send(OK)
        await peer.read_head()
        await peer.send(answer)
        if peer.number == 0:
            await peer.reset()
        await peer.send(OK)

    return handle


async def test_59_a_reset_on_a_reused_connection_is_retried_once_if_idempotent(
    fake, group, get, read
) -> None:
    server = await fake(resetting(after=1))
    app = await group(server.url)
    await read(await app.fetch(get()))
    answer = await app.fetch(get())
    assert (await read(answer), answer.reused, server.accepted) == (b"ok", False, 2)
    assert app.statistics()["resent"] == 1
    (statistics,) = app.statistics()["servers"].values()
    assert statistics["failed"] == 0  # it may close what is unused when it likes


async def test_59_the_retry_does_not_try_its_luck_with_another_old_connection(
    fake, group, get, read
) -> None:
    async def handle(peer) -> None:
        await peer.read_head()
        await trio.sleep(0.01)
        await peer.send(OK)
        await peer.read_head()
        if peer.number < 2:
            await peer.reset()
        await peer.send(OK)

    server = await fake(handle)
    app = await group(server.url)
    async with trio.open_nursery() as nursery:
        for _ in range(2):
            nursery.start_soon(app.fetch, get())
    assert (server.accepted, app.statistics()["servers"][server.url]["idle"]) == (2, 2)
    assert await read(await app.fetch(get())) == b"ok"
    assert server.accepted == 3


async def test_59_a_reset_on_a_reused_connection_is_a_502_if_it_may_have_done_something(
    fake, group, get, read
) -> None:
    server = await fake(resetting(after=1))
    app = await group(server.url)
    await read(await app.fetch(get()))
    error = await failure(app, get(method=b"POST", body=b"x"))
    assert (error.reason, error.status, server.accepted) == (Reason.RESET, 502, 1)


async def test_59_nothing_is_retried_once_an_octet_was_answered(fake, group, get) -> None:
    server = await fake(resetting(after=0, answer=b"HTTP/1.1 2"))
    app = await group(server.url)
    error = await failure(app, get())
    assert (error.reason, server.accepted) == (Reason.RESET, 1)


async def test_59_one_retry_and_no_more(fake, group, get) -> None:
    async def handle(peer) -> None:
        await peer.read_head()
        await peer.reset()

    server = await fake(handle)
    app = await group(server.url)
    error = await failure(app, get())
    assert (error.reason, error.status, server.accepted) == (Reason.RESET, 502, 2)


async def test_60_a_stall_before_the_head_is_a_504(fake, group, get) -> None:
    gone = trio.Event()

    async def handle(peer) -> None:
        await peer.read_head()
        await peer.send(b"HTTP/1.1 200 OK\r\n")
        await peer.read_all()
        gone.set()

    app = await group((await fake(handle)).url, head_timeout=0.05)
    error = await failure(app, get())
    assert (error.reason, error.status) == (Reason.HEAD_TIMEOUT, 504)
    with trio.fail_after(5):
        await gone.wait()


async def test_60_octets_that_trickle_do_not_move_the_deadline(fake, group, get) -> None:
    async def handle(peer) -> None:
        await peer.read_head()
        for octet in OK:
            await peer.send(bytes([octet]))
            await trio.sleep(0.02)

    app = await group((await fake(handle)).url, head_timeout=0.1)
    assert (await failure(app, get())).reason is Reason.HEAD_TIMEOUT


async def test_60_an_interim_response_moves_it(fake, group, get, read) -> None:
    async def handle(peer) -> None:
        await peer.read_head()
        for _ in range(4):
            await trio.sleep(0.05)
            await peer.send(b"HTTP/1.1 102 Processing\r\n\r\n")
        await peer.send(OK)

    app = await group((await fake(handle)).url, head_timeout=0.12)
    assert await read(await app.fetch(get())) == b"ok"


async def test_time_that_passing_on_takes_is_not_the_servers(fake, group, get, read) -> None:
    passed_on = trio.Event()

    async def handle(peer) -> None:
        await peer.read_head()
        await peer.send(b"HTTP/1.1 103 Hints\r\n\r\n")
        await passed_on.wait()
        await peer.send(OK)

    async def slowly(status: int, fields: object) -> None:
        await trio.sleep(0.1)
        passed_on.set()

    app = await group((await fake(handle)).url, head_timeout=0.05)
    assert await read(await app.fetch(get(on_interim=slowly))) == b"ok"


async def test_time_that_a_body_takes_is_not_the_heads(fake, group, get, read) -> None:
    async def handle(peer) -> None:
        for _ in range(2):
            await peer.read_head()
            await peer.send(OK[:-2])
            await trio.sleep(0.1)
            await peer.send(b"ok")

    server = await fake(handle)
    app = await group(server.url, head_timeout=0.05)
    for _ in range(2):
        assert await read(await app.fetch(get())) == b"ok"
    assert server.accepted == 1


async def test_time_between_exchanges_is_nobodys(fake, group, get, read) -> None:
    async def handle(peer) -> None:
        for _ in range(2):
            await peer.read_head()
            await peer.send(OK[:-2])
            await trio.sleep(0.01)
            await peer.send(b"ok")

    server = await fake(handle)
    app = await group(server.url, head_timeout=0.05, body_timeout=0.05)
    for _ in range(2):
        assert await read(await app.fetch(get())) == b"ok"
        await trio.sleep(0.1)
    assert server.accepted == 1


async def _hint(peer) -> None:
    await peer.read_head()
    await peer.send(b"HTTP/1.1 103 Hints\r\n\r\n" + OK)


async def test_what_passing_on_raises_is_not_taken_for_the_servers_fault(fake, group, get) -> None:
    async def broken(status: int, fields: object) -> None:
        raise OSError("the client is gone")

    app = await group((await fake(_hint)).url)
    with pytest.raises(OSError, match="client is gone"):
        await app.fetch(get(on_interim=broken))
    assert app.statistics()["servers"][app._servers[0].name]["active"] == 0


async def test_an_end_without_an_answer_is_a_502(fake, group, get) -> None:
    async def handle(peer) -> None:
        await peer.read_head()

    app = await group((await fake(handle)).url, retries=0)
    error = await failure(app, get())
    assert (error.reason, error.status) == (Reason.RESET, 502)


async def test_an_answer_sent_before_the_end_is_still_read(fake, group, get, read) -> None:
    """A server that answers, and resets because it did not want the rest."""

    async def handle(peer) -> None:
        await peer.read_head()
        await peer.send(b"HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\nno")
        await peer.stream.aclose()  # with octets unread: a reset

    async def endless():
        while True:
            yield bytes(65536)

    app = await group((await fake(handle)).url)
    answer = await app.fetch(get(method=b"POST", body=endless()))
    assert (answer.status, await read(answer)) == (413, b"no")
