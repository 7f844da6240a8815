"""Cached answers from the lane are those of the task path, octet for octet, at the same time."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

import edgebox.epoch
from tests.origin import Call, Clocks, before, listening
from tests.wire import PATIENCE, Server, serving

DATE = "Date: Mon, 30 Nov 2026 10:00:00 GMT"
NOW = 1_796_032_805.0  # five seconds later
PAGES: dict[str, tuple[int, tuple[str, ...], bytes]] = {
    "/plain": (200, ("Cache-Control: max-age=60",), b"plain"),
    "/dated": (
        200,
        ("Cache-Control: max-age=60", "Last-Modified: Mon, 30 Nov 2026 09:00:00 GMT"),
        b"dated",
    ),
    "/tagged": (200, ("Cache-Control: max-age=60", 'ETag: W/"1"', "Vary: X-Any"), b"0123456789"),
    "/text": (
        200,
        ("Cache-Control: max-age=60", 'ETag: "1"', "Content-Type: text/html"),
        b"<p>again and again" * 50,
    ),
    "/spoken": (200, ("Cache-Control: max-age=60", "Vary: Accept-Language"), b"hallo"),
    "/missing": (404, ("Cache-Control: max-age=60",), b"nothing"),
    "/empty": (204, ("Cache-Control: max-age=60",), b""),
    "/moved": (301, ("Cache-Control: max-age=60", "Location: /plain"), b""),
    "/checked": (200, ("Cache-Control: no-cache", 'ETag: "1"'), b"checked"),
    "/private": (200, ("Cache-Control: private",), b"private"),
    "/brief": (200, ("Cache-Control: max-age=6, stale-while-revalidate=30",), b"brief"),
    "/old": (200, ("Cache-Control: max-age=60", "Age: 57"), b"old"),
}  # fmt: skip
FIELDS = [
    "Accept-Encoding: br, gzip", "Accept-Encoding: gzip", "Accept-Language: de",
    "Accept-Language: fr", "Cache-Control: max-age=3", "Cache-Control: no-cache",
    "Cache-Control: only-if-cached", "Cache-Control: max-stale", "Cache-Control: min-fresh=50",
    "Connection: close", "Cookie: a=b", "Cookie: sid=1", 'If-None-Match: "1"',
    'If-None-Match: "1-br"', "If-None-Match: *", 'If-Match: "2"', "Range: bytes=2-4",
    "Range: bytes=-1", "Range: bytes=99-", "Range: bytes=0-0,2-2", 'If-Range: "1"',
    "If-Modified-Since: Mon, 30 Nov 2026 10:00:00 GMT", "Pragma: no-cache", "X-Any: y",
    "If-Unmodified-Since: Mon, 30 Nov 2020 10:00:00 GMT", "Via: 1.1 other", "Upgrade: x",
    "X-Forwarded-For: 192.0.2.1", "Authorization: Basic eDp5", "Host: again",
]  # fmt: skip

heads = st.builds(
    lambda method, target, minor, fields: "".join(
        f"{line}\r\n" for line in (f"{method} {target} HTTP/1.{minor}", "Host: x", *fields, "")
    ).encode(),
    st.sampled_from(["GET"] * 8 + ["HEAD", "HEAD", "POST"]),
    st.sampled_from(list(PAGES)),
    st.sampled_from("1110"),
    st.lists(st.sampled_from(FIELDS), max_size=3),
)
steps = st.lists(heads | st.sampled_from([1, 2, 58]), min_size=1, max_size=6)


async def app(call: Call) -> None:
    status, fields, body = PAGES[call.target]
    if "if-none-match" in call.headers and any('"1"' in f for f in fields):
        status = 304
    await call.answer(DATE, *fields, status=status, body=body)


Pair = tuple[Server, Server]


@asynccontextmanager
async def both() -> AsyncIterator[tuple[Pair, Callable[[int], Awaitable[None]]]]:
    """The same cache with the lane and without, and what lets time pass for both."""
    with pytest.MonkeyPatch.context() as patch:
        clocks = Clocks()
        clocks.begun = NOW
        patch.setattr(edgebox.epoch, "time", clocks)
        keys: dict[str, dict[str, object]] = {
            "route": {"bypass_cookies": ("sid",)},
            "compression": {"enabled": True},
        }
        async with listening(app) as origin:
            plain = before(
                origin.url, server={"express": False}, **{k: dict(v) for k, v in keys.items()}
            )
            async with serving(before(origin.url, **keys)) as lane, serving(plain) as tasks:

                async def pass_time(seconds: int) -> None:
                    clocks.wall += seconds
                    clocks.steady += seconds
                    for server in (lane, tasks):
                        server.worker.epoch.turn()

                yield (lane, tasks), pass_time


async def settle(server: Server) -> None:
    """Until nothing goes on behind the clients' backs."""
    with trio.fail_after(PATIENCE):
        while True:
            statistics = server.worker.caching.engine.statistics()
            if not statistics["flights"] and not statistics["wishes"]:
                return
            await trio.sleep(0.001)


@pytest.mark.slow
@settings(max_examples=12)
@given(steps)
async def test_cached_answers_are_the_same_from_the_lane_and_from_tasks(
    drawn: list[bytes | int],
) -> None:
    async with both() as (servers, pass_time):
        for step in drawn:
            if isinstance(step, int):
                await pass_time(step)
                continue
            for _ in range(3):  # first sight, known block, known head
                answers = []
                for server in servers:
                    answers.append(await server.exchange(step, end=True))
                    await settle(server)
                assert answers[0] == answers[1], step


async def test_hot_cached_answers_do_come_from_the_lane() -> None:
    async with both() as ((lane, _), pass_time):
        for target in ("/plain", "/spoken", "/tagged", "/missing"):
            for _ in range(4):
                await lane.get(target, "Accept-Language: de")
        served = lane.worker.counters.statistics()["express"]
        assert served >= 4  # at least once each is known
        await pass_time(1)
        for target in ("/plain", "/spoken", "/tagged", "/missing"):
            answer = await lane.get(target, "Accept-Language: de")
            assert answer.headers["age"] == "6"  # five by its Date, and the second that passed
        assert lane.worker.counters.statistics()["express"] == served + 4
