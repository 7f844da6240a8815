"""One fetch for all who ask at once: who joins, who leaves, who is better off alone."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import trio

from edgebox.cache.purges import Purge, Scope
from tests.origin import Call, age, ask_all, proxied
from tests.wire import PATIENCE, Client, Server, request

HOUR = "Cache-Control: max-age=3600"


async def wait_until(holds: Callable[[], bool]) -> None:
    with trio.fail_after(PATIENCE):
        while not holds():
            await trio.sleep(0.002)


def waiting(server: Server) -> int:
    """Requests in hand."""
    return server.worker.admission.tasks


async def read_until(client: Client, octets: bytes) -> bytes:
    """What comes, up to and with `octets`."""
    with trio.fail_after(PATIENCE):
        while octets not in client.buffer:
            data = await client.stream.receive_some(65536)
            assert data, client.buffer
            client.buffer += data
    taken, _, client.buffer = client.buffer.partition(octets)
    return taken + octets


@pytest.mark.slow
async def test_a_hundred_clients_ask_and_the_app_is_asked_once() -> None:
    async def app(call: Call) -> None:
        await wait_until(lambda: waiting(server) == 100)
        await call.answer(HOUR, body=b"for all")

    async with proxied(app) as (server, origin):
        answers = await ask_all(server, 100, "/cold")
        assert {answer.body for answer in answers} == {b"for all"}
        assert len(origin.calls) == 1
        stored = [a for a in answers if "stored" in a.headers["cache-status"]]
        collapsed = [a for a in answers if "; collapsed" in a.headers["cache-status"]]
        assert (len(stored), len(collapsed)) == (1, 99)


async def test_followers_get_each_piece_as_it_arrives() -> None:
    go_on = trio.Event()

    async def app(call: Call) -> None:
        await call.begin(HOUR)
        await call.chunk(b"first")
        await go_on.wait()
        await call.chunk(b"second")
        await call.chunk(b"")

    async with proxied(app) as (server, origin):
        async with server.connect() as one, server.connect() as two, server.connect() as three:
            for client in (one, two):
                await client.send(request("/a"))
                await read_until(client, b"first\r\n")
            # Who comes late joins, and gets what came before.
            await three.send(request("/a"))
            head = await read_until(three, b"first\r\n")
            assert b"collapsed" in head
            assert len(origin.calls) == 1
            go_on.set()
            for client in (one, two, three):
                await read_until(client, b"second\r\n0\r\n\r\n")
        assert (await server.get("/a")).body == b"firstsecond"
        assert len(origin.calls) == 1


async def test_the_fetch_goes_on_when_the_client_that_led_has_left() -> None:
    go_on = trio.Event()

    async def app(call: Call) -> None:
        await call.answer(HOUR, body=b"first", length=15)
        await go_on.wait()
        await call.send(b"secondlast")

    async with proxied(app) as (server, origin):
        async with server.connect() as follower:
            async with server.connect() as leader:
                await leader.send(request("/a"))
                await read_until(leader, b"first")
                await follower.send(request("/a"))
                await read_until(follower, b"first")
            go_on.set()
            await read_until(follower, b"secondlast")
        assert (await server.get("/a")).body == b"firstsecondlast"
        assert len(origin.calls) == 1


async def test_the_fetch_is_stored_though_everybody_has_left() -> None:
    go_on = trio.Event()

    async def app(call: Call) -> None:
        await call.answer(HOUR, body=b"first", length=11)
        await go_on.wait()
        await call.send(b"second")

    async with proxied(app) as (server, origin):
        async with server.connect() as leader:
            await leader.send(request("/a"))
            await read_until(leader, b"first")
        go_on.set()
        await wait_until(lambda: server.worker.caching.engine.statistics()["answers"] == 1)
        assert (await server.get("/a")).body == b"firstsecond"
        assert len(origin.calls) == 1


async def test_an_answer_for_one_releases_the_others_in_parallel_and_is_remembered() -> None:

    async def app(call: Call) -> None:
        number = len(origin.calls)
        if number == 1:
            await wait_until(lambda: waiting(server) == 20)
        else:  # all others are asked for before one of them is answered
            await wait_until(lambda: len(origin.calls) >= (20 if number <= 20 else 23))
        await call.answer("Cache-Control: private", body=b"x")

    async with proxied(app) as (server, origin):
        answers = await ask_all(server, 20, "/mine")
        assert len(origin.calls) == 20
        assert all("collapsed" not in a.headers["cache-status"] for a in answers)
        await ask_all(server, 3, "/mine")  # for a while nobody waits for another
        assert len(origin.calls) == 23


async def test_after_that_while_they_wait_for_each_other_again() -> None:
    async def app(call: Call) -> None:
        if call.target == "/was-private" and len(origin.calls) == 1:
            await call.answer("Cache-Control: private")
        else:
            await wait_until(lambda: waiting(server) == 4)  # the first of them, in the lane
            await call.answer(HOUR, body=b"x")

    async with proxied(app, cache={"pass_for": 10.0}) as (server, origin):
        await server.get("/was-private")
        age(server, 11)
        await ask_all(server, 5, "/was-private")
        assert len(origin.calls) == 2


async def test_a_request_that_spoils_an_answer_does_not_spoil_it_for_others() -> None:
    """What is not stored for the request's sake says nothing of the URL."""

    async def app(call: Call) -> None:
        await call.answer(HOUR, body=b"x")

    async with proxied(app) as (server, origin):
        await server.get("/a", "Authorization: Basic eDp5")
        assert server.worker.caching.engine.statistics()["passes"] == 0
        await server.get("/a")
        await server.get("/a")
        assert len(origin.calls) == 2


