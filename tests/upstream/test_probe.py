"""Asking servers how they are."""

from __future__ import annotations

import pytest
import trio

from edgebox.upstream.errors import Reason, UpstreamError

HEALTH = {"path": "/up", "interval": 0.02, "timeout": 0.1, "healthy_after": 2, "unhealthy_after": 2}


class App:
    """Answers checks with `status`, or not at all while it is None."""

    def __init__(self, status: bytes | None = b"200 OK") -> None:
        self.status = status
        self.checks: list[bytes] = []

    async def handle(self, peer) -> None:
        while True:
            head = await peer.read_head()
            if head.startswith(b"GET /up "):
                self.checks.append(head)
                if self.status is None:
                    await trio.sleep_forever()
                await peer.send(b"HTTP/1.1 %b\r\nContent-Length: 0\r\n\r\n" % self.status)
            else:
                await peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")


async def until(app, standing: str) -> None:
    (server,) = app.statistics()["servers"]
    with trio.fail_after(5):
        while app.statistics()["servers"][server]["standing"] != standing:
            await trio.sleep(0.01)


@pytest.mark.parametrize("status", [b"503 No", b"302 Found", None])
async def test_bad_checks_take_a_server_out_and_good_ones_bring_it_back(
    fake, group, get, status: bytes | None
) -> None:
    upstream, log = App(), []
    server = await fake(upstream.handle)
    app = await group(server.url, health=HEALTH, log=log)
    assert (await app.fetch(get())).whole == b"ok"
    upstream.status = status
    await until(app, "down")
    with pytest.raises(UpstreamError) as caught:
        await app.fetch(get())
    assert caught.value.reason is Reason.NO_SERVER
    upstream.status = b"204 None"
    await until(app, "up")
    assert (await app.fetch(get())).whole == b"ok"
    assert [f"upstream {server.url} is {word}" in line for word, line in zip(
        ("down", "up"), log, strict=True)] == [True, True]  # fmt: skip


async def test_a_server_that_cannot_be_reached_is_down(fake, group) -> None:
    server = await fake(App().handle)
    await server.stop()
    log: list[str] = []
    app = await group(server.url, health=HEALTH, log=log)
    await until(app, "down")
    assert "Connection refused" in log[0]


async def test_a_check_names_the_server_and_asks_for_the_end(fake, group) -> None:
    upstream = App()
    server = await fake(upstream.handle)
    await group(server.url, health=HEALTH)
    with trio.fail_after(5):
        while not upstream.checks:
            await trio.sleep(0.01)
    head = upstream.checks[0]
    assert b"Host: " + server.url.removeprefix("http://").encode() + b"\r\n" in head
    assert b"Connection: close\r\n" in head


async def test_checks_take_no_place_of_a_request(fake, group, get) -> None:
    upstream = App()
    server = await fake(upstream.handle)
    app = await group(server.url, health=HEALTH, connections=1)
    for _ in range(10):
        assert (await app.fetch(get())).whole == b"ok"
        await trio.sleep(0.005)
    assert app.statistics()["waited"] == 0
    assert upstream.checks


async def test_without_a_path_nobody_is_asked(fake, group, get) -> None:
    upstream = App()
    await group((await fake(upstream.handle)).url)
    await trio.sleep(0.05)
    assert upstream.checks == []
