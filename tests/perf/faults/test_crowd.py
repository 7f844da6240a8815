"""A crowd on real sockets: what becomes of each request is told as it was."""

from __future__ import annotations

import socketserver
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from perf.faults.answer import Target
from perf.faults.app import answer, body_of
from perf.faults.crowd import Crowd

PATH = "/app/0/x"
TARGETS = [Target(PATH, body_of(PATH))]
Behave = Callable[[socketserver.StreamRequestHandler, int], bool]


@contextmanager
def serving(behave: Behave) -> Iterator[int]:
    """A server that has `behave` answer the nth request of a connection; False ends it."""

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            number = 0
            while self.rfile.readline():
                while self.rfile.readline().strip():
                    pass
                number += 1
                if not behave(self, number):
                    return

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = True

    with Server(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            thread.join()


def right(handler: socketserver.StreamRequestHandler, number: int) -> bool:
    handler.wfile.write(answer(PATH, 0.0))
    return True


def ask(behave: Behave, turnover: float = 0.0, answers: int = 6) -> Crowd:
    """The crowd, when it is over, after so many requests."""
    with serving(behave) as port, Crowd(port, TARGETS, 2, 0.002, turnover) as crowd:
        until = time.monotonic() + 20
        while crowd.tally.sent < answers and time.monotonic() < until:
            time.sleep(0.002)
    assert crowd.tally.sent >= answers
    return crowd


@pytest.mark.parametrize("turnover", [0.0, 1.0])
def test_right_answers_are_counted_and_nothing_else(turnover: float) -> None:
    tally = ask(right, turnover).tally
    assert tally.right == tally.sent == len(tally.answers)
    assert (tally.lost, tally.wrong, tally.refused, tally.named.total()) == ([], [], 0, 0)


def test_an_end_after_the_answer_is_no_loss() -> None:
    tally = ask(lambda handler, number: right(handler, number) and False).tally
    assert tally.right >= 1
    # Who asked on his connection before he heard of its end has met that.
    assert all(mishap.crossed or "eset" in mishap.why for mishap in tally.lost)


def test_an_end_instead_of_the_answer_is_one() -> None:
    tally = ask(lambda handler, number: False).tally
    assert len(tally.lost) == tally.sent
    assert {mishap.path for mishap in tally.lost} == {PATH}


def test_half_an_answer_is_one() -> None:
    def cut(handler: socketserver.StreamRequestHandler, number: int) -> bool:
        handler.wfile.write(answer(PATH, 0.0)[:-1])
        return False

    tally = ask(cut).tally
    assert len(tally.lost) == tally.sent
    assert "octets" in tally.lost[0].why


def test_another_body_is_wrong() -> None:
    def lie(handler: socketserver.StreamRequestHandler, number: int) -> bool:
        handler.wfile.write(answer(PATH, 0.0)[:-2] + b"?\n")
        return True

    tally = ask(lie).tally
    assert len(tally.wrong) == tally.sent


def test_a_named_status_is_counted_by_itself() -> None:
    def refuse(handler: socketserver.StreamRequestHandler, number: int) -> bool:
        handler.wfile.write(b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n")
        return True

    tally = ask(refuse).tally
    assert dict(tally.named) == {503: tally.sent}


def test_nobody_there_is_refused_and_nothing_sent() -> None:
    with serving(right) as port:
        pass
    with Crowd(port, TARGETS, 2, 0.002) as crowd:
        until = time.monotonic() + 20
        while not crowd.tally.refused and time.monotonic() < until:
            time.sleep(0.002)
    assert crowd.tally.refused > 0
    assert (crowd.tally.sent, crowd.tally.lost) == (0, [])
