"""FAULTS "Upstream", as clients of a cache see it: what it makes of an app that goes wrong.

What a single exchange makes of it is tested in tests/upstream, under the same numbers.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import pytest
import trio
from msgspec.structs import replace

from edgebox.config.upstreams import Upstream
from tests.origin import App, Call, Origin, age, before, listening, running
from tests.wire import Server, request

HOUR = "Cache-Control: max-age=3600"
Behind = Callable[..., AbstractAsyncContextManager[tuple[Server, Origin]]]


@pytest.fixture(params=[True, False], ids=["lane", "tasks"])
def behind(request: pytest.FixtureRequest) -> Behind:
    """A cache before an app, lane or not, whose next clean request must succeed.

    behind(app, head_timeout=1) changes keys of the upstream.
    """

    @asynccontextmanager
    async def enter(app: App, **keys: float) -> AsyncIterator[tuple[Server, Origin]]:
        async def clean(call: Call) -> None:
            if call.target == "/clean":
                await call.answer("Cache-Control: no-store", body=b"clean")
            else:
                await app(call)

        async with listening(clean) as origin:
            upstream = Upstream(servers=(origin.url,), fail_after=1000, **keys)
            config = before("app", server={"express": request.param})
            async with running(replace(config, upstream={"app": upstream})) as server:
                yield server, origin
                assert (await server.get("/clean")).body == b"clean"
                assert server.worker.caching.engine.statistics()["flights"] == 0

    return enter


async def test_50_51_what_was_cut_off_is_cut_off_and_not_stored(behind: Behind) -> None:
    async def app(call: Call) -> None:
        if call.target == "/length":
            await call.answer(HOUR, body=b"part", length=10)
        else:
            await call.begin(HOUR)
            await call.chunk(b"part")
        await call.close()

    async with behind(app) as (server, origin):
        for target, end in (("/length", b"\r\n\r\npart"), ("/chunks", b"4\r\npart\r\n")) * 2:
            assert (await server.exchange(request(target))).endswith(end)
        assert len(origin.calls) == 4


async def test_52_octets_beyond_the_body_answer_nobody(behind: Behind) -> None:
    async def app(call: Call) -> None:
        await call.answer(HOUR, body=b"right" + b"HTTP/1.1 200 OK\r\n\r\nwrong", length=5)

    async with behind(app) as (server, origin):
        assert [(await server.get(target)).body for target in ("/a", "/b", "/a")] == [b"right"] * 3
        assert origin.seen == ["GET /a", "GET /b"]


@pytest.mark.parametrize(
    "octets",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 1_0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1, 2\r\n\r\n",
        b"HTTP/1.1 2x0 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nA: b\0c\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nA: " + b"b" * 100_000 + b"\r\n\r\n",
        b"220 mail.example.com ESMTP\r\n",
    ],
    ids=["length", "lengths", "status", "nul", "giant", "banner"],
)
async def test_53_54_an_answer_that_is_none_is_a_502(behind: Behind, octets: bytes) -> None:
    async def app(call: Call) -> None:
        await call.send(octets)

    async with behind(app) as (server, origin):
        assert [(await server.get("/a")).status for _ in range(2)] == [502, 502]
        assert len(origin.calls) == 2


async def test_55_only_the_final_answer_is_stored(behind: Behind) -> None:
    async def app(call: Call) -> None:
        await call.send(b"HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\n" * 3)
        await call.answer(HOUR, body=b"final")

    async with behind(app) as (server, origin):
        for _ in range(2):
            octets = await server.exchange(request("/a", "Connection: close"))
            assert octets.endswith(b"\r\n\r\nfinal")
        assert octets.startswith(b"HTTP/1.1 200 OK\r\n")
        assert len(origin.calls) == 1


async def test_56_a_switch_that_nobody_asked_for_is_a_502(behind: Behind) -> None:
    async def app(call: Call) -> None:
        await call.send(b"HTTP/1.1 101 So\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n")

    async with behind(app) as (server, _):
        assert (await server.get("/a")).status == 502


async def test_57_a_304_about_nothing_stored_is_asked_again_without_conditions(
    behind: Behind,
) -> None:
    async def app(call: Call) -> None:
        tag, conditional = f'ETag: "{len(origin.calls)}"', "if-none-match" in call.headers
        if conditional:
            await call.answer(HOUR, 'ETag: "another"', status=304)
        else:
            await call.answer(HOUR, tag, body=b"%d" % len(origin.calls))

    async with behind(app) as (server, origin):
        await server.get("/a")
        age(server, 4000)
        assert (await server.get("/a")).body == b"3"
        assert ["if-none-match" in call.headers for call in origin.calls] == [False, True, False]


@pytest.mark.parametrize("more", [(), ("Content-Length: 0",), ("Content-Length: 77",)])
async def test_58_a_304_says_nothing_of_the_length(behind: Behind, more: tuple[str, ...]) -> None:
    async def app(call: Call) -> None:
        if "if-none-match" in call.headers:
            await call.answer(HOUR, 'ETag: "a"', *more, status=304)
        else:
            await call.answer(HOUR, 'ETag: "a"', body=b"twelve bytes")

    async with behind(app) as (server, origin):
        for _ in range(2):
            for _ in range(2):
                answer = await server.get("/a")
                assert (answer.body, answer.headers["content-length"]) == (b"twelve bytes", "12")
            age(server, 4000)
        assert len(origin.calls) == 2


async def test_59_a_connection_that_died_is_replaced_once(behind: Behind) -> None:
    async def app(call: Call) -> None:
        if call.target == "/first" or len(origin.calls) > 2:
            await call.answer(body=b"answered")
        else:
            await call.reset()

    async with behind(app) as (server, origin):
        assert (await server.get("/first")).body == b"answered"
        assert (await server.get("/second")).body == b"answered"
        assert len(origin.calls) == 3


@pytest.mark.slow
async def test_60_a_stall_before_the_head_is_a_504(behind: Behind) -> None:
    async def app(call: Call) -> None:
        await trio.sleep_forever()

    async with behind(app, head_timeout=1.0) as (server, origin):
        assert (await server.get("/a")).status == 504
        assert len(origin.calls) == 1


async def test_61_stale_answers_stand_in_within_their_window_only(behind: Behind) -> None:
    async def app(call: Call) -> None:
        if len(origin.calls) == 1:
            await call.answer("Cache-Control: max-age=1, stale-if-error=60", body=b"good")
        else:
            await call.answer(status=503, body=b"down")

    async with behind(app) as (server, origin):
        await server.get("/a")
        age(server, 30)
        assert (await server.get("/a")).body == b"good"
        age(server, 60)
        assert (await server.get("/a")).status == 503


@pytest.mark.parametrize("field", ["Via: 1.1 {}", "CDN-Loop: {}"])
async def test_62_a_request_that_was_here_already_is_refused(behind: Behind, field: str) -> None:
    async def app(call: Call) -> None:
        await call.answer(HOUR, body=b"x")

    async with behind(app) as (server, origin):
        await server.get("/a")
        name = origin.calls[0].headers["via"].split()[1]
        assert (await server.get("/b", field.format(name))).status == 508
        assert (await server.get("/c", field.format("another"))).status == 200
        assert origin.seen == ["GET /a", "GET /c"]
