"""Puts a load on a server: all its connections in one epoll loop.

A request is sent as soon as its connection is asked for, without waiting for epoll to say
that it stands: on loopback it does by then, which saves a round. A connection that is not to
be kept is not closed before the server has closed, so that the ports which TIME_WAIT holds
are the server's: with ours, a run would end for want of ports after some 28,000 requests.
"""

from __future__ import annotations

import errno
import os
import select
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from edgebox.bench.connection import Answer, Connection, Heads
from edgebox.bench.load import Load, Target
from edgebox.bench.samples import Failure, Samples

PIECE = 64 * 1024
GIVE_UP = 10  # connections refused in a row
RESOLVING = 5.0  # seconds for a first connection to each address of a name

_INPUT = select.EPOLLIN | select.EPOLLRDHUP
_OUTPUT = select.EPOLLOUT
_CLOSED = select.EPOLLRDHUP | select.EPOLLHUP | select.EPOLLERR

Address = tuple[socket.AddressFamily, Any]


class Unreachable(Exception):
    """Nobody answers there; the message says who and why."""


def find_address(target: Target) -> Address:
    """The first address of the target that takes a connection. Raises Unreachable."""
    problem: OSError | None = None
    try:
        found = socket.getaddrinfo(target.host, target.port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise Unreachable(f"{target.host}: {error.strerror}") from error
    for family, kind, _, _, address in found:
        with socket.socket(family, kind) as probe:
            probe.settimeout(RESOLVING)
            try:
                probe.connect(address)
                return family, address
            except OSError as error:
                problem = error
    assert problem is not None  # getaddrinfo finds one or raises
    raise Unreachable(f"{target.authority}: {problem.strerror or problem}")


class Runner:
    """One run. `done` is told how many requests have ended, after each batch."""

    def __init__(self, load: Load, address: Address, done: Callable[[int], None]) -> None:
        self.samples = Samples()
        self._load = load
        self._family, self._address = address
        self._done = done
        self._heads = Heads(load.octets.partition(b" ")[0])
        self._epoll = select.epoll()
        self._open: dict[int, Connection] = {}
        self._unasked = load.requests  # requests that no connection has begun; None: no end
        self._finished = 0
        self._refused = 0  # in a row
        self._epoch = 0.0

    def statistics(self) -> dict[str, int]:
        return {"open": len(self._open), "finished": self._finished} | self._heads.statistics()

    def run(self) -> None:
        """To the end of the load, or until interrupted. Raises Unreachable."""
        self._epoch = now = time.perf_counter()
        try:
            for _ in range(self._load.concurrency):
                self._begin(Connection(self._heads))
            self._loop(now)
        except KeyboardInterrupt:
            self.samples.interrupted = True
        finally:
            self.samples.seconds = time.perf_counter() - self._epoch
            for connection in self._open.values():
                connection.close()
            self._open.clear()
            self._epoll.close()

    def _loop(self, now: float) -> None:
        load, poll, connections = self._load, self._epoll.poll, self._open
        end = now + load.seconds if load.seconds is not None else float("inf")
        patience = min(load.timeout / 4, 0.5)  # seconds between looks for what takes too long
        look = now + patience
        while connections and now < end:
            for descriptor, events in poll(max(0.0, min(look, end) - now), 512):
                connection = connections[descriptor]
                if connection.unsent:
                    self._go_on(connection, events)
                elif connection.ending:
                    self._renew(connection)
                else:
                    self._read(connection, events)
            now = time.perf_counter()
            if now >= look:
                self._give_up_late(now)
                self._done(self._finished)
                look = now + patience

    # A request begins

    def _begin(self, connection: Connection) -> None:
        """The next request on a new connection, if there is another to ask."""
        if self._claim():
            self._connect(connection, time.perf_counter())

    def _claim(self) -> bool:
        if self._unasked is None:
            return True
        if self._unasked == 0:
            return False
        self._unasked -= 1
        return True

    def _connect(self, connection: Connection, begun: float) -> None:
        connection.start(begun)
        try:
            sock = socket.socket(self._family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        except OSError as problem:
            raise Unreachable(f"no further connection: {problem.strerror}") from problem
        connection.sock = sock
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        refused = sock.connect_ex(self._address)
        if refused not in (0, errno.EINPROGRESS):
            self._refuse(connection, refused)
            return
        try:
            self._send(connection, self._load.octets)
        except OSError as problem:
            self._refuse(connection, problem.errno or 0)
            return
        self._open[sock.fileno()] = connection
        self._epoll.register(sock, _INPUT | _OUTPUT if connection.unsent else _INPUT)

    def _ask_again(self, connection: Connection) -> None:
        """The next request on a kept connection, if there is another to ask."""
        if not self._claim():
            self._close(connection)
            return
        connection.start_request()
        connection.begun = time.perf_counter()
        try:
            self._send(connection, self._load.octets)
        except OSError:
            self._cut_off(connection)
            return
        if connection.unsent:
            self._watch(connection, _INPUT | _OUTPUT)

    def _go_on(self, connection: Connection, events: int) -> None:
        """It connects, or the socket takes more, or the server answers before it has all."""
        assert connection.sock is not None
        if not connection.connected:
            refused = connection.sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if refused:
                self._refuse(connection, refused)
                return
        try:
            self._send(connection, connection.unsent)
        except OSError:  # what the server said before it closed is still to be read
            connection.unsent = b""
            connection.spoilt = True
        if not connection.unsent:
            self._watch(connection, _INPUT)
        if events & select.EPOLLIN:
            self._read(connection, events)

    def _send(self, connection: Connection, octets: bytes) -> None:
        """As much as the socket takes; the rest when epoll says so. Raises OSError."""
        assert connection.sock is not None
        try:
            taken = connection.sock.send(octets)
        except BlockingIOError:
            taken = 0
        now = time.perf_counter()
        if taken and not connection.connected:
            connection.connected = now
            self._refused = 0
        self.samples.sent += taken
        connection.unsent = octets[taken:]
        connection.sent = now

    def _watch(self, connection: Connection, events: int) -> None:
        assert connection.sock is not None
        self._epoll.modify(connection.sock, events)

    # An answer comes

    def _read(self, connection: Connection, events: int) -> None:
        assert connection.sock is not None
        try:
            data = connection.sock.recv(PIECE)
        except BlockingIOError:
            return
        except OSError:
            self._cut_off(connection)
            return
        if not data:
            whole = connection.take_end()
            if whole is not None:
                self._complete(connection, whole, closed=True)
            else:
                self._cut_off(connection)
            return
        self.samples.received += len(data)
        if not connection.first:
            connection.first = time.perf_counter()
        answer = connection.take(data)
        if answer is None:
            return
        if isinstance(answer, Answer):
            self._complete(connection, answer, bool(events & _CLOSED))
        else:
            self._fail(connection, Failure.MALFORMED)

    def _complete(self, connection: Connection, answer: Answer, closed: bool) -> None:
        now, samples, begun = time.perf_counter(), self.samples, connection.begun
        samples.add(
            begun - self._epoch,
            0.0 if connection.used else connection.connected - begun,
            connection.first - connection.sent,
            now - begun,
        )
        samples.statuses[answer.status] += 1
        samples.content += answer.length
        if answer.length != samples.length:
            self._compare_length(answer)
        self._finished += 1
        connection.used += 1
        if not self._load.keep_alive:
            if closed:
                self._renew(connection)
            else:
                connection.ending = True
                connection.begun = now
            return
        if answer.reusable and not (closed or connection.unsent or connection.spoilt):
            samples.kept += 1
            self._ask_again(connection)
        else:
            self._renew(connection)

    def _compare_length(self, answer: Answer) -> None:
        if self.samples.length is None:
            self.samples.length = answer.length
            fields = dict(reversed([(n.lower(), v) for n, v in answer.reply.fields]))
            self.samples.server = fields.get(b"server", b"").decode("latin-1")
        elif self._load.same_length:
            self.samples.failures[Failure.LENGTH] += 1

    # It goes wrong

    def _cut_off(self, connection: Connection) -> None:
        if connection.used and not connection.first:
            # Both sides may close a kept connection at any time (RFC 9112 §9.3.1): ask again.
            self.samples.reconnected += 1
            self._close(connection)
            self._connect(connection, connection.begun)
        else:
            self._fail(connection, Failure.RECEIVE)

    def _refuse(self, connection: Connection, number: int) -> None:
        self._refused += 1
        if self._refused >= GIVE_UP:
            self._close(connection)
            raise Unreachable(f"{self._load.target.authority}: {os.strerror(number)}")
        self._fail(connection, Failure.CONNECT)

    def _fail(self, connection: Connection, why: Failure) -> None:
        self.samples.failures[why] += 1
        self._finished += 1
        self._renew(connection)

    def _give_up_late(self, now: float) -> None:
        late = now - self._load.timeout
        for connection in [c for c in self._open.values() if c.begun < late]:
            if connection.ending:
                self._renew(connection)
            else:
                self._fail(connection, Failure.TIMEOUT)

    def _renew(self, connection: Connection) -> None:
        self._close(connection)
        self._begin(connection)

    def _close(self, connection: Connection) -> None:
        if connection.sock is not None:
            with suppress(KeyError):
                del self._open[connection.sock.fileno()]
            connection.close()  # which takes it out of the epoll, too: nobody else has it
