"""The lane gives the answers of the task path, octet for octet, and forgets in time."""

from __future__ import annotations

import os
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from tests.conftest import HELLO
from tests.wire import PATIENCE, Server, configure, request, serving

TARGETS = [
    "/", "/a.txt", "/sub", "/sub/", "/none", "/big.bin", "/empty.txt", "/.secret", "/a.txt?q=1",
    "/%61.txt", "/../etc/passwd", "/%2e%2e/", "/a.txt/", "//a.txt", "/sub/../a.txt", "/%00",
    "/a%2fb",
]  # fmt: skip
FIELDS = [
    "Connection: keep-alive", "Connection: close", "Accept-Encoding: gzip, br", "Cookie: a=b",
    "Accept-Encoding: identity;q=0", "Range: bytes=0-3", "Range: bytes=2-", "Range: bytes=-1,0-1",
    "Range: bytes=999999999-", "If-None-Match: *", 'If-None-Match: "x"', "If-Match: *",
    'If-Match: "x"', "If-Modified-Since: Mon, 30 Nov 2037 10:00:00 GMT", 'If-Range: "x"',
    "If-Unmodified-Since: Mon, 30 Nov 1998 10:00:00 GMT", "User-Agent: x", "Referer: http://y/",
    "Content-Length: 0", "X: ~", "Host: again", "Expect: 100-continue", "Connection: Upgrade",
]  # fmt: skip
METHODS = ["GET", "HEAD", "OPTIONS", "POST", "BREW"]

heads = st.builds(
    lambda method, target, minor, fields: "".join(
        f"{line}\r\n" for line in (f"{method} {target} HTTP/1.{minor}", "Host: x", *fields, "")
    ).encode(),
    st.sampled_from(["GET"] * 6 + METHODS),
    st.sampled_from(TARGETS),
    st.sampled_from("1110"),
    st.lists(st.sampled_from(FIELDS), max_size=4),
)


@asynccontextmanager
async def both(root: Path) -> AsyncIterator[tuple[Server, Server]]:
    """The same site with the lane and without, at one and the same `now`."""
    async with (
        serving(configure(root)) as lane,
        serving(configure(root, server={"express": False})) as tasks,
    ):
        yield lane, tasks


async def same_second(lane: Server, tasks: Server, head: bytes) -> tuple[bytes, bytes]:
    """Both answers to `head` (until each closes), taken within one epoch of both."""
    with trio.fail_after(PATIENCE):
        while True:
            before = (lane.worker.epoch.now, tasks.worker.epoch.now)
            answers = (
                await lane.exchange(head, end=True),
                await tasks.exchange(head, end=True),
            )
            after = (lane.worker.epoch.now, tasks.worker.epoch.now)
            if before == after and before[0] == before[1]:
                return answers


@pytest.mark.slow
@given(st.lists(heads, min_size=1, max_size=4))
async def test_the_lane_answers_as_the_tasks_do(settled_root: Path, drawn: list[bytes]) -> None:
    async with both(settled_root) as (lane, tasks):
        for head in drawn:
            for _ in range(3):  # first sight, known block, known head
                fast, plain = await same_second(lane, tasks, head)
                assert fast == plain, head


async def test_hot_requests_are_answered_in_the_lane(root: Path) -> None:
    async with serving(configure(root)) as server, server.connect() as client:
        for _ in range(20):
            await client.send(request("/"))
            assert (await client.read_answer()).body == HELLO
        statistics = server.worker.counters.statistics()
        assert statistics["express"] >= 18
        assert statistics["2xx"] == 20


async def test_heads_that_differ_in_nothing_that_decides_share_one_answer(root: Path) -> None:
    async with serving(configure(root)) as server, server.connect() as client:
        for n in [*range(30), *range(30), *range(1000, 1050)]:
            await client.send(request("/", f"Cookie: sid={n}"))
            await client.read_answer()
        statistics = server.worker.front.statistics()
        assert statistics["deciding"] == 1
        # Those that came twice and what all have in common, but for the two it was learned from.
        assert statistics["heads"] == 29


async def test_an_edit_is_seen_at_once_though_the_answer_was_remembered(root: Path) -> None:
    async with serving(configure(root)) as server:
        await server.get("/")
        (root / "index.html").write_bytes(b"new")
        with trio.fail_after(0.5):
            while (await server.get("/")).body != b"new":
                await trio.sleep(0.01)


async def test_the_date_moves_on(root: Path) -> None:
    async with serving(configure(root)) as server, server.connect() as client:
        dates = set()
        with trio.fail_after(5):
            while len(dates) < 2:
                await client.send(request("/"))
                dates.add((await client.read_answer()).headers["date"])
                await trio.sleep(0.05)


async def test_a_flood_of_heads_stays_within_its_bounds(root: Path) -> None:
    async with serving(configure(root)) as server, server.connect() as client:
        memory = server.worker.front._memory  # type: ignore[union-attr]
        memory._limits = (20_000, 20_000)
        for n in range(300):
            await client.send(request(f"/a.txt?{n}", f"Cookie: {n:0200}", f"If-None-Match: {n}"))
            assert (await client.read_answer()).status == 200
            statistics = memory.statistics()
            assert statistics["heads_octets"] <= 20_000
            assert statistics["answers_octets"] <= 20_000
            accounts = server.worker.ledger.statistics().accounts
            assert accounts["heads"] == statistics["heads_octets"]
            assert accounts["answers"] == statistics["answers_octets"]


@pytest.mark.slow
async def test_an_answer_larger_than_the_buffers_leaves_the_lane_and_comes_back(
    root: Path,
) -> None:
    body = os.urandom(900_000)
    (root / "large.bin").write_bytes(body)
    async with serving(configure(root, limits={"send_timeout": 5})) as server:
        async with server.connect() as client:
            await client.send(request("/a.txt"))
            await client.read_answer()
            for _ in range(3):
                await client.send(request("/large.bin"))
                await trio.sleep(0.1)  # let the buffers fill
                assert (await client.read_answer()).body == body
            statistics = server.worker.front.statistics()
            with trio.fail_after(5):
                while statistics["idle"] != 1 or statistics["tasks"]:
                    await trio.sleep(0.01)
                    statistics = server.worker.front.statistics()


async def test_the_access_log_is_the_same_from_the_lane_and_from_tasks(
    root: Path, tmp_path: Path
) -> None:
    lines = []
    for express in (True, False):
        path = tmp_path / f"log-{express}"
        config = configure(root, server={"express": express}, log={"access": str(path)})
        async with serving(config) as server, server.connect() as client:
            for head in (request("/", 'User-Agent: a "b"', "Referer: http://x/"), request("/none")):
                for _ in range(3):
                    await client.send(head)
                    await client.read_answer()
        text = path.read_bytes()
        lines.append(re.sub(rb"\[.*?\]", b"[]", text))
    assert lines[0] == lines[1]
    assert lines[0].count(b"\n") == 6
    assert lines[0].startswith(
        b'127.0.0.1 - - [] "GET / HTTP/1.1" 200 %d "http://x/" "a \\x22b\\x22"\n' % len(HELLO)
    )
