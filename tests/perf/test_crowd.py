"""A crowd is satisfied only if each client gets every octet, and says what was wrong else."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
from collections.abc import Iterator

import pytest

from perf.crowd import Body, ask

OCTETS = os.urandom(400_000)
HEAD = b"HTTP/1.1 200 OK\r\nA: b\r\ncontent-length: 400000\r\n\r\n"


@contextlib.contextmanager
def answering(*pieces: bytes, pause: float = 0.0) -> Iterator[int]:
    """The port of a server that sends `pieces` to whoever asks, and closes."""

    def serve(client: socket.socket) -> None:
        with client, contextlib.suppress(OSError):
            client.recv(4096)
            for piece in pieces:
                client.sendall(piece)
                time.sleep(pause)
            client.shutdown(socket.SHUT_WR)
            client.recv(1)

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = listener.accept()
                threads.append(threading.Thread(target=serve, args=(client,)))
                threads[-1].start()

    threads = [threading.Thread(target=accept)]
    with socket.create_server(("127.0.0.1", 0)) as listener:
        threads[0].start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)
    for thread in threads:
        thread.join()


def test_all_are_served_and_times_are_those_of_the_last() -> None:
    with answering(HEAD[:20], HEAD[20:], OCTETS[:1000], OCTETS[1000:], pause=0.01) as port:
        outing = ask(port, "/x", 20, Body(OCTETS))
    assert outing.faults == ()
    assert 0.02 <= outing.begun <= outing.ended < 10


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (HEAD + OCTETS[:-1], "ended early"),
        (HEAD + OCTETS[:-1] + bytes([OCTETS[-1] ^ 1]), "wrong octets"),
        (HEAD.replace(b"200 OK", b"503 No") + OCTETS, "HTTP/1.1 503 No"),
        (HEAD.replace(b"400000", b"399999") + OCTETS, "Content-Length"),
        (HEAD.replace(b"content-length", b"x") + OCTETS, "Content-Length"),
        (b"A: " + b"b" * 9000, "no end of the head"),
    ],
)
def test_anything_else_is_a_fault(answer: bytes, told: str) -> None:
    with answering(answer) as port:
        outing = ask(port, "/x", 2, Body(OCTETS))
    assert len(outing.faults) == 1
    assert outing.faults[0].startswith("2 × ")
    assert told in outing.faults[0]


def test_more_than_was_promised_is_a_fault() -> None:
    with answering(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello more") as port:
        assert ask(port, "/x", 1, Body(b"hello")).faults == ("1 × wrong octets",)
