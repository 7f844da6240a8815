"""A connection's life: keep-alive, order, ends. Everything holds with and without the lane."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
import trio

from tests.conftest import HELLO
from tests.wire import configure, first_status, request, serving, statuses

both_lanes = pytest.mark.parametrize("express", [True, False], ids=["lane", "tasks"])


@both_lanes
async def test_a_connection_is_kept_and_answers_again(root: Path, express: bool) -> None:
    async with serving(configure(root, server={"express": express})) as server:
        async with server.connect() as client:
            for _ in range(3):
                await client.send(request("/"))
                answer = await client.read_answer()
                assert (answer.status, answer.body) == (200, HELLO)


@both_lanes
async def test_pipelined_requests_are_answered_in_order(root: Path, express: bool) -> None:
    async with serving(configure(root, server={"express": express})) as server:
        async with server.connect() as client:
            await client.send(request("/a.txt") + request("/none") + request("/"))
            answers = [await client.read_answer() for _ in range(3)]
        assert statuses(answers) == [200, 404, 200]
        assert answers[2].body == HELLO


@both_lanes
async def test_a_head_may_come_octet_by_octet(root: Path, express: bool) -> None:
    async with serving(configure(root, server={"express": express})) as server:
        octets = await server.exchange(request("/", "Connection: close"), step=1)
    assert first_status(octets) == 200
    assert octets.endswith(HELLO)


@both_lanes
async def test_connection_close_ends_it_and_what_follows_is_ignored(
    root: Path, express: bool
) -> None:
    async with serving(configure(root, server={"express": express})) as server:
        octets = await server.exchange(request("/", "Connection: close") + request("/a.txt"))
    assert octets.count(b"HTTP/1.1 ") == 1
    assert b"Connection: close\r\n" in octets


@both_lanes
async def test_a_client_that_stops_sending_is_still_answered(root: Path, express: bool) -> None:
    async with serving(configure(root, server={"express": express})) as server:
        octets = await server.exchange(request("/big.bin"), end=True)
    assert octets.endswith((root / "big.bin").read_bytes())


@both_lanes
async def test_http_1_0_closes_unless_asked_to_go_on(root: Path, express: bool) -> None:
    async with serving(configure(root, server={"express": express})) as server:
        octets = await server.exchange(b"GET / HTTP/1.0\r\n\r\n")
        assert octets.endswith(HELLO)
        async with server.connect() as client:
            for _ in range(3):
                await client.send(b"GET /a.txt HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n")
                answer = await client.read_answer()
                assert answer.headers["connection"] == "keep-alive"
                assert answer.status == 200


@both_lanes
async def test_the_last_allowed_request_says_close(root: Path, express: bool) -> None:
    config = configure(root, server={"express": express}, limits={"keep_alive_requests": 3})
    async with serving(config) as server, server.connect() as client:
        for _ in range(2):
            await client.send(request("/"))
            assert "connection" not in (await client.read_answer()).headers
        await client.send(request("/"))
        assert (await client.read_answer()).headers["connection"] == "close"
        assert await client.closed()


@pytest.mark.slow
@both_lanes
async def test_an_idle_connection_ends_in_time(root: Path, express: bool) -> None:
    config = configure(root, server={"express": express}, limits={"keep_alive_idle": 1.0})
    async with serving(config) as server, server.connect() as client:
        await client.send(request("/"))
        await client.read_answer()
        with trio.fail_after(5):
            assert await client.closed()


@pytest.mark.slow
@both_lanes
async def test_a_head_that_trickles_gets_408_though_octets_keep_coming(
    root: Path, express: bool
) -> None:
    config = configure(root, server={"express": express}, limits={"head_timeout": 0.3})
    async with serving(config) as server, server.connect() as client:
        async with trio.open_nursery() as nursery:

            async def trickle() -> None:
                try:
                    for octet in request("/", "X: " + "y" * 1000):
                        await client.send(bytes([octet]))
                        await trio.sleep(0.05)
                except trio.BrokenResourceError:
                    pass

            nursery.start_soon(trickle)
            octets = await client.read_all()
            nursery.cancel_scope.cancel()
        assert first_status(octets) == 408


async def test_a_body_nobody_wants_is_not_the_next_request(root: Path) -> None:
    async with serving(configure(root)) as server, server.connect() as client:
        smuggled = request("/a.txt")
        await client.send(request("/", f"Content-Length: {len(smuggled)}") + smuggled)
        assert (await client.read_answer()).body == HELLO
        await client.send(request("/sub/"))
        assert (await client.read_answer()).body == b"sub"


async def test_a_chunked_body_is_read_off_whole(root: Path) -> None:
    async with serving(configure(root)) as server, server.connect() as client:
        await client.send(request("/", "Transfer-Encoding: chunked", method="POST"))
        await client.send(b"5\r\nhello\r\n0\r\n\r\n" + request("/a.txt"), step=1)
        assert (await client.read_answer()).status == 405
        assert (await client.read_answer()).status == 200


async def test_a_body_beyond_the_limit_ends_the_connection_with_the_answer_intact(
    root: Path,
) -> None:
    async with serving(configure(root, limits={"body_discard": 1000})) as server:
        octets = await server.exchange(
            request("/", "Content-Length: 500000", method="POST") + b"x" * 500_000
        )
    assert first_status(octets) == 405
    assert b"Connection: close\r\n" in octets


@pytest.mark.slow
async def test_a_body_that_trickles_gets_408(root: Path) -> None:
    config = configure(root, limits={"body_timeout": 0.3, "body_rate": 100_000})
    async with serving(config) as server:
        octets = await server.exchange(request("/", "Content-Length: 1000", method="POST") + b"x")
    assert first_status(octets) == 408


async def test_expect_100_is_answered_finally_and_the_connection_ends(root: Path) -> None:
    async with serving(configure(root)) as server, server.connect() as client:
        await client.send(request("/", "Content-Length: 10", "Expect: 100-continue", method="POST"))
        answer = await client.read_answer("POST")
        assert (answer.status, answer.headers["connection"]) == (405, "close")


@pytest.mark.slow
async def test_a_reader_that_stops_is_cut_off_and_others_do_not_notice(root: Path) -> None:
    (root / "huge.bin").write_bytes(bytes(64 * 1024 * 1024))
    config = configure(root, limits={"send_timeout": 0.5, "send_rate": 1_000_000})
    async with serving(config) as server, server.connect() as slow:
        await slow.send(request("/huge.bin"))
        await slow.stream.receive_some(1)
        assert (await server.get("/")).body == HELLO
        with trio.fail_after(5):
            while server.worker.admission.tasks:
                await trio.sleep(0.05)
        assert len(await slow.read_all()) < 64 * 1024 * 1024


@both_lanes
@pytest.mark.slow
async def test_draining_answers_each_connection_once_more(root: Path, express: bool) -> None:
    """A request may be on its way when draining begins; only who stays silent is closed."""
    async with serving(configure(root, server={"express": express})) as server:
        async with server.connect() as client, server.connect() as silent:
            for each in (client, silent):
                await each.send(request("/"))
                assert "connection" not in (await each.read_answer()).headers
            server.worker.service.drain()
            server.worker.front.drain()
            await client.send(request("/"))
            answer = await client.read_answer()
            assert (answer.status, answer.headers["connection"]) == (200, "close")
            assert await client.closed()
            with trio.fail_after(5):
                await server.worker.admission.wait_none()
            assert await silent.closed()


@both_lanes
async def test_who_waits_in_the_accept_queue_when_draining_begins_is_answered(
    root: Path, express: bool
) -> None:
    async with serving(configure(root, server={"express": express})) as server:
        await server.get("/")
        with socket.create_connection(("127.0.0.1", server.port)) as waiting:
            waiting.settimeout(5)
            waiting.sendall(request("/"))  # no turn of the loop since: nobody has accepted it
            server.worker.service.drain()
            server.worker.front.drain()
            assert await trio.to_thread.run_sync(waiting.recv, 12) == b"HTTP/1.1 200"


async def test_draining_answers_what_is_in_hand_and_closes_the_rest(root: Path) -> None:
    async with serving(configure(root)) as server:
        async with server.connect() as idle, server.connect() as busy:
            await idle.send(request("/"))
            await idle.read_answer()
            await busy.send(b"GET /a.txt HTTP/1.1\r\nHo")
            await trio.sleep(0.05)
            server.worker.service.drain()
            server.worker.front.drain()
            assert await idle.closed()
            await busy.send(b"st: x\r\n\r\n")
            answer = await busy.read_answer()
            assert (answer.status, answer.headers["connection"]) == (200, "close")


@both_lanes
async def test_at_the_limit_idle_connections_make_room(root: Path, express: bool) -> None:
    config = configure(root, server={"express": express}, limits={"connections": 2})
    async with serving(config) as server, server.connect() as first, server.connect() as second:
        for client in (first, second):
            await client.send(request("/"))
            await client.read_answer()
        assert (await server.get("/")).status == 200


async def test_at_the_limit_with_nobody_idle_the_answer_is_503_at_once(root: Path) -> None:
    config = configure(root, limits={"connections": 1})
    async with serving(config) as server, server.connect() as busy:
        await busy.send(b"GET /")  # a head under way: not idle
        await trio.sleep(0.05)
        answer = await server.get("/")
        assert (answer.status, answer.headers["retry-after"]) == (503, "1")
        await busy.send(b" HTTP/1.1\r\nHost: x\r\n\r\n")
        assert (await busy.read_answer()).status == 200
        assert (await server.get("/")).status == 200
