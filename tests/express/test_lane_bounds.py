"""What bounds the lane: the size of a head, and for how long nobody else gets his turn."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from edgebox.express.lane import TURN, Lane
from tests.wire import configure, request, serving


@pytest.mark.parametrize("express", [True, False], ids=["lane", "tasks"])
@pytest.mark.parametrize("over", [0, 1])
async def test_a_head_beyond_the_limit_is_refused_however_often_it_comes(
    root: Path, express: bool, over: int
) -> None:
    config = configure(root, server={"express": express}, limits={"head_size": 2000})
    padding = 2000 - len(request("/a.txt", "Cookie: ")) + over
    async with serving(config) as server:
        assert (await server.get("/a.txt")).status == 200  # in memory from now on
        for _ in range(4):
            answer = await server.get("/a.txt", "Cookie: " + "x" * padding)
            assert answer.status == (431 if over else 200)


async def test_after_some_milliseconds_of_work_others_can_hear_what_changed(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many connections are ready: each poll may bring work for many milliseconds."""
    clock = streak = longest = 0.0

    def work(ready: object) -> None:  # what is ready stays so
        nonlocal clock, streak, longest
        clock, streak = clock + 2 * TURN, streak + 1
        longest = max(longest, streak)

    async with serving(configure(root)) as server:
        lane = server.worker.front
        assert isinstance(lane, Lane)
        async with server.connect() as client:
            await server.get("/")
            with monkeypatch.context() as patch:
                patch.setattr("edgebox.express.lane.perf_counter", lambda: clock)
                patch.setattr(lane, "_work", work)
                await client.send(request("/"))
                for _ in range(50):
                    streak = 0
                    await trio.lowlevel.checkpoint()
    assert 1 <= longest <= 4
