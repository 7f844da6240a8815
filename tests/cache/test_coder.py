"""Cached text is coded once, behind the clients' backs, and then served coded."""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable

import brotli
import pytest
import trio

from edgebox.cache.coder import MOST_WISHES, Coder
from edgebox.cache.entry import StoredResponse
from edgebox.cache.shelf import Kept
from tests.origin import Call, age, proxied
from tests.wire import PATIENCE, Answer, Server

Keep = Callable[..., StoredResponse]
HOUR = "Cache-Control: max-age=3600"
PAGE = b"<p>all work and no play makes a dull page\n" * 100
CODING: dict[str, object] = {"enabled": True}
DECODERS = {"br": brotli.decompress, "gzip": gzip.decompress}


def octets(server: Server) -> int:
    return server.worker.ledger.statistics().accounts["working set"]


async def until_coded(server: Server, coding: str, *fields: str) -> Answer:
    with trio.fail_after(PATIENCE):
        while True:
            answer = await server.get("/page", f"Accept-Encoding: {coding}", *fields)
            if answer.headers.get("content-encoding") == coding:
                return answer
            assert answer.body == PAGE
            await trio.sleep(0.005)


async def page(call: Call) -> None:
    if "if-none-match" in call.headers:
        await call.answer(HOUR, 'ETag: "v1"', status=304)
    else:
        await call.answer(HOUR, 'ETag: "v1"', "Content-Type: text/html", body=PAGE)


@pytest.mark.parametrize("coding", ["br", "gzip"])
async def test_the_first_client_gets_it_plain_and_later_ones_coded(coding: str) -> None:
    async with proxied(page, compression=CODING) as (server, origin):
        first = await server.get("/page", f"Accept-Encoding: {coding}")
        assert first.body == PAGE
        assert "content-encoding" not in first.headers
        assert (first.headers["vary"], first.headers["etag"]) == ("Accept-Encoding", '"v1"')
        with trio.fail_after(PATIENCE):
            while not server.worker.caching.engine.statistics()["coded"]:
                await trio.sleep(0.002)
        coded = await server.get("/page", f"Accept-Encoding: {coding}")
        assert DECODERS[coding](coded.body) == PAGE
        assert len(coded.body) < len(PAGE) // 4
        assert coded.headers["etag"] == f'"v1-{coding}"'
        assert coded.headers["vary"] == "Accept-Encoding"
        assert coded.headers["content-length"] == str(len(coded.body))
        assert "hit" in coded.headers["cache-status"]
        # Those who cannot decode it still get it as it is.
        assert (await server.get("/page")).body == PAGE
        assert (await server.get("/page", "Accept-Encoding: identity")).body == PAGE
        assert len(origin.calls) == 1
        assert len(PAGE) + len(coded.body) < octets(server) < len(PAGE) + len(coded.body) + 1000


async def test_coded_answers_come_from_the_lane() -> None:
    async with proxied(page, compression=CODING) as (server, _):
        await server.get("/page")
        coded = await until_coded(server, "br")
        before = server.worker.counters.statistics()["express"]
        for _ in range(5):
            assert (await server.get("/page", "Accept-Encoding: br")).body == coded.body
        assert server.worker.counters.statistics()["express"] >= before + 4


async def test_who_has_a_coding_is_told_that_it_still_holds() -> None:
    async with proxied(page, compression=CODING) as (server, origin):
        for _ in range(2):  # before there is a coding here, and with one
            answer = await server.get("/page", "Accept-Encoding: br", 'If-None-Match: "v1-br"')
            assert (answer.status, answer.headers["etag"]) == (304, '"v1-br"')
            await until_coded(server, "br")
        plain = await server.get("/page", "Accept-Encoding: gzip", 'If-None-Match: "v1-br"')
        assert plain.status == 200
        assert len(origin.calls) == 1


