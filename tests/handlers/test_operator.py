"""PURGE and EXPLAIN: what operators may do to the running cache, and nobody else."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest

from edgebox.cache.purges import Purge, Scope
from edgebox.cache.rules import KeyRules
from edgebox.config.schema import Route
from edgebox.handlers.operator import purges_of
from edgebox.http.headers import Headers
from edgebox.http.message import Request
from edgebox.http.target import Target, parse_target
from tests.origin import Call, age, proxied
from tests.wire import Answer, Server

HOUR = "Cache-Control: max-age=3600"


async def app(call: Call) -> None:
    tags = {"/a": "one two", "/b": "two"}.get(call.target, "three")
    await call.answer(HOUR, "Vary: X", f"Surrogate-Key: {tags}", body=call.target.encode())


TARGETS = ("/a", "/b", "/b?x=1", "/blog/1", "/blog/2")


async def fill(server: Server) -> None:
    for target in TARGETS:
        await server.get(target)


def told(answer: Answer) -> dict[str, object]:
    assert answer.status == 200, answer.body
    assert answer.headers["content-type"] == "application/json"
    return json.loads(answer.body)  # type: ignore[no-any-return]


async def stored(server: Server) -> set[str]:
    hits = set()
    for target in TARGETS:
        if (
            "hit"
            in (await server.get(target, "Cache-Control: only-if-cached")).headers["cache-status"]
        ):
            hits.add(target)
    return hits


@pytest.mark.parametrize(
    ("target", "fields", "gone"),
    [
        ("/a", (), {"/a"}),
        ("/b", (), {"/b"}),
        ("/b?x=1", (), {"/b?x=1"}),
        ("/b*", (), {"/b", "/b?x=1", "/blog/1", "/blog/2"}),
        ("/b?*", (), {"/b?x=1"}),
        ("/blog/*", (), {"/blog/1", "/blog/2"}),
        ("/", ("Surrogate-Key: two",), {"/a", "/b"}),
        ("/", ("Surrogate-Key: one three",), {"/a", "/b?x=1", "/blog/1", "/blog/2"}),
        ("/", ("Purge-Scope: everything",), set(TARGETS)),
        ("/none", (), set()),
    ],
)
async def test_forms_of_purge(target: str, fields: tuple[str, ...], gone: set[str]) -> None:
    async with proxied(app) as (server, origin):
        await fill(server)
        answer = await server.get(target, *fields, method="PURGE")
        assert told(answer) == {"purged": len(gone)}
        assert await stored(server) == set(TARGETS) - gone
        assert all(seen.startswith("GET") for seen in origin.seen)


async def test_a_purge_takes_all_variants_and_what_the_lane_remembers() -> None:
    async with proxied(app) as (server, origin):
        for value in "abaaa":
            await server.get("/a", f"X: {value}")
        assert told(await server.get("/a", method="PURGE")) == {"purged": 2}
        for value in "ab":
            await server.get("/a", f"X: {value}")
        assert len(origin.calls) == 4


async def test_a_soft_purge_makes_stale_what_may_be_used_so() -> None:
    async def brief(call: Call) -> None:
        await call.answer("Cache-Control: max-age=3600, stale-while-revalidate=60",
                          body=b"%d" % len(origin.calls))  # fmt: skip

    async with proxied(brief) as (server, origin):
        await server.get("/a")
        age(server, 5)
        assert told(await server.get("/a", "Purge-Mode: soft", method="PURGE")) == {"purged": 1}
        stale = await server.get("/a")
        assert stale.body == b"1"
        assert "detail=while-revalidate" in stale.headers["cache-status"]


@pytest.mark.parametrize("method", ["PURGE", "EXPLAIN"])
@pytest.mark.parametrize(
    ("networks", "fields"),
    [
        (("192.0.2.0/24",), ()),
        ((), ()),
        (("127.0.0.0/8",), ("Via: 1.1 front",)),
        (("127.0.0.0/8",), ("X-Forwarded-For: 192.0.2.1",)),
        (("127.0.0.0/8",), ("Forwarded: for=192.0.2.1",)),
    ],
)
async def test_strangers_may_not(
    method: str, networks: tuple[str, ...], fields: tuple[str, ...]
) -> None:
    async with proxied(app, cache={"purge_from": networks}) as (server, origin):
        await server.get("/a")
        answer = await server.get("/a", *fields, method=method)
        assert answer.status == 403
        assert "hit" in (await server.get("/a")).headers["cache-status"]
        assert origin.seen == ["GET /a"]


@pytest.mark.parametrize("fields", [("Purge-Scope: some",), ("Surrogate-Key: ",)])
async def test_what_cannot_be_understood_purges_nothing(fields: tuple[str, ...]) -> None:
    async with proxied(app) as (server, _):
        await server.get("/a")
        assert (await server.get("/a", *fields, method="PURGE")).status == 400
        assert "hit" in (await server.get("/a")).headers["cache-status"]


async def test_a_purge_goes_by_the_key_of_its_route() -> None:
    async with proxied(app, route={"drop_query": ("utm_*",), "sort_query": True}) as (server, _):
        await server.get("/a?y=2&x=1&utm_source=z")
        assert told(await server.get("/a?x=1&y=2", method="PURGE")) == {"purged": 1}


async def test_other_hosts_keep_theirs() -> None:
    async with proxied(app) as (server, _):
        for host in ("x", "other"):
            async with server.connect() as client:
                await client.send(f"GET /a HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
                await client.read_answer()
        assert told(await server.get("/*", method="PURGE")) == {"purged": 1}
        assert server.worker.caching.engine.statistics()["answers"] == 1


async def test_explain_says_what_is_stored_and_why_it_would_be_used() -> None:
    async with proxied(app) as (server, origin):
        nothing = told(await server.get("/a", method="EXPLAIN"))
        assert nothing["answered_by"] == origin.url
        assert (nothing["route"], nothing["key"], nothing["stored"]) == ("/", "http://x/a", 0)
        assert nothing["decision"]["reason"] == "nothing-stored"  # type: ignore[index]
        await server.get("/a", "X: 1")
        age(server, 10)
        something = told(await server.get("/a", "X: 1", method="EXPLAIN"))
        assert something["decision"] == {
            "serve": "fresh", "reason": "fresh", "text": "the stored response is fresh",
            "source": "RFC 9111 §4.2",
        }  # fmt: skip
        (variant,) = something["variants"]  # type: ignore[misc]
        assert (variant["age"], variant["remaining"], variant["chosen"]) == (10, 3590, True)
        assert variant["selected_by"] == {"x": "1"}
        other = told(await server.get("/a", "X: 2", method="EXPLAIN"))
        assert other["decision"]["reason"] == "no-variant"  # type: ignore[index]
        assert origin.seen == ["GET /a"]


async def test_explain_tells_of_routes_that_nothing_is_cached_for() -> None:
    files = Route(path="/files", upstream="")
    async with proxied(app, route={"cache": False}, site={"route": (files,)}) as (server, _):
        off = told(await server.get("/a", method="EXPLAIN"))
        assert off["decision"]["reason"] == "operator-off"  # type: ignore[index]
        assert told(await server.get("/files/a", method="EXPLAIN")) == {
            "route": "/files", "answered_by": "files",
        }  # fmt: skip


def _purge(target: bytes, *fields: tuple[bytes, bytes]) -> list[Purge]:
    parsed = parse_target(b"PURGE", target)
    assert isinstance(parsed, Target)
    request = Request(b"PURGE", parsed, b"h", Headers(((b"Host", b"h:81"), *fields)))
    return purges_of(request, KeyRules())


def test_what_a_purge_names() -> None:
    assert _purge(b"/a") == [Purge(Scope.KEY, b"http://h:81/a")]
    assert _purge(b"http://g/a*") == [Purge(Scope.PREFIX, b"http://g/a")]
    assert _purge(b"/*", (b"Purge-Mode", b"soft")) == [Purge(Scope.PREFIX, b"http://h:81/", True)]
    assert _purge(b"/a", (b"Surrogate-Key", b"x y"), (b"Surrogate-Key", b"x z")) == [
        Purge(Scope.TAG, tag) for tag in (b"x", b"y", b"z")
    ]


async def test_a_purge_is_told_to_all_other_workers_before_it_is_answered() -> None:
    told_of: list[Purge] = []

    async def tell(purges: Sequence[Purge]) -> str:
        told_of.extend(purges)
        return ""

    async with proxied(app) as (server, _):
        await fill(server)
        server.worker.caching.operator.tell_others = tell
        assert told(await server.get("/blog/*", method="PURGE")) == {"purged": 2}
        assert told_of == [Purge(Scope.PREFIX, b"http://x/blog/")]


async def test_a_purge_that_not_all_have_done_is_not_called_done() -> None:
    async def fail(purges: Sequence[Purge]) -> str:
        return "worker 2 has not answered for 10 s"

    async with proxied(app) as (server, _):
        await fill(server)
        server.worker.caching.operator.tell_others = fail
        answer = await server.get("/a", method="PURGE")
        assert answer.status == 503
        assert b"worker 2 has not answered" in answer.body
        assert "/a" not in await stored(server)


async def test_other_workers_hear_of_what_a_form_has_changed() -> None:
    told_of: list[Purge] = []

    async def tell(purges: Sequence[Purge]) -> None:
        told_of.extend(purges)

    async with proxied(app) as (server, _):
        server.worker.caching.operator.when_invalidating(tell)
        await server.get("/a")
        assert told_of == []
        await server.get("/a", method="POST")
        assert told_of == [Purge(Scope.KEY, b"http://x/a")]
