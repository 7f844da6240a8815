"""Several servers, asked as if they were one."""

from __future__ import annotations

from collections import Counter

import pytest
import trio

from edgebox.config.upstreams import Upstream
from edgebox.upstream.errors import Reason, UpstreamError
from edgebox.upstream.group import UpstreamGroup

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


def named(name: bytes):
    async def handle(peer) -> None:
        while True:
            await peer.read_head()
            await peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n" + name)

    return handle


async def resetting(peer) -> None:
    await peer.read_head()
    await peer.reset()


async def ask(app, outgoing, key: bytes = b"") -> bytes | None:
    with trio.fail_after(5):
        return (await app.fetch(outgoing, key)).whole


def standing(app, server) -> str:
    return app.statistics()["servers"][server.url]["standing"]


async def test_connections_are_used_again_and_shared(fake, group, get, always) -> None:
    server = await fake(always(OK))
    app = await group(server.url)

    async def several() -> None:
        for _ in range(5):
            assert await ask(app, get()) == b"ok"

    async with trio.open_nursery() as nursery:
        for _ in range(4):
            nursery.start_soon(several)
    assert server.accepted <= 4
    (statistics,) = app.statistics()["servers"].values()
    assert statistics["answered"] == 20
    assert statistics["connections"] == server.accepted
    assert statistics["reused"] == 20 - server.accepted
    assert (statistics["active"], statistics["failed"]) == (0, 0)


async def test_connections_are_not_kept_longer_than_allowed(fake, group, get, always) -> None:
    server = await fake(always(OK))
    app = await group(server.url, keep_alive_idle=0.05)
    await ask(app, get())
    await trio.sleep(0.1)
    await ask(app, get())
    assert server.accepted == 2


@pytest.mark.slow
async def test_connections_that_grow_old_are_closed_unasked(fake, group, get, always) -> None:
    server = await fake(always(OK))
    app = await group(server.url, keep_alive_idle=0.1)
    await ask(app, get())
    with trio.fail_after(5):
        while server.open:
            await trio.sleep(0.05)


async def test_where_none_is_kept_the_server_is_told(fake, group, get) -> None:
    heads = []

    async def handle(peer) -> None:
        heads.append(await peer.read_head())
        await peer.send(OK)
        assert await peer.read_all() == b""

    server = await fake(handle)
    app = await group(server.url, keep_alive=0)
    for _ in range(2):
        await ask(app, get())
    assert server.accepted == 2
    assert all(b"Connection: close\r\n" in head for head in heads)


async def test_servers_share_the_work_by_weight(fake, group, get) -> None:
    servers = [await fake(named(name)) for name in (b"a", b"b")]
    app = await group({"url": servers[0].url, "weight": 2}, servers[1].url)
    assert Counter([await ask(app, get()) for _ in range(9)]) == {b"a": 6, b"b": 3}


async def test_hash_goes_by_the_key(fake, group, get) -> None:
    servers = [await fake(named(name)) for name in (b"a", b"b", b"c")]
    app = await group(*(server.url for server in servers), balance="hash")
    for n in range(6):
        key = b"/%d" % n
        assert len({await ask(app, get(), key) for _ in range(3)}) == 1


async def test_no_more_connections_than_allowed_are_used_at_once(fake, group, get) -> None:
    most = active = 0

    async def handle(peer) -> None:
        nonlocal most, active
        while True:
            await peer.read_head()
            active += 1
            most = max(most, active)
            await trio.sleep(0.01)
            active -= 1
            await peer.send(OK)

    server = await fake(handle)
    app = await group(server.url, connections=2)
    async with trio.open_nursery() as nursery:
        for _ in range(8):
            nursery.start_soon(ask, app, get())
    assert (most, server.accepted) == (2, 2)
    assert app.statistics()["waited"] >= 6


