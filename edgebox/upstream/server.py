"""One app server of a group: its connections, how it is doing, and what it has done."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import trio

from edgebox.upstream import health
from edgebox.upstream.connector import Connector
from edgebox.upstream.errors import UpstreamError
from edgebox.upstream.health import Health, HealthRules, Standing
from edgebox.upstream.lease import Lease
from edgebox.upstream.origin import Origin
from edgebox.upstream.pool import Pool
from edgebox.upstream.wire import Wire

NEWEST = 1 / 16  # weight of the newest in the mean time to a head

Log = Callable[[str, str], None]  # a level and a text, as observe/error_log takes them


@dataclass(frozen=True, slots=True)
class ServerRules:
    """`connections` in use at once; `keep_alive` kept unused for `keep_alive_idle` seconds."""

    connections: int
    keep_alive: int
    keep_alive_idle: float
    health: HealthRules


@dataclass(frozen=True, slots=True)
class Member:
    """What sets a server of a group apart from the others."""

    origin: Origin
    weight: int = 1
    backup: bool = False


class Server:
    """Lends connections to `member.origin`, of which `active` are in use or being made.

    `when_changed` is called when there may be room where none was, or a standing changed.
    `drained`: an operator wants it to get nothing new.
    """

    def __init__(self, member: Member, connector: Connector, rules: ServerRules, log: Log) -> None:
        self.name = str(member.origin)
        self.authority = member.origin.authority
        self.tls = member.origin.tls
        self.weight = member.weight
        self.backup = member.backup
        self.connector = connector
        self.drained = False
        self.active = 0
        self.when_changed: Callable[[], None] = _ignore
        self._rules = rules
        self._log = log
        self._health = health.FINE
        self._head_time = 0.0  # seconds, a mean of late
        self._pool = Pool(rules.keep_alive, rules.keep_alive_idle)
        self._counts = dict.fromkeys(("connections", "reused", "answered", "failed", "ejected"), 0)

    @property
    def has_room(self) -> bool:
        return self.active < self._rules.connections

    def standing(self, now: float) -> Standing:
        health_now = self._health
        return Standing.UP if health_now is health.FINE else health_now.standing(now)

    def occupy(self, now: float) -> None:
        """Count a connection as in use: `lease` comes next."""
        self.active += 1
        if self.standing(now) is Standing.TRIAL:
            self._health = health.begin_trial(self._health, self._rules.health, now)

    def vacate(self) -> None:
        """Undo `occupy`."""
        self.active -= 1
        self.when_changed()

    def lease_nowait(self, now: float) -> Lease | None:
        """A kept connection without TLS; after `occupy`, which it undoes where there is none."""
        wire = self._pool.take_nowait(now) if not self.tls else None
        if wire is None:
            self.vacate()
            return None
        self._counts["reused"] += 1
        return Lease(self, wire, now, reused=True)

    async def lease(self, fresh: bool) -> Lease:
        """A connection, kept or new; after `occupy`, which it undoes where it raises.

        `fresh`: a new one. UpstreamError: there is none.
        """
        now = trio.current_time()
        wire = None if fresh else self._pool.take_nowait(now)
        if wire is not None:
            self._counts["reused"] += 1
            return Lease(self, wire, now, reused=True)
        try:
            wire = await self.connector.connect()
        except BaseException:
            self.vacate()
            raise
        self._counts["connections"] += 1
        return Lease(self, wire, trio.current_time(), reused=False)

    def take_back(self, wire: Wire, reusable: bool) -> None:
        if reusable and not self.drained:
            self._pool.put(wire, trio.current_time())
        else:
            wire.close()
        self.vacate()

    def answered(self, seconds: float) -> None:
        """A request got a response head after so long, whatever its status."""
        former = self._head_time if self._counts["answered"] else seconds
        self._head_time = former + (seconds - former) * NEWEST
        self._counts["answered"] += 1
        self._become(health.answered(self._health), "it answers again")

    def failed(self, error: UpstreamError) -> None:
        """A request failed; whether that is held against the server the reason says."""
        error.server = self.name
        if error.reason.counts:
            self._counts["failed"] += 1
            now = trio.current_time()
            self._become(health.failed(self._health, self._rules.health, now), error.reason.text)

    def checked(self, problem: str | None) -> None:
        """A check found `problem`, or None."""
        judged = health.checked(self._health, problem is None, self._rules.health)
        self._become(judged, problem or "its checks are good")

    def drain(self) -> None:
        """Give it nothing new; what is in hand goes on."""
        if not self.drained:
            self._log("info", f"upstream {self.name} gets nothing new: an operator drains it")
        self.drained = True
        self._pool.clear()
        self.when_changed()

    def up(self) -> None:
        """Ask it again, and forget what spoke against it."""
        if self.drained or self._health is not health.FINE:
            self._log("info", f"upstream {self.name} is asked again: an operator brought it up")
        self.drained = False
        self._health = health.FINE
        self.when_changed()

    def sweep(self, now: float) -> None:
        """Close connections that were kept long enough."""
        self._pool.sweep(now)

    def close(self) -> None:
        """Close the connections that are kept, and keep none from now on."""
        self.drained = True
        self._pool.clear()

    def statistics(self) -> dict[str, object]:
        standing = "drained" if self.drained else self.standing(trio.current_time()).value
        now = {"standing": standing, "active": self.active}
        head_time = {"head_us": round(self._head_time * 1e6)}
        return now | self._pool.statistics() | self._counts | head_time

    def _become(self, new: Health, why: str) -> None:
        old = self._health
        if new is old:
            return
        self._health = new
        if new.down != old.down:
            self._log("warning", f"upstream {self.name} is {'down' if new.down else 'up'}: {why}")
            self.when_changed()
        elif new.ejected_until and not old.ejected_until:
            self._counts["ejected"] += 1
            self._log("warning", f"upstream {self.name} keeps failing, others go first: {why}")
        elif old.ejected_until and not new.ejected_until:
            self._log("info", f"upstream {self.name} is as good as the others again: {why}")
            self.when_changed()


def _ignore() -> None:
    """Nobody waits."""
