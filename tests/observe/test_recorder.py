"""What the access log tells, from the lane and from tasks, and who may listen."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio
import trio.testing
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from edgebox.observe.access_log import Combined, Entry
from edgebox.observe.error_log import ErrorLog
from edgebox.observe.log_format import make_format
from edgebox.observe.query import compile_query
from edgebox.observe.recorder import Recorder
from edgebox.observe.sink import Sink
from tests.origin import Call, Origin, age, before, listening, running
from tests.wire import PATIENCE, Server, configure, request, serving


def recorder(target: str = "-", **choices: object) -> Recorder:
    sink = Sink(target, 1, 1_000_000)
    form = choices.pop("form", Combined())
    errors = ErrorLog(Sink("off", 2, 10, "error"), "debug")
    return Recorder(sink, form, errors, **choices)  # type: ignore[arg-type]


def lines_of(recorder: Recorder) -> int:
    return b"".join(recorder.sink.pieces).count(b"\n")


OUT_OF_ORDER = make_format("$status $remote_addr", {})


@pytest.mark.parametrize(
    ("told", "in_pieces", "wants_entries"),
    [
        (recorder(), True, False),
        (recorder(form=OUT_OF_ORDER), False, True),
        (recorder(sample=2), False, True),
        (recorder(only=compile_query("status >= 400")), False, True),
        (recorder("off"), False, False),
        (recorder("off", form=OUT_OF_ORDER), False, False),
    ],
)
def test_who_writes_lines(told: Recorder, in_pieces: bool, wants_entries: bool) -> None:
    assert (told.in_pieces, told.wants_entries) == (in_pieces, wants_entries)
    changes: list[tuple[bool, bool]] = []
    told.on_change(lambda: changes.append((told.in_pieces, told.wants_entries)))
    untap = told.tap(lambda record: None)
    untap()
    untap()
    assert changes == [(False, True), (in_pieces, wants_entries)]


def test_only_what_is_meant_is_logged_and_whoever_taps_hears_all() -> None:
    told = recorder(only=compile_query("status >= 400"))
    heard: list[dict[str, object]] = []
    told.tap(heard.append)
    for status in (200, 404, 304, 500):
        told.record(Entry(line=b"GET / HTTP/1.1", status=status))
    assert lines_of(told) == 2
    assert [record["status"] for record in heard] == [200, 404, 304, 500]


@settings(max_examples=25)
@given(st.integers(1, 20), st.lists(st.sampled_from([200, 304, 404, 500]), max_size=200))
def test_a_sample_has_every_error_and_one_in_so_many_of_the_rest(
    sample: int, statuses: list[int]
) -> None:
    told = recorder(sample=sample)
    for status in statuses:
        told.record(Entry(status=status))
    fine = sum(status < 400 for status in statuses)
    assert lines_of(told) == len(statuses) - fine + -(-fine // sample)


def test_lost_lines_are_told_once(tmp_path: Path) -> None:
    told = Recorder(
        Sink(str(tmp_path / "access.log"), 1, 100),
        Combined(),
        ErrorLog(Sink(str(tmp_path / "error.log"), 2, 1000, "error"), "info"),
    )
    for _ in range(7):
        told.record(Entry(line=b"GET / HTTP/1.1", status=200))
    told.turn(1_796_000_000)
    told.turn(1_796_000_001)
    assert [text for _, _, text in told.errors.recent] == [
        "7 lines of the access log were lost: they are written too slowly"
    ]


async def settled() -> None:
    """Return once every session has written down what its client has got."""
    with trio.fail_after(PATIENCE):
        await trio.testing.wait_all_tasks_blocked(0.01)


HEADS = [
    request("/", 'User-Agent: a "b"', "Referer: http://x/", "X-Request-Id: one"),
    request("/none", "Cookie: a=b", host="X.example:80"),
    request("/a.txt?q=1", "Range: bytes=0-3", f"traceparent: 00-{'a' * 32}-{'b' * 16}-01"),
    request("/", method="HEAD"),
    b"GET /a.txt HTTP/1.0\r\n\r\n",
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(
    "log",
    [
        {"format": "combined"},
        {"format": "json"},
        {"format": "$status $remote_addr $request $http_cookie $host $bytes_sent $request_id"},
        {"format": "$host $trace_id $http_x_request_id"},
        {"only": "status >= 400 or path ~ a.txt"},
        {"sample": 3},
    ],
    ids=str,
)
async def test_lane_and_tasks_write_the_same(
    root: Path, tmp_path: Path, log: dict[str, object]
) -> None:
    texts = []
    for express in (True, False):
        path = tmp_path / f"log-{express}"
        config = configure(root, server={"express": express}, log={"access": str(path), **log})
        async with serving(config) as server:
            for head in HEADS:
                async with server.connect() as client:
                    for _ in range(1 if b"HTTP/1.0" in head else 4):
                        await client.send(head)
                        await client.read_answer(head[:4].decode().strip())
            await settled()
            assert bool(server.worker.counters.statistics()["express"]) is express
        texts.append(re.sub(rb'\[.*?\]|"(request_)?time":[^,]+', b"", path.read_bytes()))
    assert texts[0] == texts[1]
    assert texts[0].count(b"\n") >= 6


async def test_a_tap_hears_the_lane_and_lets_go_of_it(root: Path, tmp_path: Path) -> None:
    path = tmp_path / "log"
    config = configure(root, log={"access": str(path)})
    heard: list[dict[str, object]] = []
    async with serving(config) as server, server.connect() as client:
        told = server.worker.service.recorder

        async def ask(count: int) -> None:
            for _ in range(count):
                await client.send(request("/", "User-Agent: me"))
                await client.read_answer()

        await ask(4)
        untap = told.tap(heard.append)
        await ask(4)
        untap()
        await ask(4)
        await settled()
        assert server.worker.counters.statistics()["express"] >= 9
    assert len(heard) == 4
    for record in heard:
        assert (record["status"], record["path"], record["host"]) == (200, "/", "x")
        assert (record["user_agent"], record["cache"]) == ("me", "")
    lines = path.read_bytes().splitlines()
    assert len(lines) == 12
    assert len({re.sub(rb"\[.*?\]", b"", line) for line in lines}) == 1, "all are alike"


async def test_a_tap_is_heard_without_a_log(root: Path) -> None:
    heard: list[dict[str, object]] = []
    async with serving(configure(root)) as server, server.connect() as client:
        server.worker.service.recorder.tap(heard.append)
        for _ in range(3):
            await client.send(request("/a.txt"))
            await client.read_answer()
        await settled()
    assert [record["bytes"] for record in heard] == [100, 100, 100]


async def app(call: Call) -> None:
    if call.target == "/private":
        await call.answer("Cache-Control: private", body=b"mine")
    elif call.target == "/down":
        await call.close()
    elif call.target == "/slow":
        await call.begin("Cache-Control: no-store")
        await call.chunk(b"first")
        await trio.sleep(0.05)
        await call.chunk(b"")
    else:
        await call.answer("Cache-Control: max-age=60", 'ETag: "1"', body=b"page")


@asynccontextmanager
async def logged(path: Path, **log: object) -> AsyncIterator[tuple[Server, Origin]]:
    """edgebox before the app, with a log in JSON."""
    async with listening(app) as origin:
        config = before(origin.url)
        log = {"access": str(path), "format": "json", "error": "off"} | log
        async with running(replace(config, log=replace(config.log, **log))) as server:
            yield server, origin


@pytest.mark.slow
async def test_the_log_says_hit_and_miss_with_reasons(tmp_path: Path) -> None:
    async with logged(tmp_path / "log") as (server, origin):
        for target in ("/", "/", "/", "/private", "/down", "/slow"):
            await server.get(target)
        age(server, 100)
        await server.get("/", "Cache-Control: only-if-cached")
        await settled()
    told = [json.loads(line) for line in (tmp_path / "log").read_bytes().splitlines()]
    assert [(t["status"], t["cache"], t["reason"]) for t in told] == [
        (200, "MISS", "nothing-stored"),
        (200, "HIT", "fresh"),
        (200, "HIT", "fresh"),
        (200, "MISS", "private"),
        (502, "MISS", "nothing-stored"),
        (200, "MISS", "no-store"),
        (504, "MISS", "only-if-cached"),
    ]
    asked = [t for t in told if t["upstream"]]
    assert [t["request"].split(" ")[1] for t in asked] == ["/", "/private", "/down", "/slow"]
    assert {t["upstream"] for t in asked} == {origin.url}
    for t in asked:
        assert 0 <= t["upstream_time"] <= t["request_time"] + 0.001
        assert re.fullmatch("[0-9a-f]{32}", t["request_id"])
    assert asked[-1]["upstream_time"] >= 0.05
    hit = told[1]
    assert (hit["upstream_time"], hit["request_id"], hit["bytes"]) == (None, "", 4)


async def test_request_ids_and_spans_are_those_that_the_app_got(tmp_path: Path) -> None:
    form = "$request_id $trace_id $span_id $upstream_header_time"
    trace = "a" * 32
    async with logged(tmp_path / "log", format=form, trace="span") as (server, origin):
        await server.get("/1", "X-Request-Id: mine", f"traceparent: 00-{trace}-{'b' * 16}-00")
        await server.get("/2", "X-Request-Id: not \x09 sound")
        await settled()
    lines = (tmp_path / "log").read_bytes().splitlines()
    first, second = (call.headers for call in origin.calls)
    assert first["x-request-id"] == "mine"
    assert re.fullmatch(f"00-{trace}-[0-9a-f]{{16}}-00", first["traceparent"])
    assert re.fullmatch("[0-9a-f]{32}", second["x-request-id"])
    assert second["traceparent"].endswith("-01")
    for line, headers in zip(lines, (first, second), strict=True):
        told = line.decode().split(" ")
        assert told[0] == headers["x-request-id"]
        assert headers["traceparent"].split("-")[1:3] == told[1:3]
        assert float(told[3]) >= 0


async def test_without_an_upstream_the_client_s_own_id_is_told(root: Path, tmp_path: Path) -> None:
    path = tmp_path / "log"
    config = configure(root, log={"access": str(path), "format": "$request_id"})
    async with serving(config) as server:
        for identity in ("mine", 'no"ne', ""):
            await server.get("/", f"X-Request-Id: {identity}")
        await settled()
    assert path.read_bytes() == b"mine\n-\n-\n"


async def test_refused_requests_are_logged(root: Path, tmp_path: Path) -> None:
    path = tmp_path / "log"
    config = configure(root, log={"access": str(path), "format": "json"})
    async with serving(config) as server:
        await server.exchange(b"GET / HTTP/2.0\r\nHost: Some:80\r\n\r\n")
        await server.exchange(b"\x16\x03\x01\x00", end=True)
        await settled()
    told = [json.loads(line) for line in path.read_bytes().splitlines()]
    assert [(t["status"], t["request"], t["host"]) for t in told] == [
        (505, "GET / HTTP/2.0", "some"),
        (400, "\x16\x03\x01\x00", ""),
    ]
