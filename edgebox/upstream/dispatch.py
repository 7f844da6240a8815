"""Which server gets a request, and who waits while all are busy.

Servers that are up come first, then backups that are up. Where every one of them has failed
requests lately they are asked all the same: refusing for certain is no better than failing
perhaps, and with one server it would turn three bad answers into ten dark seconds. Only
checks and operators can leave nobody to ask.

When a connection comes free, the one who has waited longest gets it; nobody overtakes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

import trio

from edgebox.upstream.balance import Balance
from edgebox.upstream.errors import Reason, UpstreamError
from edgebox.upstream.health import Standing
from edgebox.upstream.server import Server

_RANKS = {Standing.UP: 0, Standing.TRIAL: 0, Standing.EJECTED: 2}  # a backup comes one later


def eligible(servers: Iterable[Server], now: float, tried: Collection[Server] = ()) -> list[Server]:
    """The servers to choose from, however busy, but for those in `tried`; none if all are out."""
    found: list[Server] = []
    best = len(_RANKS) + 1
    for server in servers:
        rank = _RANKS.get(server.standing(now))
        if rank is None or server.drained or server in tried:
            continue
        rank += server.backup
        if rank < best:
            found, best = [server], rank
        elif rank == best:
            found.append(server)
    return found


class _Waiter:
    """One request in the queue: it gets a server, or an error, and is woken."""

    __slots__ = ("error", "key", "server", "tried", "woken")

    def __init__(self, key: bytes, tried: Collection[Server]) -> None:
        self.key = key
        self.tried = tried
        self.server: Server | None = None
        self.error: UpstreamError | None = None
        self.woken = trio.Event()


class Dispatcher:
    """Gives out places at `servers`; at most `queue` requests wait, `timeout` seconds each."""

    def __init__(
        self, servers: tuple[Server, ...], balance: Balance, queue: int, timeout: float
    ) -> None:
        self._servers = servers
        self._balance = balance
        self._queue = queue
        self._timeout = timeout
        self._waiters: dict[_Waiter, None] = {}  # in the order of arrival
        self._waited = 0
        for server in servers:
            server.when_changed = self.wake

    def acquire_nowait(
        self, key: bytes, now: float, tried: Collection[Server] = ()
    ) -> Server | None:
        """A server with a place for a request, which is taken (`Server.occupy`).

        None: all are busy, or others were first. UpstreamError: NO_SERVER.
        """
        return None if self._waiters else self._choose(key, now, tried)

    async def acquire(self, key: bytes, tried: Collection[Server] = ()) -> Server:
        """As above, but wait for a place. UpstreamError: QUEUE_FULL, QUEUE_TIMEOUT as well."""
        if len(self._waiters) >= self._queue:
            raise UpstreamError(Reason.QUEUE_FULL)
        waiter = _Waiter(key, tried)
        self._waiters[waiter] = None
        self._waited += 1
        self.wake()  # a term may be over that nobody has noticed
        try:
            with trio.move_on_after(self._timeout):
                await waiter.woken.wait()
        except BaseException:
            if waiter.server is not None:  # given in the same instant
                waiter.server.vacate()
            raise
        finally:
            self._waiters.pop(waiter, None)
        if waiter.server is not None:
            return waiter.server
        raise waiter.error or UpstreamError(Reason.QUEUE_TIMEOUT, f"{self._timeout:g} s")

    def has_another(self, tried: Collection[Server]) -> bool:
        """Whether a server could be asked that is not in `tried`."""
        return bool(eligible(self._servers, trio.current_time(), tried))

    def wake(self) -> None:
        """Give places to those who wait, in order, as far as there are any."""
        for waiter in tuple(self._waiters) if self._waiters else ():
            try:
                waiter.server = self._choose(waiter.key, trio.current_time(), waiter.tried)
            except UpstreamError as error:
                waiter.error = error
            else:
                if waiter.server is None:
                    if waiter.tried:
                        continue  # the next one may be less choosy
                    return
            del self._waiters[waiter]
            waiter.woken.set()

    def statistics(self) -> dict[str, int]:
        return {"waiting": len(self._waiters), "waited": self._waited}

    def _choose(self, key: bytes, now: float, tried: Collection[Server]) -> Server | None:
        servers = eligible(self._servers, now, tried)
        if not servers:
            raise UpstreamError(Reason.NO_SERVER)
        free = [server for server in servers if server.has_room]
        if not free:
            return None
        server = self._balance.choose(free, key)
        server.occupy(now)
        return server
