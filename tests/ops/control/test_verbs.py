"""What a worker does for operators, asked through a wire: a whole worker before a real app."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio

from edgebox.ops.control.jsonlines import Message
from edgebox.ops.control.wire import Refused
from tests.origin import Call, Origin, proxied
from tests.wire import Server, request

HOUR = "Cache-Control: max-age=3600"
TARGETS = ("/a", "/b", "/b?x=1", "/blog/1")


async def app(call: Call) -> None:
    tag = {"/a": "one two", "/b": "two"}.get(call.target, "three")
    await call.answer(HOUR, f"Surrogate-Key: {tag}", f"X-Tag: {tag}", body=call.target.encode())


@asynccontextmanager
async def filled(**tables: dict[str, object]) -> AsyncIterator[tuple[Server, Origin]]:
    async with proxied(app, **tables) as (server, origin):
        for target in TARGETS:
            await server.get(target)
        yield server, origin


async def stored(server: Server) -> set[str]:
    found = set()
    for target in TARGETS:
        answer = await server.get(target, "Cache-Control: only-if-cached")
        if "hit" in answer.headers["cache-status"]:
            found.add(target)
    return found


@pytest.mark.parametrize(
    ("order", "gone"),
    [
        ({"urls": ["http://x/a"]}, {"/a"}),
        ({"urls": ["http://x/a", "http://x/b?x=1", "http://x:80/none"]}, {"/a", "/b?x=1"}),
        ({"prefixes": ["http://x/b"]}, {"/b", "/b?x=1", "/blog/1"}),
        ({"prefixes": ["http://x/blog/*", "http://other/"]}, {"/blog/1"}),
        ({"tags": ["two"]}, {"/a", "/b"}),
        ({"everything": True}, set(TARGETS)),
        ({"urls": ["http://x/a"], "tags": ["three"]}, {"/a", "/b?x=1", "/blog/1"}),
        ({"purges": [{"scope": "prefix", "value": "http://x/bl", "soft": False}]}, {"/blog/1"}),
        ({"purges": [{"scope": "ban", "value": "path = /a", "soft": False}]}, {"/a"}),
    ],
)
async def test_purge(order: Message, gone: set[str]) -> None:
    async with filled() as (server, _):
        told = await server.worker.verbs().purge(order)
        assert told == {"purged": len(gone)}
        assert await stored(server) == set(TARGETS) - gone


@pytest.mark.parametrize(
    ("order", "why"),
    [
        ({}, "does not say what to purge"),
        ({"urls": "http://x/a"}, '"urls" is to be a list'),
        ({"everything": "false"}, '"everything" is to be true or false'),
        ({"everything": 1}, '"everything" is to be true or false'),
        ({"urls": ["http://x/a"], "soft": "no"}, '"soft" is to be true or false'),
        ({"urls": [7]}, "7 is to be a text"),
        ({"urls": ["/a"]}, "is no URL"),
        ({"urls": ["http://x/a b"]}, "no client could ask for"),
        ({"urls": ["http://x/\N{SNOWMAN}"]}, "encode them"),
        ({"purges": [{"scope": "all of it"}]}, "no purge"),
        ({"purges": [{"scope": "ban", "value": "x"}]}, "no purge"),
        ({"purges": ["x"]}, "is to be an object"),
    ],
)
async def test_what_makes_no_sense_purges_nothing(order: Message, why: str) -> None:
    async with filled() as (server, _):
        with pytest.raises(Refused, match=why):
            await server.worker.verbs().purge(order)


async def test_what_a_client_of_another_worker_has_changed_is_asked_for_again() -> None:
    async with filled() as (server, origin):
        written = {"scope": "key", "value": "http://x/a", "soft": False, "invalidates": True}
        assert await server.worker.verbs().purge({"purges": [written]}) == {"purged": 0}
        await server.get("/a")
        assert origin.seen.count("GET /a") == 2
        assert await stored(server) == set(TARGETS)


async def test_a_purge_goes_by_the_key_of_its_route() -> None:
    async with filled(route={"drop_query": ("utm_*",)}) as (server, _):
        told = await server.worker.verbs().purge({"urls": ["http://x/a?utm_source=z"]})
        assert told == {"purged": 1}


@pytest.mark.parametrize(
    ("rule", "gone"),
    [
        ("path ~ ^/b", {"/b", "/b?x=1", "/blog/1"}),
        ("host = x and header.X-Tag ~ two", {"/a", "/b"}),
        ("host = other", set()),
    ],
)
async def test_ban(rule: str, gone: set[str]) -> None:
    async with filled() as (server, _):
        told = await server.worker.verbs().ban({"rule": rule})
        assert told == {"purged": len(gone)}
        assert await stored(server) == set(TARGETS) - gone


async def test_a_soft_ban_leaves_what_may_be_used_stale() -> None:
    async with filled() as (server, _):
        assert await server.worker.verbs().ban({"rule": "path = /a", "soft": True}) == {"purged": 1}
        assert "/a" not in await stored(server)
        assert server.worker.caching.engine.statistics()["answers"] == len(TARGETS)


async def test_what_comes_after_a_ban_is_stored_again() -> None:
    async with filled() as (server, origin):
        await server.worker.verbs().ban({"rule": "path = /a"})
        await server.get("/a")
        assert "/a" in await stored(server)
        assert origin.seen.count("GET /a") == 2


async def test_what_was_asked_for_before_a_ban_is_not_stored_after_it() -> None:
    asked, go_on = trio.Event(), trio.Event()

    async def slow(call: Call) -> None:
        asked.set()
        await go_on.wait()
        await call.answer(HOUR, body=b"old")

    async with proxied(slow) as (server, _):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(server.get, "/a")
            await asked.wait()
            await server.worker.verbs().ban({"rule": "path = /a"})
            go_on.set()
        answer = await server.get("/a", "Cache-Control: only-if-cached")
        assert answer.status == 504


async def test_a_ban_that_is_none_says_why() -> None:
    async with filled() as (server, _):
        with pytest.raises(Refused, match="no field"):
            await server.worker.verbs().ban({"rule": "age = 5"})
        with pytest.raises(Refused, match='"soft" is to be true or false'):
            await server.worker.verbs().ban({"rule": "path = /a", "soft": 1})
        with pytest.raises(Refused, match='"rule" is missing'):
            await server.worker.verbs().ban({})


async def test_explain() -> None:
    async with filled() as (server, origin):
        verbs = server.worker.verbs()
        told = await verbs.explain({"url": "http://X:80/a", "headers": {"Accept": "*/*"}})
        assert (told["key"], told["stored"], told["answered_by"]) == ("http://x/a", 1, origin.url)
        asked = {"cache-control": "no-cache", "host": "other"}
        told = await verbs.explain({"url": "http://x/a", "headers": asked})
        assert told["key"] == "http://other/a"
        with pytest.raises(Refused, match='"url" is missing'):
            await verbs.explain({})
        with pytest.raises(Refused, match='"headers" is to be an object'):
            await verbs.explain({"url": "http://x/a", "headers": 7})
        with pytest.raises(Refused, match="no client could ask"):
            await verbs.explain({"url": "http://x/a", "headers": {"A B": "c"}})


async def test_upstreams_are_listed_drained_and_brought_up() -> None:
    async with filled() as (server, origin):
        verbs = server.worker.verbs()
        (row,) = (await verbs.upstream({"action": "list"}))["servers"]
        assert (row["pool"], row["server"], row["standing"]) == (origin.url, origin.url, "up")
        assert row["answered"] == len(TARGETS)
        (row,) = (await verbs.upstream({"action": "drain", "server": origin.url}))["servers"]
        assert row["standing"] == "drained"
        assert (await server.get("/new")).status == 503
        assert (await server.get("/a")).status == 200  # what is stored needs nobody
        (row,) = (await verbs.upstream({"action": "up", "server": origin.url}))["servers"]
        assert row["standing"] == "up"
        assert (await server.get("/new")).status == 200


async def test_a_server_or_an_action_that_is_not_there_says_what_is() -> None:
    async with filled() as (server, origin):
        verbs = server.worker.verbs()
        with pytest.raises(Refused, match=f"no upstream server http://x; there are {origin.url}"):
            await verbs.upstream({"action": "drain", "server": "http://x"})
        with pytest.raises(Refused, match="no upstream server"):
            await verbs.upstream({"action": "up", "server": origin.url, "pool": "other"})
        with pytest.raises(Refused, match="no action 'kill'"):
            await verbs.upstream({"action": "kill"})


async def test_the_log_is_made_only_while_somebody_listens() -> None:
    got: list[Any] = []
    async with filled() as (server, _):
        recorder = server.worker.service.recorder
        async with trio.open_nursery() as nursery:
            query = {"query": "path ~ ^/b and status = 200"}
            nursery.start_soon(server.worker.verbs().log, query, got.append)
            while not got:
                await trio.sleep(0.002)
            assert recorder.wants_entries
            for _ in range(3):
                for target in ("/a", "/b"):
                    await server.get(target)
            with trio.fail_after(10):
                while sum(len(piece["records"]) for piece in got) < 3:
                    await trio.sleep(0.01)
            nursery.cancel_scope.cancel()
        assert not recorder.wants_entries
    records = [record for piece in got for record in piece["records"]]
    assert [record["path"] for record in records] == ["/b"] * 3
    assert {record["host"] for record in records} == {"x"}
    assert sum(piece["left_out"] for piece in got) == 0


async def test_a_query_that_is_none_says_where() -> None:
    async with filled() as (server, _):
        with pytest.raises(Refused, match="at character 9: a value is missing"):
            await server.worker.verbs().log({"query": "status ="}, lambda piece: None)


async def test_lines_beyond_a_batch_are_left_out_and_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("edgebox.ops.control.verbs.MOST", 2)
    monkeypatch.setattr("edgebox.ops.control.verbs.BATCH", 0.05)
    got: list[Any] = []
    async with filled() as (server, _):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(server.worker.verbs().log, {}, got.append)
            while not got:
                await trio.sleep(0.002)
            async with server.connect() as client:
                await client.send(request("/a") * 5)
                for _ in range(5):
                    await client.read_answer()
            with trio.fail_after(10):
                while sum(len(p["records"]) + p["left_out"] for p in got) < 5:
                    await trio.sleep(0.01)
            nursery.cancel_scope.cancel()
        assert sum(piece["left_out"] for piece in got) >= 1
        assert all(len(piece["records"]) <= 2 for piece in got)
