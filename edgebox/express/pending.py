"""Connections whose answer is on its way from an upstream, while no task waits for it.

Each has two descriptors in the lane's epoll: the upstream's, which is armed for one event at a
time, and the client's, which is deaf from the moment that it has something to say: nothing
more is read of a client before it has its answer, and a level that nobody lowers would spin.
"""

from __future__ import annotations

import select
from typing import NamedTuple, Protocol

from edgebox.handlers.exchange import Exchange
from edgebox.http.message import Request, Response
from edgebox.listen.connection import Connection
from edgebox.observe.access_log import Asked

_ONCE = select.EPOLLIN | select.EPOLLONESHOT


class Relay(Protocol):
    """A request that somebody else answers. See handlers/relay for one."""

    asked: Asked
    began: float  # on trio's clock

    def fileno(self) -> int: ...
    def advance(self) -> Response | None: ...
    def carry_on(self) -> None: ...
    async def finish(self, exchange: Exchange) -> Response: ...
    def abandon(self) -> None: ...


class Begun(NamedTuple):
    """A request that `relay` has sent on: its `line`, and `tail`, the access log's piece of
    its header block."""

    relay: Relay
    request: Request
    line: bytes
    tail: bytes


class Pending(NamedTuple):
    """What was `begun` for `conn`, which sent the octets `head`."""

    begun: Begun
    conn: Connection
    head: bytes


class Waiting:
    """Who waits, by either descriptor."""

    def __init__(self, epoll: select.epoll) -> None:
        self._epoll = epoll
        self._by_upstream: dict[int, Pending] = {}
        self._clients: dict[int, bool] = {}  # whether the epoll has them

    def __len__(self) -> int:
        return len(self._clients)

    def add(self, pending: Pending, is_watched: bool) -> None:
        """`is_watched`: the epoll has the client's descriptor already."""
        fd = pending.begun.relay.fileno()
        try:
            self._epoll.modify(fd, _ONCE)
        except FileNotFoundError:  # the first time for this connection
            self._epoll.register(fd, _ONCE)
        self._by_upstream[fd] = pending
        self._clients[pending.conn.sock.fileno()] = is_watched

    def pop(self, fd: int) -> tuple[Pending, bool] | None:
        """Who waits for what the upstream's `fd` has, and whether the epoll has his own."""
        pending = self._by_upstream.pop(fd, None)
        if pending is None:
            return None
        return pending, self._clients.pop(pending.conn.sock.fileno())

    def hush(self, fd: int) -> bool:
        """Whether a client with something to say is one of ours; he is not listened to then."""
        if fd not in self._clients:
            return False
        if self._clients[fd]:
            self._clients[fd] = False
            self._epoll.unregister(fd)
        return True

    def pop_all(self) -> list[tuple[Pending, bool]]:
        """All of them; the epoll has none of their upstreams any more."""
        popped = []
        for fd in tuple(self._by_upstream):
            self._epoll.unregister(fd)
            found = self.pop(fd)
            assert found is not None
            popped.append(found)
        return popped
