from __future__ import annotations

import itertools
import os
import socket
import time
from collections.abc import Callable
from typing import Any

import pytest

from edgebox.bench.load import Load, parse_target, render_request
from edgebox.bench.runner import Runner, Unreachable, find_address
from edgebox.bench.samples import Failure, Samples

OK = b"HTTP/1.1 200 OK\r\nServer: scripted\r\nContent-Length: 5\r\n\r\nhello"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"
UNTIL_CLOSE = b"HTTP/1.1 200 OK\r\n\r\nuntil"

Serve = Callable[[Callable[[int, bytes], bytes | None]], Any]


def run(url: str, body: bytes = b"", **options: Any) -> Samples:
    asked = {"requests": 20, "concurrency": 4, "seconds": None, "keep_alive": False,
             "timeout": 10.0, "same_length": True} | options  # fmt: skip
    target = parse_target(url)
    octets = render_request(target, "POST" if body else "GET", [], body, asked["keep_alive"])
    runner = Runner(
        Load(target=target, octets=octets, **asked), find_address(target), lambda ended: None
    )
    runner.run()
    return runner.samples


@pytest.mark.parametrize("keep_alive", [False, True])
@pytest.mark.parametrize("answer", [OK, CHUNKED, UNTIL_CLOSE], ids=["length", "chunked", "close"])
def test_each_way_to_end_a_body_is_understood(
    serve: Serve, answer: bytes, keep_alive: bool
) -> None:
    server = serve(lambda number, octets: answer)
    samples = run(server.url, keep_alive=keep_alive)
    assert (samples.complete, samples.failed, samples.length) == (20, 0, 5)
    assert samples.content == 100
    assert samples.received == 20 * len(answer)
    assert len(server.requests) == 20
    kept = keep_alive and answer != UNTIL_CLOSE
    assert samples.kept == (20 if kept else 0)
    assert server.connections - 1 == (4 if kept else 20)  # one is to find the address


def test_a_kept_connection_that_the_server_closes_costs_no_request(serve: Serve) -> None:
    server = serve(lambda number, octets: OK if number < 3 else None)
    samples = run(server.url, keep_alive=True, requests=30)
    assert (samples.complete, samples.failed) == (30, 0)
    assert samples.reconnected > 0


def test_an_answer_that_is_cut_off_is_a_failure(serve: Serve) -> None:
    server = serve(lambda number, octets: OK[:-1] + b"")
    samples = run(server.url)
    assert samples.failures == {Failure.RECEIVE: 20}
    assert samples.complete == 0


def test_a_server_that_closes_without_a_word_fails_each_request(serve: Serve) -> None:
    samples = run(serve(lambda number, octets: None).url)
    assert samples.failures == {Failure.RECEIVE: 20}


def test_another_length_than_the_first_is_a_failure_unless_it_may_vary(serve: Serve) -> None:
    turns = itertools.count()

    def alternate(number: int, octets: bytes) -> bytes:
        return OK if next(turns) % 2 == 0 else OK.replace(b": 5", b": 4")[:-1]

    samples = run(serve(alternate).url, concurrency=1)
    assert (samples.complete, samples.failures) == (20, {Failure.LENGTH: 10})
    samples = run(serve(alternate).url, concurrency=1, same_length=False)
    assert (samples.complete, samples.failed) == (20, 0)


def test_what_is_not_http_is_told_apart(serve: Serve) -> None:
    samples = run(serve(lambda number, octets: b"SSH-2.0-x\r\n\r\n").url)
    assert samples.failures == {Failure.MALFORMED: 20}


def test_statuses_are_counted(serve: Serve) -> None:
    answer = b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n"
    samples = run(serve(lambda number, octets: answer).url, keep_alive=True)
    assert samples.statuses == {503: 20}
    assert samples.failed == 0


@pytest.mark.parametrize("keep_alive", [False, True])
def test_a_large_body_is_sent_whole(serve: Serve, keep_alive: bool) -> None:
    body = bytes(range(256)) * 16 * 1024  # more than a socket takes at once
    server = serve(lambda number, octets: OK)
    samples = run(server.url, body=body, keep_alive=keep_alive, requests=4, concurrency=2)
    assert (samples.complete, samples.failed) == (4, 0)
    assert all(octets.endswith(b"\r\n\r\n" + body) for octets in server.requests)
    assert samples.sent == sum(map(len, server.requests))


@pytest.mark.slow
def test_a_request_that_takes_too_long_is_given_up(serve: Serve) -> None:
    def dawdle(number: int, octets: bytes) -> bytes:
        time.sleep(1)
        return OK

    samples = run(serve(dawdle).url, requests=2, concurrency=2, timeout=0.2)
    assert samples.failures == {Failure.TIMEOUT: 2}
    assert samples.seconds < 1


@pytest.mark.slow
def test_a_time_limit_ends_the_run(serve: Serve) -> None:
    server = serve(lambda number, octets: OK)
    samples = run(server.url, requests=None, seconds=0.3, keep_alive=True)
    assert samples.complete > 20
    assert samples.failed == 0
    assert 0.3 <= samples.seconds < 2


def test_nobody_there_is_said() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(Unreachable, match="refused"):
        run(f"http://127.0.0.1:{port}/")


def test_a_server_that_goes_away_ends_the_run(serve: Serve) -> None:
    def leave(number: int, octets: bytes) -> bytes:
        if len(server.requests) == 5:
            server.close()
        return OK

    server = serve(leave)
    with pytest.raises(Unreachable, match="refused"):
        run(server.url, requests=1000, concurrency=2)


def test_times_add_up(serve: Serve) -> None:
    samples = run(serve(lambda number, octets: OK).url)
    for connecting, waiting, total in zip(
        samples.connecting, samples.waiting, samples.total, strict=True
    ):
        assert 0 < connecting < total
        assert 0 <= waiting < total


def test_no_descriptor_is_left(serve: Serve) -> None:

    server = serve(lambda number, octets: OK)
    run(server.url)
    before = len(os.listdir("/proc/self/fd"))
    run(server.url, keep_alive=True, requests=40, concurrency=8)
    assert len(os.listdir("/proc/self/fd")) <= before + 8  # the server's threads end a bit later