@pytest.mark.parametrize("field", ["Authorization: Basic eDp5", "Cache-Control: no-store"])
async def test_nobody_waits_for_a_request_whose_answer_is_its_own(field: str) -> None:
    async def app(call: Call) -> None:
        await wait_until(lambda: len(origin.calls) == 3)
        await call.answer(HOUR, body=b"x")

    async with proxied(app) as (server, origin), trio.open_nursery() as nursery:
        nursery.start_soon(server.get, "/a", field)
        await wait_until(lambda: len(origin.calls) == 1)
        nursery.start_soon(server.get, "/a")
        nursery.start_soon(server.get, "/a", field)
    assert len(origin.calls) == 3


async def test_variants_of_a_cold_url_are_fetched_once_each_and_at_the_same_time() -> None:
    """Who learns from the first answer that it is not for them is not served one by one."""
    languages = ("de", "fr", "it")

    async def app(call: Call) -> None:
        if len(origin.calls) == 1:
            await wait_until(lambda: waiting(server) == 30)
        else:
            await wait_until(lambda: len(origin.calls) == 3)
        language = call.headers["accept-language"]
        await call.answer(HOUR, "Vary: Accept-Language", body=language.encode())

    async with proxied(app) as (server, origin):
        bodies: dict[str, set[bytes]] = {language: set() for language in languages}

        async def ask(language: str) -> None:
            bodies[language].add((await server.get("/a", f"Accept-Language: {language}")).body)

        with trio.fail_after(PATIENCE):
            async with trio.open_nursery() as nursery:
                for language in languages * 10:
                    nursery.start_soon(ask, language)
        assert bodies == {language: {language.encode()} for language in languages}
        assert len(origin.calls) == 3


async def test_who_asks_for_a_fresh_answer_joins_no_fetch_that_was_begun_before() -> None:
    async def app(call: Call) -> None:
        await wait_until(lambda: len(origin.calls) == 2)
        await call.answer(HOUR, body=call.headers.get("cache-control", "-").encode())

    async with proxied(app) as (server, origin), trio.open_nursery() as nursery:
        nursery.start_soon(server.get, "/a")
        await wait_until(lambda: len(origin.calls) == 1)
        assert (await server.get("/a", "Cache-Control: no-cache")).body == b"no-cache"