async def test_a_full_queue_is_a_503(fake, group, get) -> None:
    async def handle(peer) -> None:
        await peer.read_head()
        await trio.sleep_forever()

    app = await group((await fake(handle)).url, connections=1, queue=0)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask, app, get())
        await trio.testing.wait_all_tasks_blocked()
        with pytest.raises(UpstreamError) as caught:
            await app.fetch(get())
        assert (caught.value.reason, caught.value.status) == (Reason.QUEUE_FULL, 503)
        nursery.cancel_scope.cancel()


async def test_a_server_that_cannot_be_reached_is_passed_over(fake, group, get) -> None:
    gone, here = await fake(named(b"a")), await fake(named(b"b"))
    await gone.stop()
    app = await group(gone.url, here.url)
    for method in (b"GET", b"POST"):
        assert await ask(app, get(method=method, body=b"x")) == b"b"


async def test_where_none_can_be_reached_it_is_a_502_that_names_one(fake, group, get) -> None:
    servers = [await fake(named(b"a")) for _ in range(2)]
    for server in servers:
        await server.stop()
    app = await group(*(server.url for server in servers))
    with pytest.raises(UpstreamError) as caught:
        await app.fetch(get())
    assert (caught.value.reason, caught.value.status) == (Reason.CONNECT_FAILED, 502)
    assert caught.value.server in {server.url for server in servers}
    assert "Connection refused" in str(caught.value)


async def test_a_backup_is_asked_when_the_others_are_out(fake, group, get) -> None:
    main, backup = await fake(named(b"a")), await fake(named(b"b"))
    app = await group({"url": backup.url, "backup": True}, main.url)
    assert {await ask(app, get()) for _ in range(4)} == {b"a"}
    app.drain(main.url)
    assert {await ask(app, get()) for _ in range(4)} == {b"b"}
    app.up(main.url)
    assert {await ask(app, get()) for _ in range(4)} == {b"a"}


@pytest.mark.slow
async def test_a_server_that_fails_is_left_out_and_tried_again(fake, group, get) -> None:
    log, broken = [], True

    async def handle(peer) -> None:
        while True:
            await peer.read_head()
            if broken:
                await peer.reset()
                return
            await peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na")

    failing, fine = await fake(handle), await fake(named(b"b"))
    app = await group(failing.url, fine.url, fail_after=2, eject_for=0.15, log=log)
    assert [await ask(app, get()) for _ in range(6)] == [b"b"] * 6
    assert (standing(app, failing), failing.accepted) == ("ejected", 2)
    await trio.sleep(0.2)
    assert standing(app, failing) == "on trial"
    assert [await ask(app, get()) for _ in range(4)] == [b"b"] * 4
    assert failing.accepted == 3
    broken = False
    await trio.sleep(0.2)
    assert b"a" in [await ask(app, get()) for _ in range(2)]
    assert standing(app, failing) == "up"
    assert [line for line in log if failing.url not in line] == []
    assert ["keeps failing" in line for line in log] == [True, False]


async def test_the_only_server_is_never_left_out(fake, group, get) -> None:
    server = await fake(resetting)
    app = await group(server.url, fail_after=1, retries=0)
    for _ in range(3):
        with pytest.raises(UpstreamError) as caught:
            await app.fetch(get())
        assert caught.value.reason is Reason.RESET
    assert server.accepted == 3


async def test_a_reset_is_retried_elsewhere(fake, group, get) -> None:
    failing, fine = await fake(resetting), await fake(named(b"b"))
    app = await group(failing.url, fine.url)
    assert [await ask(app, get()) for _ in range(2)] == [b"b", b"b"]
    with pytest.raises(UpstreamError):
        for _ in range(2):
            await app.fetch(get(method=b"POST"))


async def test_a_timeout_is_not_retried(fake, group, get) -> None:
    asked = []

    async def silent(peer) -> None:
        asked.append(await peer.read_head())
        await trio.sleep_forever()

    servers = [await fake(silent) for _ in range(2)]
    app = await group(*(server.url for server in servers), head_timeout=0.05)
    with pytest.raises(UpstreamError) as caught:
        await app.fetch(get())
    assert (caught.value.status, len(asked)) == (504, 1)


