"""Misses that take no task: the client, the store and the app server must not see a difference."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio
from msgspec.structs import replace

from edgebox.config.upstreams import Upstream
from edgebox.express.lane import Lane
from tests.origin import Call, Origin, listening, proxied, running
from tests.origin import before as configure_before
from tests.wire import Server, request

PRIVATE = "Cache-Control: private"
HOUR = "Cache-Control: max-age=3600"
BIG = b"b" * 300_000
# What is another one for each server, each request, or each second.
VARIES = re.compile(
    rb"(?<=X-Request-Id: )[0-9a-f]{32}|edgebox-[0-9a-f]+|(?<=Date: )[^\r]*20[2-9][1-9][^\r]*"
)

ANSWERS = {
    "private": ((PRIVATE, "X-A: 1"), 200, b"for you"),
    "stored": ((HOUR, 'ETag: "e"', "Content-Type: text/plain"), 200, b"for all"),
    "varies": ((HOUR, "Vary: Accept-Language"), 200, b"in words"),
    "cookie": ((HOUR, "Set-Cookie: a=b"), 200, b"biscuit"),
    "missing": ((), 404, b"no"),
    "failing": ((), 503, b"down"),
    "empty": ((HOUR,), 204, b""),
    "unchanged": ((), 304, b""),
    "dated": ((HOUR, "Date: Mon, 30 Nov 2020 10:00:00 GMT", "Age: 10"), 200, b"old"),
    "big": ((PRIVATE,), 200, BIG),
    "bigstored": ((HOUR,), 200, BIG),
    "file": ((PRIVATE, "X-Accel-Redirect: /secret"), 200, b"instead"),
}


async def app(call: Call) -> None:
    name = call.target.partition("?")[0].strip("/")
    if name in ANSWERS:
        fields, status, body = ANSWERS[name]
        await call.answer(*fields, status=status, body=body)
    elif name == "chunked":
        head = b"HTTP/1.1 200 OK\r\nCache-Control: private\r\nTransfer-Encoding: chunked\r\n\r\n"
        await call.send(head + b"4\r\none \r\n3\r\ntwo\r\n0\r\n\r\n")
    elif name == "closed":
        await call.send(b"HTTP/1.1 200 OK\r\nCache-Control: private\r\n\r\nto the end")
        await call.close()
    elif name == "slow":
        await call.send(b"HTTP/1.1 200 OK\r\nContent-Len")
        await trio.sleep(0.05)
        await call.send(b"gth: 4\r\nCache-Control: private\r\n\r\nsl")
        await trio.sleep(0.05)
        await call.send(b"ow")
    elif name == "hints":
        await call.send(b"HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\n")
        await call.answer(PRIVATE, body=b"hinted")
    elif name == "short":
        await call.answer(PRIVATE, body=b"12", length=5)
        await call.close()
    elif name == "surplus":
        await call.send(
            b"HTTP/1.1 200 OK\r\nCache-Control: private\r\nContent-Length: 2\r\n\r\nokmore"
        )
    elif name == "nonsense":
        await call.send(b"SMTP ready\r\n\r\n")
        await call.close()
    elif name == "reset":
        await call.reset()
    elif name == "silent":
        await trio.sleep_forever()


@asynccontextmanager
async def primed(
    express: bool, **tables: dict[str, object]
) -> AsyncIterator[tuple[Server, Origin]]:
    """edgebox with a kept connection to the app."""
    tables = {"server": {"express": express}} | tables
    async with proxied(app, **tables) as (server, origin):
        await server.get("/private?prime")
        origin.calls.clear()
        yield server, origin


async def tell(express: bool, target: str, *fields: str) -> tuple[bytes, bytes, list[bytes]]:
    """What a client gets twice in a row, and what the app was sent for it."""
    async with primed(express) as (server, origin):
        with trio.fail_after(10):
            answers = [
                await server.exchange(request(target, *fields, "Connection: close"))
                for _ in range(2)
            ]
            heads = [VARIES.sub(b"*", call.head) for call in origin.calls]
        return VARIES.sub(b"*", answers[0]), VARIES.sub(b"*", answers[1]), heads


SAME = [*ANSWERS, "chunked", "closed", "slow", "hints", "short", "surplus", "nonsense"]


@pytest.mark.parametrize("name", SAME)
async def test_the_lane_relays_what_a_task_would_octet_for_octet(name: str) -> None:
    by_task = await tell(False, f"/{name}?q=1")
    by_lane = await tell(True, f"/{name}?q=1")
    assert by_lane[:2] == by_task[:2]
    assert by_lane[2] == by_task[2]


@pytest.mark.parametrize(
    "fields",
    [
        ("Cookie: a=b", "Accept-Language: de"),
        ('If-None-Match: "e"',),
        ("Range: bytes=1-2",),
        ("Authorization: Basic eDp5",),
        ("Cache-Control: only-if-cached",),
        ("Cache-Control: no-cache",),
        ("Pragma: no-cache",),
        ("X-Forwarded-For: 1.2.3.4", "Forwarded: for=1.2.3.4"),
        ("Via: 1.1 other",),
        (
            "X-Request-Id: abc",
            "traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        ),
    ],
)
async def test_the_lane_forwards_what_a_task_would(fields: tuple[str, ...]) -> None:
    assert await tell(True, "/stored?q", *fields) == await tell(False, "/stored?q", *fields)


def relayed(server: Server) -> int:
    """How many misses were carried without a task."""
    counted = server.worker.caching.statistics()["cache"]
    assert isinstance(counted, dict)
    return int(counted.get("shortcuts", 0))


async def rest(server: Server) -> None:
    """Until nothing is under way any more, here or there."""
    with trio.fail_after(5):
        while busy(server):
            await trio.sleep(0.01)


def busy(server: Server) -> bool:
    assert isinstance(server.worker.front, Lane)
    statistics = server.worker.front.statistics()
    groups = server.worker.caching.groups.values()
    active = [s["active"] for g in groups for s in g.statistics()["servers"].values()]  # type: ignore[attr-defined]
    flights = server.worker.caching.statistics()["cache"]["flights"]  # type: ignore[index]
    return bool(statistics["tasks"] or statistics["waiting"] or any(active) or flights)


async def test_a_plain_miss_takes_no_task() -> None:
    async with primed(True) as (server, origin), server.connect() as client:
        for n in range(10):
            await client.send(request(f"/{'stored' if n % 2 else 'private'}?{n}"))
            assert (await client.read_answer()).status == 200
        assert (relayed(server), len(origin.calls)) == (10, 10)
        await client.send(request("/stored?1"))
        assert "hit" in (await client.read_answer()).headers["cache-status"]


@pytest.mark.parametrize("name", [*SAME, "reset"])
async def test_whatever_comes_of_it_nothing_is_left_behind(name: str) -> None:
    async with primed(True) as (server, _):
        before = await server.wait_rest()
        for n in range(3):
            await server.exchange(request(f"/{name}?{n}", "Connection: close"))
        await rest(server)
        after = await server.wait_rest()
        assert (after.tasks, after.descriptors) <= (before.tasks, before.descriptors)


@asynccontextmanager
async def holding(field: str = HOUR) -> AsyncIterator[tuple[Server, Origin, trio.Event]]:
    """edgebox with a kept connection to an app that answers /held once the event is set."""
    released = trio.Event()

    async def app(call: Call) -> None:
        if call.target == "/held":
            await released.wait()
        await call.answer(field, body=b"held")

    async with proxied(app) as (server, origin):
        await server.get("/prime")
        yield server, origin, released


async def heard(origin: Origin) -> None:
    """Until the app was asked for /held."""
    with trio.fail_after(5):
        while "GET /held" not in origin.seen:
            await trio.sleep(0.01)


async def test_who_asks_for_the_same_meanwhile_waits_for_the_same_answer() -> None:
    async with holding() as (server, origin, released):
        answers: list[bytes] = []

        async def ask() -> None:
            answers.append((await server.get("/held")).body)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask)
            await heard(origin)
            for _ in range(5):
                nursery.start_soon(ask)
            await trio.sleep(0.1)
            released.set()
        assert answers == [b"held"] * 6
        assert origin.seen.count("GET /held") == 1
        await rest(server)


async def test_a_client_that_leaves_does_not_end_it() -> None:
    async with holding() as (server, origin, released):
        async with server.connect() as client:
            await client.send(request("/held"))
            await heard(origin)
        released.set()
        await rest(server)
        assert "hit" in (await server.get("/held")).headers["cache-status"]


async def test_what_is_purged_meanwhile_is_not_stored() -> None:
    async with holding() as (server, origin, released), server.connect() as client:
        await client.send(request("/held"))
        await heard(origin)
        await server.get("/held", method="PURGE")
        released.set()
        assert (await client.read_answer()).body == b"held"
        assert "fwd" in (await server.get("/held")).headers["cache-status"]


async def test_the_next_request_of_a_client_waits_its_turn() -> None:
    async with primed(True) as (server, _), server.connect() as client:
        await client.send(request("/private?1"))
        await client.send(request("/stored?2") + request("/missing?3"))
        answers = [await client.read_answer() for _ in range(3)]
        assert [answer.body for answer in answers] == [b"for you", b"for all", b"no"]


async def test_a_server_that_is_silent_gets_its_time_and_no_more() -> None:
    async with listening(app) as origin:
        upstream = Upstream(servers=(origin.url,), head_timeout=0.3)
        config = replace(configure_before("app"), upstream={"app": upstream})
        async with running(config) as server:
            await server.get("/private?prime")
            with trio.fail_after(5):
                assert (await server.get("/silent")).status == 504
            await rest(server)


async def test_draining_waits_for_what_is_asked() -> None:
    async with holding(PRIVATE) as (server, origin, released), server.connect() as client:
        await client.send(request("/held"))
        await heard(origin)
        server.worker.service.drain()
        server.worker.front.drain()
        released.set()
        answer = await client.read_answer()
        assert (answer.body, answer.headers["connection"]) == (b"held", "close")
        with trio.fail_after(5):
            await server.worker.admission.wait_none()