async def test_what_must_be_validated_each_time_is_validated_for_each() -> None:
    async def app(call: Call) -> None:
        await wait_until(lambda: waiting(server) == 3 or len(origin.calls) > 1)
        await call.answer("Cache-Control: no-cache", 'ETag: "1"', body=b"x")

    async with proxied(app) as (server, origin):
        await ask_all(server, 3, "/a")
        assert len(origin.calls) == 3


async def test_what_is_stale_on_arrival_satisfies_those_who_waited_for_it() -> None:
    async def app(call: Call) -> None:
        await wait_until(lambda: waiting(server) == 10)
        await call.answer("Cache-Control: max-age=0", 'ETag: "1"', body=b"x")

    async with proxied(app) as (server, origin):
        answers = await ask_all(server, 10, "/a")
        assert {a.body for a in answers} == {b"x"}
        assert len(origin.calls) == 1


@pytest.mark.parametrize("failure", ["reset", "garbage"])
async def test_a_fetch_that_fails_fails_for_all_who_waited(failure: str) -> None:
    async def app(call: Call) -> None:
        await wait_until(lambda: waiting(server) == 10)
        if failure == "reset":
            await call.reset()
        else:
            await call.send(b"HTTP/1.1 OK\r\n\r\n")

    async with proxied(app) as (server, _):
        answers = await ask_all(server, 10, "/a")
        assert {a.status for a in answers} == {502}


async def test_followers_of_a_failure_get_what_is_stale() -> None:
    async def app(call: Call) -> None:
        if len(origin.calls) == 1:
            await call.answer("Cache-Control: max-age=1, stale-if-error=600", body=b"good")
        else:
            await wait_until(lambda: waiting(server) == 10)
            await call.answer(status=503)

    async with proxied(app) as (server, origin):
        await server.get("/a")
        age(server, 60)
        answers = await ask_all(server, 10, "/a")
        assert {a.body for a in answers} == {b"good"}
        assert len(origin.calls) == 2


@pytest.mark.parametrize("kind", ["length", "chunked"])
async def test_a_body_cut_off_is_cut_off_for_all_and_never_stored(kind: str) -> None:
    async def app(call: Call) -> None:
        await wait_until(lambda: waiting(server) == 5)
        if kind == "length":
            await call.answer(HOUR, body=b"12345", length=10)
        else:
            await call.begin(HOUR)
            await call.chunk(b"12345")
        await call.close()

    async with proxied(app) as (server, origin):
        ends: list[bytes] = []

        async def ask() -> None:
            ends.append(await server.exchange(request("/a")))

        with trio.fail_after(PATIENCE):
            async with trio.open_nursery() as nursery:
                for _ in range(5):
                    nursery.start_soon(ask)
        for octets in ends:
            # Complete to nobody: too short for its length, or without a last chunk.
            assert octets.endswith(b"12345" if kind == "length" else b"5\r\n12345\r\n")
        assert len(origin.calls) == 1
        statistics = server.worker.caching.engine.statistics()
        assert (statistics["answers"], statistics["flights"]) == (0, 0)


@pytest.mark.parametrize(
    "purge",
    [
        Purge(Scope.KEY, b"http://x/a"),
        Purge(Scope.PREFIX, b"http://x/"),
        Purge(Scope.TAG, b"t"),
        Purge(Scope.TAG, b"t", soft=True),
        Purge(Scope.ALL),
    ],
    ids=lambda purge: purge.scope.value,
)
async def test_what_was_asked_for_before_a_purge_is_neither_stored_nor_joined_after_it(
    purge: Purge,
) -> None:
    go_on = trio.Event()

    async def app(call: Call) -> None:
        number = len(origin.calls)
        if number == 1:
            await go_on.wait()
        await call.answer(HOUR, "Surrogate-Key: t", body=b"%d" % number)

    async with proxied(app) as (server, origin), trio.open_nursery() as nursery:
        nursery.start_soon(server.get, "/a")
        await wait_until(lambda: len(origin.calls) == 1)
        await server.worker.caching.engine.purge(purge)
        assert (await server.get("/a")).body == b"2"
        go_on.set()
        await wait_until(lambda: waiting(server) == 0)
        assert (await server.get("/a")).body == b"2"
        assert len(origin.calls) == 2


