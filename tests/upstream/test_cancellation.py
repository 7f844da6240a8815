"""Cancelled at each of its steps, an exchange leaves nothing behind."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
import trio

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
STEPS = 200  # more than any of them takes


class CancelAtStep(trio.abc.Instrument):
    """Cancels `scope` when the task that made this has been scheduled `step` times."""

    def __init__(self, step: int, scope: trio.CancelScope) -> None:
        self._task = trio.lowlevel.current_task()
        self._left = step
        self._scope = scope

    def task_scheduled(self, task: trio.lowlevel.Task) -> None:
        if task is self._task:
            self._left -= 1
            if self._left == 0:
                self._scope.cancel()


async def sweep(action: Callable[[], Awaitable[None]], check: Callable[[], Awaitable[None]]) -> int:
    """Run `action` over and over, cancelled one step later each time, until it ends by itself.

    `check` runs after each. Gives the number of steps.
    """
    for step in range(STEPS):
        with trio.fail_after(10), trio.CancelScope() as scope:
            instrument = CancelAtStep(step, scope)
            if step == 0:
                scope.cancel()
            trio.lowlevel.add_instrument(instrument)
            try:
                await action()
            finally:
                trio.lowlevel.remove_instrument(instrument)
        await check()
        if not scope.cancelled_caught:
            return step
    raise AssertionError("it never ended by itself")


@pytest.fixture
def clean(fake, get):
    """A check that nothing is in use, and that the next request succeeds."""

    def make(app, server) -> Callable[[], Awaitable[None]]:
        async def check() -> None:
            with trio.fail_after(5):
                while server.open > app.statistics()["servers"][server.url]["idle"]:
                    await trio.sleep(0.001)
            assert app.statistics()["servers"][server.url]["active"] == 0
            assert app.statistics()["waiting"] == 0
            assert app._terms.nursery.child_tasks == tasks
            assert (await app.fetch(get(b"/clean"))).whole == b"ok"

        tasks = set(app._terms.nursery.child_tasks)
        return check

    return make


async def step_by_step(peer) -> None:
    """Answers in several pieces, each when edgebox has had its turn."""
    while True:
        head = await peer.read_head()
        if b" /clean " in head:
            await peer.send(OK)
            continue
        if b"chunked" in head:
            while not peer.buffer.endswith(b"0\r\n\r\n"):
                await peer._read_more()
            peer.buffer = b""
        for piece in (
            b"HTTP/1.1 103 Hints\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nTransfer-Enc",
            b"oding: chunked\r\n\r\n",
            b"2\r\nok\r\n",
            b"0\r\n",
            b"X: y\r\n\r\n",
        ):
            await peer.send(piece)
            await trio.sleep(0.001)


@pytest.mark.parametrize("kept", [True, False])
async def test_a_plain_exchange(fake, group, get, read, clean, kept: bool) -> None:
    server = await fake(step_by_step)
    app = await group(server.url, keep_alive=8 if kept else 0)

    async def action() -> None:
        assert await read(await app.fetch(get())) == b"ok"

    assert await sweep(action, clean(app, server)) >= 5


async def test_an_exchange_with_an_upload(fake, group, get, read, clean) -> None:
    server = await fake(step_by_step)
    app = await group(server.url)
    closed = 0

    async def body():
        nonlocal closed
        try:
            for _ in range(3):
                await trio.lowlevel.checkpoint()
                yield b"x" * 10_000
        finally:
            closed += 1

    made = 0

    async def action() -> None:
        nonlocal made
        made += 1
        assert await read(await app.fetch(get(method=b"PUT", body=body()))) == b"ok"

    steps = await sweep(action, clean(app, server))
    assert steps >= 5
    assert made - 2 <= closed <= made  # one that was never begun has nothing to close


async def test_an_exchange_over_tls(fake, group, get, read, clean, certified, ca_file) -> None:
    server = await fake(step_by_step, tls=certified("127.0.0.1"))
    app = await group(server.url, tls={"ca": ca_file}, keep_alive=0)

    async def action() -> None:
        assert await read(await app.fetch(get())) == b"ok"

    assert await sweep(action, clean(app, server)) >= 5


async def test_a_name_that_is_looked_up(fake, group, get, read, clean) -> None:
    server = await fake(step_by_step)
    server.url = server.url.replace("127.0.0.1", "localhost")
    app = await group(server.url, keep_alive=0)

    async def action() -> None:
        assert await read(await app.fetch(get())) == b"ok"

    assert await sweep(action, clean(app, server)) >= 5


async def test_a_wait_in_the_queue(fake, group, get, read, clean) -> None:
    server = await fake(step_by_step)
    app = await group(server.url, connections=1)

    async def ask() -> None:
        assert await read(await app.fetch(get())) == b"ok"

    async def action() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask)
            await trio.lowlevel.checkpoint()
            await ask()

    assert await sweep(action, clean(app, server)) >= 5
    assert app.statistics()["waited"]