async def test_a_drained_server_finishes_what_it_has(fake, group, get, read) -> None:
    go_on = trio.Event()

    async def handle(peer) -> None:
        await peer.read_head()
        await peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n")
        await go_on.wait()
        await peer.send(b"ok")
        assert await peer.read_all() == b""

    server = await fake(handle)
    app = await group(server.url)
    answer = await app.fetch(get())
    app.drain(server.url)
    with pytest.raises(UpstreamError) as caught:
        await app.fetch(get())
    assert caught.value.reason is Reason.NO_SERVER
    assert standing(app, server) == "drained"
    go_on.set()
    assert await read(answer) == b"ok"
    assert app.statistics()["servers"][server.url]["idle"] == 0


async def test_what_ends_after_the_group_is_not_kept(fake, get, read) -> None:
    go_on = trio.Event()

    async def handle(peer) -> None:
        await peer.read_head()
        await peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n")
        await go_on.wait()
        await peer.send(b"ok")
        assert await peer.read_all() == b""

    server = await fake(handle)
    app = UpstreamGroup("app", Upstream(servers=(server.url,)), lambda level, text: None)
    async with trio.open_nursery() as nursery:
        await nursery.start(app.run)
        answer = await app.fetch(get())
        nursery.cancel_scope.cancel()
    go_on.set()
    assert await read(answer) == b"ok"
    assert app.statistics()["servers"][server.url]["idle"] == 0


def test_only_its_own_servers_can_be_drained() -> None:
    app = UpstreamGroup("app", Upstream(servers=("http://a",)), lambda level, text: None)
    for change in (app.drain, app.up):
        with pytest.raises(KeyError):
            change("http://b")


async def test_a_group_that_does_not_run_says_so(get) -> None:
    app = UpstreamGroup("app", Upstream(servers=("http://a",)), lambda level, text: None)
    with pytest.raises(RuntimeError, match="does not run"):
        await app.fetch(get())


async def test_a_request_that_cannot_be_sent_costs_no_connection(fake, group, get) -> None:
    server = await fake(named(b"a"))
    app = await group(server.url)
    with pytest.raises(ValueError, match="line end"):
        await app.fetch(get(b"/\r\n"))
    assert app.statistics()["servers"][server.url]["active"] == 0
    assert await ask(app, get()) == b"a"


@pytest.mark.slow
async def test_nothing_is_mixed_up_under_load(fake, group, get, read) -> None:
    """Every answer is that to its own request, whatever way it came."""

    async def handle(peer) -> None:
        count = 0
        while True:
            head = await peer.read_head()
            target, count = head.split()[1], count + 1
            match int(target[1:]) % 5:
                case 0:
                    await peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(target))
                    await peer.send(target)
                case 1:
                    await peer.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
                    await peer.send(b"%x\r\n%b\r\n" % (len(target), target))
                    await trio.lowlevel.checkpoint()
                    await peer.send(b"0\r\n\r\n")
                case 2:
                    await peer.send(
                        b"HTTP/1.1 103 Hi\r\n\r\nHTTP/1.1 200 OK\r\nConnection: close\r\n"
                    )
                    await peer.send(b"\r\n" + target)
                    return
                case 3:
                    length = len(target)
                    await peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % length)
                    await peer.send(target + b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil")
                case _ if count % 3 == 0:
                    await peer.reset()
                    return
                case _:
                    body = target * 30_000
                    await peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body))
                    await peer.send(body)

    servers = [await fake(handle) for _ in range(2)]
    app = await group(*(s.url for s in servers), connections=6, retries=9, fail_after=0)

    async def client(first: int) -> None:
        for number in range(first, first + 40):
            target = b"/%d" % number
            answer = await app.fetch(get(target))
            times = 30_000 if number % 5 == 4 else 1
            assert await read(answer) == target * times

    with trio.fail_after(30):
        async with trio.open_nursery() as nursery:
            for n in range(12):
                nursery.start_soon(client, 100 * n)
    for statistics in app.statistics()["servers"].values():
        assert statistics["active"] == 0
