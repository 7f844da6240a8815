"""Paths that an app answers: what it is asked, what becomes of its failures."""

from __future__ import annotations

import pytest
import trio
from msgspec.structs import replace

from edgebox.config.upstreams import Upstream
from tests.origin import Call, listening, proxied, running
from tests.origin import before as configure_before
from tests.wire import request


async def echo(call: Call) -> None:
    await call.answer("Cache-Control: no-store", body=call.head + b"\n" + call.body)


async def test_the_target_reaches_the_app_as_it_was_sent() -> None:
    """FAULTS 70: what two readers could take for different paths is not touched."""
    async with proxied(echo) as (server, origin):
        for target in ("/a%62c?x=%20&&y", "/me;a.js", "/a%20b", "/?", "/a/./b"):
            await server.get(target)
        assert [call.target for call in origin.calls] == [
            "/a%62c?x=%20&&y", "/me;a.js", "/a%20b", "/?", "/a/./b",
        ]  # fmt: skip


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "BREW"])
async def test_bodies_go_up_whatever_their_framing(method: str) -> None:
    async with proxied(echo) as (server, origin):
        async with server.connect() as client:
            await client.send(request("/", "Content-Length: 5", method=method) + b"hello")
            assert (await client.read_answer()).body.endswith(b"\nhello")
        assert origin.calls[0].headers["content-length"] == "5"


async def test_a_chunked_body_goes_up_in_chunks() -> None:
    async with proxied(echo) as (server, origin), server.connect() as client:
        await client.send(request("/", "Transfer-Encoding: chunked", method="POST"))
        await client.send(b"5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n")
        assert (await client.read_answer()).status == 200
        body = origin.calls[0].body.replace(b"\r\n", b"|")
        assert body in (b"5|hello|6| world|0||", b"b|hello world|0||")


async def test_a_body_beyond_the_limit_gets_413() -> None:
    async with proxied(echo, route={"body_size": 10}) as (server, origin):
        async with server.connect() as client:
            await client.send(request("/", "Content-Length: 11", method="POST"))
            assert (await client.read_answer()).status == 413
        assert origin.calls == []
        async with server.connect() as client:
            await client.send(request("/", "Transfer-Encoding: chunked", method="POST"))
            await client.send(b"b\r\nhello world\r\n0\r\n\r\n")
            assert (await client.read_answer()).status == 413


async def test_what_the_app_is_not_asked() -> None:
    async with proxied(echo, cache={"via": "box"}) as (server, origin):
        assert (await server.get("/", method="TRACE")).status == 405
        assert (await server.get("/", "Via: 1.1 box")).status == 508
        assert (await server.get("/", "CDN-Loop: box")).status == 508
        assert (await server.get("/", "Max-Forwards: 0", method="OPTIONS")).status == 204
        assert origin.calls == []


@pytest.mark.parametrize("upgrade", ["h2c", "HTTP/2.0", "websocket, h2c"])
async def test_http_2_is_not_spoken_past_us(upgrade: str) -> None:
    async with proxied(echo) as (server, origin):
        await server.get("/", "Connection: Upgrade, HTTP2-Settings", f"Upgrade: {upgrade}",
                         "HTTP2-Settings: AAMAAABkAAQAAP__")  # fmt: skip
        assert not {"upgrade", "connection", "http2-settings"} & set(origin.calls[0].headers)


async def test_another_protocol_is_passed_through_where_the_app_wants_it() -> None:
    async def app(call: Call) -> None:
        assert call.headers["upgrade"] == "websocket"
        await call.send(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n"
                        b"Connection: upgrade\r\n\r\nhello")  # fmt: skip
        await call.send(await call.stream.receive_some(100))
        await call.close()

    async with proxied(app) as (server, _), server.connect() as client:
        await client.send(request("/", "Connection: Upgrade", "Upgrade: websocket"))
        with trio.fail_after(5):
            while not client.buffer.endswith(b"\r\n\r\nhello"):
                client.buffer += await client.stream.receive_some(1000)
        await client.send(b"there")
        assert (await client.read_all()).endswith(b"hellothere")


@pytest.mark.parametrize(
    ("failure", "status"), [("reset", 502), ("garbage", 502), ("silence", 504), ("nobody", 502)]
)
async def test_failures_are_told_apart(failure: str, status: int) -> None:
    async def app(call: Call) -> None:
        if failure == "reset":
            await call.reset()
        elif failure == "garbage":
            await call.send(b"SSH-2.0-x\r\n\r\n")
        else:
            await trio.sleep(60)

    async with listening(app) as origin:
        url = "http://127.0.0.1:1" if failure == "nobody" else origin.url
        upstream = Upstream(servers=(url,), head_timeout=0.2)
        config = replace(configure_before("app"), upstream={"app": upstream})
        async with running(config) as server:
            answer = await server.get("/")
            assert answer.status == status
            assert b"The server behind this one cannot answer" in answer.body
            assert answer.headers["cache-status"] == "edgebox; fwd=uri-miss"


async def test_nobody_left_to_ask_is_503_and_worth_another_try() -> None:
    async with listening(echo) as origin:
        upstream = Upstream(servers=(origin.url,), connections=1, queue=0)
        config = replace(configure_before("app"), upstream={"app": upstream})
        held = trio.Event()

        async def hold(call: Call) -> None:
            await held.wait()
            await call.answer()

        origin.app = hold
        async with running(config) as server, trio.open_nursery() as nursery:
            nursery.start_soon(server.get, "/one")
            with trio.fail_after(5):
                while not origin.calls:
                    await trio.sleep(0.002)
            answer = await server.get("/two")
            assert (answer.status, answer.headers["retry-after"]) == (503, "1")
            held.set()