async def test_a_get_after_a_post_does_not_join_a_fetch_from_before_it() -> None:
    go_on = trio.Event()

    async def app(call: Call) -> None:
        if call.method == "GET" and len(origin.calls) == 1:
            await go_on.wait()
            await call.answer(HOUR, body=b"before")
        else:
            await call.answer(HOUR, body=b"after")

    async with proxied(app) as (server, origin), trio.open_nursery() as nursery:
        nursery.start_soon(server.get, "/a")
        await wait_until(lambda: len(origin.calls) == 1)
        await server.get("/a", method="POST")
        assert (await server.get("/a")).body == b"after"
        go_on.set()
        await wait_until(lambda: waiting(server) == 0)
        assert (await server.get("/a")).body == b"after"


# --- more than fits in RAM, and no disk ---------------------------------------------------------

PIECE = b"p" * 10_000


async def pour(call: Call, pieces: int) -> None:
    """A body of which nobody can tell the length beforehand."""
    await call.begin(HOUR)
    for number in range(pieces):
        await call.chunk(b"%06d" % number + PIECE[6:])
    await call.chunk(b"")


@pytest.mark.slow
async def test_a_window_moves_on_and_stays_bounded() -> None:
    held: list[int] = []

    async def app(call: Call) -> None:
        await pour(call, 300)

    async with proxied(app, cache={"object_size": 50_000}) as (server, origin):
        answers = []

        async def ask() -> None:
            answers.append(await server.get("/big"))

        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(ask)
            account = server.worker.ledger.account("fetches")
            while len(answers) < 3:
                held.append(account.held)
                await trio.lowlevel.checkpoint()
        assert {len(a.body) for a in answers} == {3_000_000}
        assert {a.body[-10_000:-9_994] for a in answers} == {b"000299"}
        # Not more than the window and what one read of a socket brings, for each fetch.
        assert max(held) <= len(origin.calls) * (50_000 + 65_536)
        assert server.worker.caching.engine.statistics()["answers"] == 0
        assert account.held == 0


@pytest.mark.slow
async def test_a_client_that_does_not_read_holds_the_app_up_and_not_our_memory() -> None:
    sent = 0

    async def app(call: Call) -> None:
        nonlocal sent
        await call.begin(HOUR)
        for _ in range(10_000):
            await call.chunk(PIECE)
            sent += len(PIECE)

    async with proxied(app, cache={"object_size": 50_000}) as (server, _):
        async with server.connect() as client:
            await client.send(request("/big"))
            await trio.sleep(1)
            first = sent
            await trio.sleep(0.5)
            assert sent == first < 50_000_000  # kernel buffers and a window, then nothing
            assert server.worker.ledger.account("fetches").held <= 50_000 + 65_536
        await wait_until(lambda: server.worker.ledger.account("fetches").held == 0)


async def test_who_comes_when_the_beginning_is_gone_gets_a_fetch_of_its_own() -> None:
    go_on = trio.Event()

    async def app(call: Call) -> None:
        await call.begin(HOUR)
        for _ in range(20):
            await call.chunk(PIECE)
        await go_on.wait()
        await call.chunk(b"")

    async with proxied(app, cache={"object_size": 50_000}) as (server, origin):
        async with server.connect() as one, server.connect() as two:
            await one.send(request("/big"))
            await read_until(one, PIECE[:100])
            with trio.fail_after(PATIENCE):
                while len(one.buffer) < 180_000:
                    one.buffer += await one.stream.receive_some(65536)
            await two.send(request("/big"))
            await wait_until(lambda: len(origin.calls) == 2)
            go_on.set()
            assert len((await two.read_answer()).body) == 200_000
