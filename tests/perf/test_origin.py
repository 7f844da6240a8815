"""The origin answers what its paths say, and counts what it is asked."""

from __future__ import annotations

import http.client
import os
import shutil
import socket
import time
from collections.abc import Iterator
from email.utils import parsedate_to_datetime
from pathlib import Path

import pytest

from perf.connections import exchange, request
from perf.measure import with_reach
from perf.origin import Slow, asked, asked_in_all, judge_hits, judge_misses, running_origin
from perf.results import Sample
from perf.server import ServerFailed

GCC = shutil.which("gcc")
needs_compiler = pytest.mark.skipif(GCC is None, reason="gcc is not installed")
SMALL = os.urandom(449)
BIG = os.urandom(300_000)
SECONDS = 0.3


@pytest.fixture
def origin(tmp_path: Path) -> Iterator[int]:
    assert GCC is not None
    (tmp_path / "small").write_bytes(SMALL)
    (tmp_path / "big").write_bytes(BIG)
    slow = Slow(tmp_path / "big", SECONDS)
    with running_origin(GCC, tmp_path, tmp_path / "small", slow) as port:
        yield port


def get(port: int, target: str) -> tuple[http.client.HTTPResponse, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", target)
        response = connection.getresponse()
        return response, response.read()
    finally:
        connection.close()


@needs_compiler
@pytest.mark.slow
def test_fresh_and_private_answers_and_others(origin: int) -> None:
    fresh, body = get(origin, "/c/any")
    assert (fresh.status, body) == (200, SMALL)
    assert fresh.getheader("Cache-Control") == "max-age=3600"
    assert fresh.getheader("ETag")
    told = parsedate_to_datetime(fresh.getheader("Date") or "")
    assert abs(told.timestamp() - time.time()) < 5
    private, body = get(origin, "/p/any?x=1")
    assert (private.getheader("Cache-Control"), body) == ("private", SMALL)
    assert get(origin, "/elsewhere")[0].status == 404


@needs_compiler
@pytest.mark.slow
def test_every_request_but_that_for_the_count_is_counted(origin: int) -> None:
    assert asked(origin) == 0
    with socket.create_connection(("127.0.0.1", origin)) as client:
        for number in range(3):
            exchange(client, request(origin, f"/c/{number}"), len(SMALL))
        # In pieces, and two in one: it is not fooled by how they arrive.
        client.sendall(b"GET /p/1 HTTP/1.1\r\nHo")
        time.sleep(0.02)
        client.sendall(b"st: x\r\n\r\nGET /p/2 HTTP/1.1\r\n\r\n")
        answers = b""
        while answers.count(SMALL) < 2:
            answers += client.recv(65536)
    assert asked_in_all(origin) == 5


@needs_compiler
@pytest.mark.slow
def test_slow_answers_take_their_time(origin: int) -> None:
    for target, wanted in (("/think/1", SMALL), ("/drip/1", BIG)):
        started = time.monotonic()
        response, body = get(origin, target)
        assert body == wanted
        assert response.getheader("Cache-Control") == "max-age=3600"
        assert time.monotonic() - started >= SECONDS * 0.95
    assert asked(origin) == 2


@needs_compiler
@pytest.mark.slow
def test_an_origin_that_cannot_start_says_so(tmp_path: Path) -> None:
    assert GCC is not None
    with (
        pytest.raises(ServerFailed, match="ended with 1"),
        running_origin(GCC, tmp_path, tmp_path / "nothing"),
    ):
        pass


def test_a_hit_asks_nobody() -> None:
    assert judge_hits(0) == ""
    assert "1 requests" in judge_hits(1)


def test_a_miss_asks_the_origin_once() -> None:
    assert judge_misses(1000, 1000, 64) == ""
    assert judge_misses(1064, 1000, 64) == ""
    assert judge_misses(999, 1000, 64)
    assert judge_misses(1065, 1000, 64)


def test_a_wrong_reach_spoils_a_sample_and_is_told_beside_other_faults() -> None:
    clean = with_reach(Sample(8.0), 0, "")
    assert (clean.fault, clean.details["upstream_requests"]) == ("", 0)
    spoilt = with_reach(Sample(8.0, "socket errors: read 3"), 7, judge_hits(7))
    assert spoilt.fault == "socket errors: read 3; no hits: 7 requests went to the upstream"