async def test_the_app_is_asked_about_the_original_and_a_304_keeps_the_codings() -> None:
    async with proxied(page, compression=CODING) as (server, origin):
        await server.get("/page")
        await until_coded(server, "br")
        age(server, 4000)
        again = await server.get("/page", "Accept-Encoding: br", 'If-None-Match: "v1-br"')
        assert again.status == 304
        assert origin.calls[1].headers["if-none-match"] == '"v1"'
        assert (await server.get("/page", "Accept-Encoding: br")).headers[
            "content-encoding"
        ] == "br"
        assert server.worker.caching.engine.statistics()["coded"] == 1


async def test_parts_belong_together() -> None:
    async with proxied(page, compression=CODING) as (server, _):
        await server.get("/page")
        whole = (await until_coded(server, "br")).body
        part = await server.get("/page", "Accept-Encoding: br", "Range: bytes=0-9")
        assert (part.body, part.headers["etag"]) == (PAGE[:10], '"v1"')
        assert "content-encoding" not in part.headers
        part = await server.get(
            "/page", "Accept-Encoding: br", "Range: bytes=5-9", 'If-Range: "v1-br"'
        )
        assert (part.status, part.body, part.headers["content-encoding"]) == (
            206,
            whole[5:10],
            "br",
        )
        assert part.headers["content-range"] == f"bytes 5-9/{len(whole)}"


async def test_a_client_may_change_what_it_got_coded() -> None:
    async with proxied(page, compression=CODING) as (server, origin):
        await server.get("/page", 'If-Match: "v1-br"', method="PUT")
        assert origin.calls[0].headers["if-match"] == '"v1-br", "v1"'


@pytest.mark.parametrize(
    "lines",
    [
        ("Content-Type: image/png",),
        ("Content-Type: text/html", "Cache-Control: no-transform"),
        ("Content-Type: text/html", "Content-Encoding: br"),
    ],
)
async def test_what_must_stay_as_it_is_stays_so(lines: tuple[str, ...]) -> None:
    async def app(call: Call) -> None:
        await call.answer(HOUR, *lines, 'ETag: "v1"', body=PAGE)

    async with proxied(app, compression=CODING) as (server, _):
        for _ in range(3):
            answer = await server.get("/page", "Accept-Encoding: br, gzip")
            assert (answer.body, answer.headers["etag"]) == (PAGE, '"v1"')
            assert "vary" not in answer.headers
        statistics = server.worker.caching.engine.statistics()
        assert (statistics["wishes"], statistics["coded"]) == (0, 0)


async def test_what_coding_does_not_shrink_is_tried_once(keep: Keep) -> None:
    tried: list[Kept] = []
    coder = Coder(lambda key, kept: tried.append(kept))
    noise = Kept(keep(HOUR), 1000, os.urandom(1000))
    async with trio.open_nursery() as nursery:
        await nursery.start(coder.run)
        coder.wish_nowait(b"key", noise, b"br")
        with trio.fail_after(PATIENCE):
            while not tried:
                await trio.sleep(0.002)
        nursery.cancel_scope.cancel()
    assert noise.coded == {b"br": None}
    assert coder.statistics()["coded"] == 0


async def test_wishes_are_bounded_and_each_is_fulfilled_once(keep: Keep) -> None:
    made: list[Kept] = []
    coder = Coder(lambda key, kept: made.append(kept))
    entry = keep(HOUR)
    answers = [Kept(entry, len(PAGE), PAGE) for _ in range(MOST_WISHES + 10)]
    for kept in answers:
        coder.wish_nowait(b"key", kept, b"gzip")
        coder.wish_nowait(b"key", kept.with_entry(entry), b"gzip")
    assert coder.statistics()["wishes"] == MOST_WISHES
    async with trio.open_nursery() as nursery:
        await nursery.start(coder.run)
        with trio.fail_after(PATIENCE):
            while len(made) < MOST_WISHES:
                await trio.sleep(0.002)
        nursery.cancel_scope.cancel()
    assert made == answers[:MOST_WISHES]
    assert gzip.decompress(answers[0].coded[b"gzip"] or b"") == PAGE
    assert coder.statistics() == {
        "wishes": 0,
        "coded": MOST_WISHES,
        "octets_saved": sum(len(PAGE) - len(kept.coded[b"gzip"] or b"") for kept in made),
    }
