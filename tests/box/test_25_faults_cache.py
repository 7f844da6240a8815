"""FAULTS "Cache semantics": each class gets the named outcome, and leaves nothing behind."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest
import trio
from msgspec.structs import replace

from edgebox.cache.purges import Purge, Scope
from edgebox.config.upstreams import Upstream
from tests.origin import App, Call, Origin, ask_all, before, listening
from tests.wire import PATIENCE, Server, request, unharmed

HOUR = "Cache-Control: max-age=3600"
Cached = Callable[..., AbstractAsyncContextManager[tuple[Server, Origin]]]


@pytest.fixture(params=[True, False], ids=["lane", "tasks"])
def cached(request: pytest.FixtureRequest, tmp_path: Path) -> Cached:
    """A cache before an app that must come out of the block unharmed, lane or not."""

    @asynccontextmanager
    async def enter(app: App, **tables: dict[str, object]) -> AsyncIterator[tuple[Server, Origin]]:
        async def clean(call: Call) -> None:
            if call.target == "/":
                await call.answer("Cache-Control: no-store", body=b"clean")
                origin.calls.pop()
            else:
                await app(call)

        async with listening(clean) as origin:
            tables["server"] = {"express": request.param}
            config = before("app", **tables)
            upstream = Upstream(servers=(origin.url,), keep_alive=0, fail_after=1000)
            config = replace(config, upstream={"app": upstream})
            async with unharmed(config, tmp_path / "error.log") as server:
                yield server, origin
                await server.worker.caching.engine.purge(Purge(Scope.ALL))
                with trio.fail_after(PATIENCE):
                    while origin.open or server.worker.caching.engine.statistics()["flights"]:
                        await trio.sleep(0.002)

    return enter


async def wait_until(holds: Callable[[], bool]) -> None:
    with trio.fail_after(PATIENCE):
        while not holds():
            await trio.sleep(0.002)


async def test_63_a_client_that_led_and_left_does_not_end_the_fetch(cached: Cached) -> None:
    go_on = trio.Event()

    async def app(call: Call) -> None:
        await call.answer(HOUR, body=b"begin", length=8)
        await go_on.wait()
        await call.send(b"end")

    async with cached(app) as (server, origin):
        async with server.connect() as leader, server.connect() as follower:
            await leader.send(request("/a"))
            await wait_until(lambda: bool(origin.calls))
            await follower.send(request("/a"))
            await wait_until(lambda: server.worker.admission.tasks == 2)
            await leader.stream.aclose()
            await trio.sleep(0.05)  # its leaving is heard of, if anybody listens
            go_on.set()
            assert (await follower.read_answer()).body == b"beginend"
        assert (await server.get("/a")).body == b"beginend"
        assert len(origin.calls) == 1


async def test_63_a_part_is_never_stored_as_the_whole(cached: Cached) -> None:
    async def app(call: Call) -> None:
        await call.answer(HOUR, body=b"begin", length=8)
        await call.close()

    async with cached(app) as (server, origin):
        for _ in range(2):
            octets = await server.exchange(request("/a"))
            assert octets.endswith(b"\r\n\r\nbegin")
            assert b"Content-Length: 8\r\n" in octets
        assert len(origin.calls) == 2


async def test_64_what_is_for_one_client_makes_the_others_wait_once(cached: Cached) -> None:
    async def app(call: Call) -> None:
        if len(origin.calls) == 1:
            await wait_until(lambda: server.worker.admission.tasks == 10)
        else:
            await wait_until(lambda: len(origin.calls) == 10)  # so they are asked in parallel
        await call.answer("Cache-Control: private", body=b"x")

    async with cached(app) as (server, origin):
        assert {a.body for a in await ask_all(server, 10, "/a")} == {b"x"}
        assert len(origin.calls) == 10


async def test_65_a_cookie_is_never_replayed(cached: Cached) -> None:
    async def app(call: Call) -> None:
        await call.answer(HOUR, f"Set-Cookie: id={len(origin.calls)}", body=b"x")

    async with cached(app) as (server, origin):
        cookies = [(await server.get("/a")).headers["set-cookie"] for _ in range(3)]
        assert cookies == ["id=1", "id=2", "id=3"]


@pytest.mark.parametrize(
    ("control", "shared"),
    [
        ("max-age=60", False),
        ("max-age=60, private", False),
        ("max-age=60, public", True),
        ("s-maxage=60", True),
        ("max-age=60, must-revalidate", True),
    ],
)
async def test_66_what_was_authorised_is_shared_only_where_it_says_so(
    cached: Cached, control: str, shared: bool
) -> None:
    async def app(call: Call) -> None:
        await call.answer(f"Cache-Control: {control}", body=call.headers["authorization"].encode())

    async with cached(app) as (server, _):
        assert (await server.get("/a", "Authorization: one")).body == b"one"
        assert (await server.get("/a", "Authorization: two")).body == (b"one" if shared else b"two")


@pytest.mark.parametrize("vary", [("*",), (", *",), ("Accept", "*"), ("*, Accept",), ("", "*")])
async def test_67_vary_star_is_never_used_again(cached: Cached, vary: tuple[str, ...]) -> None:
    async def app(call: Call) -> None:
        await call.answer(HOUR, *(f"Vary: {value}" for value in vary),
                          body=b"%d" % len(origin.calls))  # fmt: skip

    async with cached(app) as (server, origin):
        assert [(await server.get("/a")).body for _ in range(3)] == [b"1", b"2", b"3"]


async def test_68_variants_are_capped(cached: Cached) -> None:
    async def app(call: Call) -> None:
        await call.answer(HOUR, "Vary: User-Agent, Accept-Encoding", body=b"x" * 100)

    async with cached(app, cache={"variants": 4}) as (server, _):
        engine = server.worker.caching.engine
        for number in range(20):
            await server.get("/a", f"User-Agent: {number}")
            assert engine.statistics()["answers"] <= 4


async def test_68_spellings_of_accept_encoding_make_no_variants(cached: Cached) -> None:
    async def app(call: Call) -> None:
        await call.answer(HOUR, "Vary: Accept-Encoding", "Content-Encoding: gzip", body=b"zzz")

    async with cached(app) as (server, origin):
        for spelling in ("gzip", "GZIP", "gzip, deflate", "gzip;q=0.8", "x-gzip , deflate"):
            assert (await server.get("/a", f"Accept-Encoding: {spelling}")).body == b"zzz"
        assert len(origin.calls) == 1


@pytest.mark.parametrize(
    "name", ["X-Forwarded-Host", "X-Original-URL", "X-Host", "X-Forwarded-Scheme", "Forwarded"]
)
async def test_69_what_no_key_covers_does_not_reach_the_app(cached: Cached, name: str) -> None:
    async def app(call: Call) -> None:
        await call.answer(HOUR, body=call.head)

    async with cached(app) as (server, _):
        poisoned = await server.get("/a", f"{name}: evil.example")
        assert b"evil" not in poisoned.body
        assert b"evil" not in (await server.get("/a")).body


async def test_70_a_name_that_looks_static_makes_nothing_cacheable(cached: Cached) -> None:
    async def app(call: Call) -> None:
        await call.answer("Content-Type: text/html", body=call.headers["cookie"].encode())

    async with cached(app) as (server, _):
        for target in ("/me/a.css", "/me;a.js", "/me%3Ba.css", "/me.png"):
            for visitor in ("one", "two"):
                assert (await server.get(target, f"Cookie: {visitor}")).body == visitor.encode()


async def test_70_paths_are_told_apart_as_they_were_sent(cached: Cached) -> None:
    async def app(call: Call) -> None:
        await call.answer(HOUR, body=call.target.encode())

    async with cached(app) as (server, _):
        for target in ("/a;b", "/a%3Bb", "/a%3bb", "/%61;b", "//a;b", "/a;b?", "/a;b"):
            assert (await server.get(target)).body == target.encode()


@pytest.mark.parametrize(
    ("status", "kept"),
    [(400, False), (413, False), (431, False), (403, False), (500, False), (404, True), (410, True),
     (405, True), (414, True), (501, True)],
)  # fmt: skip
async def test_71_an_error_that_one_client_provoked_is_not_guessed_to_be_for_all(
    cached: Cached, status: int, kept: bool
) -> None:
    async def app(call: Call) -> None:
        await call.answer("Last-Modified: Mon, 30 Nov 1998 10:00:00 GMT", status=status, body=b"x")

    async with cached(app) as (server, origin):
        for _ in range(2):
            assert (await server.get("/a", "X-Odd: " + "x" * 1000)).status == status
        assert len(origin.calls) == (1 if kept else 2)


async def test_72_what_connection_names_goes_no_further(cached: Cached) -> None:
    async def app(call: Call) -> None:
        await call.answer(
            HOUR, "Connection: X-Internal", "X-Internal: 1", "X-Kept: 2", body=call.head
        )

    async with cached(app) as (server, _):
        for _ in range(2):
            answer = await server.get("/a", "Connection: X-Auth, Via, X-Forwarded-For", "X-Auth: 1")
            assert b"X-Auth" not in answer.body
            assert b"\r\nVia: 1.1 edgebox" in answer.body
            assert b"\r\nX-Forwarded-For: 127.0.0.1\r\n" in answer.body
            assert "x-internal" not in answer.headers
            assert answer.headers["x-kept"] == "2"


async def test_73_neither_head_nor_a_part_becomes_a_stored_get(cached: Cached) -> None:
    async def app(call: Call) -> None:
        if call.target == "/part":
            await call.answer(HOUR, "Content-Range: bytes 0-3/8", status=206, body=b"half")
        else:
            await call.answer(HOUR, body=b"all of it")

    async with cached(app) as (server, origin):
        await server.get("/a", method="HEAD")
        assert (await server.get("/a")).body == b"all of it"
        for _ in range(2):
            assert (await server.get("/part")).status == 206
        assert origin.seen == ["HEAD /a", "GET /a", "GET /part", "GET /part"]


@pytest.mark.parametrize("status", [103, 304])
async def test_73_nor_does_an_answer_that_is_none(cached: Cached, status: int) -> None:
    async def app(call: Call) -> None:
        if status == 103:
            await call.send(b"HTTP/1.1 103 Early Hints\r\n" + HOUR.encode() + b"\r\n\r\n")
            await call.answer("Cache-Control: no-store", body=b"x")
        else:
            await call.answer(HOUR, 'ETag: "1"', status=304)

    async with cached(app) as (server, origin):
        for _ in range(2):
            assert (await server.get("/a")).status == (200 if status == 103 else 304)
        assert len(origin.calls) == 2


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE"])
async def test_74_a_change_outdates_what_is_stored(cached: Cached, method: str) -> None:
    async def app(call: Call) -> None:
        await call.answer(HOUR, body=b"%d" % len(origin.calls))

    async with cached(app) as (server, origin):
        for _ in range(3):
            assert (await server.get("/a")).body == b"1"
        await server.get("/a", method=method)
        assert (await server.get("/a")).body == b"3"


async def test_75_a_foreign_purge_is_refused(cached: Cached) -> None:
    async def app(call: Call) -> None:
        await call.answer(HOUR, body=b"%d" % len(origin.calls))

    async with cached(app, cache={"purge_from": ("192.0.2.0/24",)}) as (server, origin):
        await server.get("/a")
        for fields in ((), ("Purge-Scope: everything",), ("Surrogate-Key: x",)):
            assert (await server.get("/a", *fields, method="PURGE")).status == 403
        assert (await server.get("/a")).body == b"1"
        assert len(origin.calls) == 1


@pytest.mark.parametrize(
    ("lines", "calls"),
    [
        (("Date: Mon, 30 Nov 1998 10:00:00 GMT",), 2),  # old on arrival
        (("Date: Mon, 30 Nov 2099 10:00:00 GMT",), 1),  # from the future: just now
        (("Date: nonsense",), 1),
        (("Age: 4000",), 2),
        (("Age: -4000",), 1),
        (("Age: nonsense",), 1),
        (("Age: " + "9" * 300,), 2),
        (("Expires: Mon, 30 Nov 2099 10:00:00 GMT", "Age: 4000"), 2),
    ],
)
async def test_76_absurd_ages_and_dates_harm_nobody(
    cached: Cached, lines: tuple[str, ...], calls: int
) -> None:
    async def app(call: Call) -> None:
        await call.answer(HOUR, *lines, body=b"x")

    async with cached(app) as (server, origin):
        for _ in range(2):
            answer = await server.get("/a")
            assert answer.status == 200
        assert len(origin.calls) == calls
        if calls == 1:
            assert answer.headers["age"] in ("0", "1")
