"""How many octets may go out: of the whole server, to one client address, on one connection.

A budget fills at its rate and may be overdrawn: whoever finds room sends a piece, and the next
piece waits until that is paid for. So nothing is reserved and nothing given back, and a limit
holds over any time longer than a piece takes.

Each limit is kept where it costs least. A connection's by the kernel, where it paces
(SO_MAX_PACING_RATE, socket(7); with any congestion control since Linux 4.13): set on the
listener, it is inherited, and the express lane pays nothing for it. All others, and that of Unix
sockets, are budgets here. Small answers overdraw the server's and go at once; what is long
waits for room. So with `server_rate` a little below the link's, the queue of a full link stands
here, where small is told from large, and not in the network card.

Times are `trio.current_time()`.
"""

from __future__ import annotations

import socket
from collections.abc import Sequence
from dataclasses import dataclass
from socket import AF_UNIX
from weakref import WeakValueDictionary

import trio

from edgebox.listen.connection import Connection

FASTEST = 2**31 - 1  # octets a second: 17 Gbit/s, the most that an int of C has room for
SO_MAX_PACING_RATE = 47  # asm-generic/socket.h; socket has no name for it

CATCH_UP = 0.020  # seconds: so much of what was missed, being late, may be sent at once
OWED = 0.25  # seconds of the server's rate: for who owes more, small answers wait too
SMALL = 64 * 1024  # octets that do not wait for the server's room
PIECES = 16  # a second, for who is limited: smooth to a human
LEAST = 2048  # octets a piece: less is not worth a call


@dataclass(frozen=True, slots=True)
class Rates:
    """Octets a second, 0 for no limit; see [limits] in edgebox.toml."""

    server: int = 0
    connection: int = 0
    client: int = 0

    def least(self, rate: int) -> int:
        """The minimum rate to hold readers to, `rate` at most: not to what we keep them from."""
        return min(rate, self.connection // 2) if self.connection else rate


class Budget:
    """Room for `rate` octets a second. It is never more than CATCH_UP's worth."""

    __slots__ = ("__weakref__", "_at", "_room", "rate")

    def __init__(self, rate: int) -> None:
        self.rate = rate
        self._room = rate * CATCH_UP
        self._at = 0.0

    def room(self, now: float, catch_up: float = CATCH_UP) -> float:
        """Octets that may go now; below zero for what is overdrawn.

        `catch_up`: what was missed more than so many seconds ago is given up.
        """
        self._room = min(self.rate * catch_up, self._room + (now - self._at) * self.rate)
        self._at = now
        return self._room

    def spend(self, octets: int) -> None:
        """So many have gone."""
        self._room -= octets

    def due(self, now: float, catch_up: float = CATCH_UP) -> float:
        """The moment from which there is room: `now`, or later."""
        room = self.room(now, catch_up)
        return now if room > 0 else now + (1 - room) / self.rate

    @property
    def piece(self) -> int:
        """How many octets to send at a time."""
        return min(SMALL, max(LEAST, self.rate // PIECES))

    def is_full(self, now: float) -> bool:
        """Whether a new one would be as good."""
        return self.room(now) >= self.rate * CATCH_UP


class Bandwidth:
    """The budgets in force."""

    __slots__ = ("_clients", "_overdrawn", "_rates", "passing", "server")

    def __init__(self, rates: Rates = Rates()) -> None:
        self._rates = rates
        self.server = Budget(rates.server) if rates.server else None
        self._clients: WeakValueDictionary[bytes, Budget] = WeakValueDictionary()
        self.passing = False  # whether something small has gone since somebody last looked
        self._overdrawn: list[Budget] = []  # who leaves and comes back has not paid by that

    def pace(self, listeners: Sequence[socket.socket]) -> bool:
        """Have the kernel pace what is accepted there; False where it cannot keep all limits."""
        rate, paced = self._rates.connection, not self._rates.client
        for listener in listeners:
            if rate and listener.family == AF_UNIX:
                paced = False
            elif rate:
                listener.setsockopt(socket.SOL_SOCKET, SO_MAX_PACING_RATE, min(rate, FASTEST))
        return paced

    def spend(self, octets: int) -> None:
        """So many have gone, on account of the server."""
        if self.server is not None:
            self.server.spend(octets)
            self.passing = True

    async def wait_solvent(self) -> None:
        """Until the server owes less than OWED. A checkpoint only where it has to wait."""
        while self.server is not None:
            now = trio.current_time()
            due = self.server.due(now, OWED) - OWED  # what is missed is for the carrier to judge
            if due <= now:
                return
            await trio.sleep_until(due)

    def budgets(self, conn: Connection) -> tuple[Budget, ...]:
        """Those of one connection, the server's apart."""
        if conn.sock.family == AF_UNIX:  # it has no address, and no kernel that paces it
            rate = self._rates.connection
            return (Budget(rate),) if rate else ()
        if not self._rates.client:
            return ()
        budget = self._clients.get(conn.peer)
        if budget is None:
            budget = self._clients[conn.peer] = Budget(self._rates.client)
            self._overdrawn.append(budget)
        return (budget,)

    def turn(self, now: float) -> None:
        """A second has passed: forget the clients that are gone and owe nothing."""
        self._overdrawn = [it for it in self._clients.values() if not it.is_full(now)]

    def statistics(self) -> dict[str, int]:
        return {"clients": len(self._clients)}


def due(budgets: Sequence[Budget], now: float) -> float:
    """The moment from which all of them have room."""
    return max((budget.due(now) for budget in budgets), default=now)


def piece(budgets: Sequence[Budget]) -> int:
    """How many octets to send at a time; 0 for as many as there are."""
    return min((budget.piece for budget in budgets), default=0)


def spend(budgets: Sequence[Budget], octets: int) -> None:
    """So many have gone, on account of all of them."""
    for budget in budgets:
        budget.spend(octets)
