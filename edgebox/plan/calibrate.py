"""What a request costs on this box: CPU time, measured in about a second.

A child answers over loopback in the express lane's manner (epoll, recv, one dictionary look-up,
send), and tells the CPU time that it has used; a client in this process keeps it busy.
Measuring CPU time of the server alone, a noisy machine moves it little, where requests a
second would jump by half. Two sizes of answer give two unknowns: µs a request, µs a byte.
What a task costs is scaled from the prototype's ratio: running one would take the server.
"""

from __future__ import annotations

import datetime
import select
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from edgebox.plan.assumptions import Costs

SMALL, LARGE = 449, 26_890  # the field's two files
CONNECTIONS = 32
SECONDS = 0.35  # for each size
WAIT = 5.0  # seconds that anything here may take at most

_PRIOR = Costs()


class CalibrationError(Exception):
    """The measurement could not be made; the message says why."""


def calibrate(today: datetime.date, seconds: float = SECONDS) -> Costs:
    """This box's costs. Raises CalibrationError."""
    try:
        with _server() as port:
            small = _microseconds(port, SMALL, seconds)
            large = _microseconds(port, LARGE, seconds)
    except (OSError, ValueError, subprocess.SubprocessError) as problem:
        raise CalibrationError(f"no measurement: {problem}") from problem
    return costs(small, large, f"measured here over loopback, {today:%Y-%m-%d}")


def costs(small: float, large: float, source: str) -> Costs:
    """A line through two points: µs for an answer of SMALL and of LARGE bytes."""
    byte = max(0.0, (large - small) / (LARGE - SMALL))  # µs
    request = max(0.01, small - byte * SMALL)
    return Costs(
        request=round(request, 2),
        byte=round(byte * 1000, 3),
        task=round(request * _PRIOR.task / _PRIOR.request, 1),
        source=source,
    )


@contextmanager
def _server() -> Iterator[int]:
    child = subprocess.Popen(
        [sys.executable, "-m", "edgebox.plan.calibrate"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert child.stdout is not None
    try:
        yield int(child.stdout.readline())
    finally:
        child.kill()
        child.wait(WAIT)
        child.stdout.close()
        if child.stdin is not None:
            child.stdin.close()


def _microseconds(port: int, length: int, seconds: float) -> float:
    """CPU time of one answer of `length` bytes, over many."""
    with socket.create_connection(("127.0.0.1", port), WAIT) as teller:
        before = _spent(teller)
        answered = _load(port, f"GET /{length}\n".encode(), length, seconds)
        spent = _spent(teller) - before
    if not answered:
        raise ValueError("no answer came in time")
    return spent / answered / 1000


def _spent(teller: socket.socket) -> int:
    """Nanoseconds of CPU that the server has used."""
    teller.sendall(b"TELL\n")
    return int(teller.recv(64))


def _load(port: int, request: bytes, length: int, seconds: float) -> int:
    """A closed loop on some connections; the number of whole answers."""
    clients: dict[int, socket.socket] = {}
    missing: dict[int, int] = {}
    answered = 0
    with select.epoll() as poll:
        try:
            for _ in range(CONNECTIONS):
                client = socket.create_connection(("127.0.0.1", port), WAIT)
                client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                clients[client.fileno()], missing[client.fileno()] = client, length
                poll.register(client, select.EPOLLIN)
                client.sendall(request)
            end = time.monotonic() + seconds
            while time.monotonic() < end:
                for fd, _ in poll.poll(0.1):
                    got = len(clients[fd].recv(65536))
                    if not got:
                        raise OSError("the server hung up")
                    missing[fd] -= got
                    if missing[fd] <= 0:
                        answered += 1
                        missing[fd] = length
                        clients[fd].send(request)
        finally:
            for client in clients.values():
                client.close()
    return answered


def serve() -> None:
    """The child: answers until its standard input ends, which is when the parent is gone."""
    answers = {f"GET /{n}\n".encode(): b"x" * n for n in (SMALL, LARGE)}
    with socket.create_server(("127.0.0.1", 0), backlog=2 * CONNECTIONS) as listener:
        print(listener.getsockname()[1], flush=True)
        poll = select.epoll()
        poll.register(listener, select.EPOLLIN)
        poll.register(sys.stdin, select.EPOLLHUP)
        clients: dict[int, socket.socket] = {}
        while True:
            for fd, _ in poll.poll():
                if fd in clients:
                    _answer(clients, fd, answers)
                elif fd == listener.fileno():
                    client, _ = listener.accept()
                    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    clients[client.fileno()] = client
                    poll.register(client, select.EPOLLIN)
                else:
                    return


def _answer(clients: dict[int, socket.socket], fd: int, answers: dict[bytes, bytes]) -> None:
    client = clients[fd]
    try:
        request = client.recv(4096)
        answer = answers.get(request)
        if answer is not None:
            client.sendall(answer)
        elif request:
            client.sendall(b"%d" % time.process_time_ns())
        else:
            clients.pop(fd).close()
    except ConnectionError:
        clients.pop(fd).close()


if __name__ == "__main__":
    serve()
