"""The face of this room: servers that do the same work, asked as if they were one.

    acquire a place → lease a connection → exchange → answer, or judge what went wrong

`fetch` and `tunnel` may be called by any number of tasks while `run` runs, which keeps
what outlives a call: uploads beside early answers, health checks, the sweep of connections.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import trio

from edgebox.config.upstreams import Upstream, UpstreamServer
from edgebox.upstream.balance import make_balance
from edgebox.upstream.brief import Brief
from edgebox.upstream.connector import Connector, make_context
from edgebox.upstream.dispatch import Dispatcher
from edgebox.upstream.errors import UpstreamError
from edgebox.upstream.exchange import Terms, exchange
from edgebox.upstream.health import HealthRules
from edgebox.upstream.incoming import Incoming
from edgebox.upstream.origin import parse_origin
from edgebox.upstream.outgoing import Outgoing
from edgebox.upstream.patience import Patience
from edgebox.upstream.probe import ProbeRules, watch
from edgebox.upstream.retry import Retry, judge
from edgebox.upstream.server import Log, Member, Server, ServerRules
from edgebox.upstream.tunnel import Tunnel

_SWEEP = 1.0  # seconds


class UpstreamGroup:
    """[upstream.`name`]."""

    def __init__(
        self,
        name: str,
        config: Upstream,
        log: Log,
        random_number: Callable[[], float] = random.random,
    ) -> None:
        """ValueError: a server's URL is none. OSError: the CA file cannot be read."""
        self.name = name
        self._config = config
        self._retries = config.retries
        self._servers = _make_servers(config, log)
        self._dispatcher = Dispatcher(
            self._servers,
            make_balance(config.balance, random_number),
            config.queue,
            config.queue_timeout,
        )
        self._terms: Terms | None = None
        self._resent = 0

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Keep the group going until cancelled; then nothing of it is left open."""
        try:
            async with trio.open_nursery() as nursery:
                config = self._config
                head, body = Patience(config.head_timeout), Patience(config.body_timeout)
                nursery.start_soon(head.run)
                nursery.start_soon(body.run)
                self._terms = Terms(
                    head, body, config.head_size, close=not config.keep_alive, nursery=nursery
                )
                if config.health.path:
                    for server in self._servers:
                        nursery.start_soon(watch, server, _probe_rules(config, server), nursery)
                task_status.started()
                while True:
                    await trio.sleep(_SWEEP)
                    self._sweep()
        finally:
            self._terms = None
            for server in self._servers:
                server.close()

    async def fetch(self, outgoing: Outgoing, key: bytes = b"") -> Incoming:
        """Forward a request and wait for its answer's head.

        `key` is what `hash` balances by. UpstreamError: there is no answer, and why. The
        answer is read to its end or closed by whoever called.
        """
        answer = await self._forward(outgoing, key)
        assert isinstance(answer, Incoming)  # a 101 that was not asked for is an error
        return answer

    def fetch_nowait(self, head: bytes, now: float, key: bytes = b"") -> Brief | None:
        """Send a GET, of which `head` is all there is; None where that needs waiting.

        Then nothing was sent, or nothing that a server could have understood.
        """
        terms = self._terms
        try:
            server = self._dispatcher.acquire_nowait(key, now) if terms is not None else None
        except UpstreamError:
            return None
        lease = server.lease_nowait(now) if server is not None else None
        if terms is None or lease is None:
            return None
        try:
            sent = lease.wire.send_nowait(head)
        except OSError:
            sent = 0
        if sent < len(head):
            lease.end(reusable=False)
            return None
        terms.head.begin(lease.wire, now)
        return Brief(lease, terms)

    @property
    def closes(self) -> bool:
        """Whether its servers are told to close each connection."""
        return not self._config.keep_alive

    async def tunnel(self, outgoing: Outgoing, key: bytes = b"") -> Incoming | Tunnel:
        """Forward a request to switch to `outgoing.upgrade`; Incoming: the server would not."""
        return await self._forward(outgoing, key)

    @property
    def servers(self) -> tuple[str, ...]:
        """Their URLs, which are their names."""
        return tuple(server.name for server in self._servers)

    def drain(self, server: str) -> None:
        """Send nothing new to the server with this URL. KeyError: there is none."""
        self._find(server).drain()

    def up(self, server: str) -> None:
        """Ask a server again that was drained, down or left out. KeyError: there is none."""
        self._find(server).up()

    def statistics(self) -> dict[str, object]:
        return {
            "servers": {server.name: server.statistics() for server in self._servers},
            "resent": self._resent,
        } | self._dispatcher.statistics()

    async def _forward(self, outgoing: Outgoing, key: bytes) -> Incoming | Tunnel:
        terms = self._terms
        if terms is None:
            raise RuntimeError(f"upstream group {self.name} does not run")
        tried: list[Server] = []
        left = self._retries
        fresh = False
        while True:
            server = self._dispatcher.acquire_nowait(key, trio.current_time(), tried)
            if server is None:
                server = await self._dispatcher.acquire(key, tried)
            reused = False
            try:
                lease = await server.lease(fresh)
                reused = lease.reused
                return await exchange(lease, outgoing, terms)
            except UpstreamError as error:
                error.server = server.name
                verdict = judge(error, outgoing.method, reused, left)
                if verdict is not Retry.AGAIN:
                    server.failed(error)
                    tried.append(server)
                    if verdict is Retry.GIVE_UP or not self._may_go_on(verdict, tried):
                        raise
                if verdict is not Retry.NEXT:
                    left -= 1
                    self._resent += 1
                fresh = True

    def _may_go_on(self, verdict: Retry, tried: list[Server]) -> bool:
        """Whether there is somebody to ask; the same server again if it can be no other."""
        if self._dispatcher.has_another(tried):
            return True
        if verdict is Retry.ELSEWHERE:
            tried.clear()
        return verdict is Retry.ELSEWHERE

    def _find(self, url: str) -> Server:
        for server in self._servers:
            if server.name == url:
                return server
        raise KeyError(url)

    def _sweep(self) -> None:
        now = trio.current_time()
        for server in self._servers:
            server.sweep(now)
        self._dispatcher.wake()  # somebody's term may be over


def _make_servers(config: Upstream, log: Log) -> tuple[Server, ...]:
    tls = config.tls
    health = HealthRules(
        config.fail_after,
        config.eject_for,
        config.health.healthy_after,
        config.health.unhealthy_after,
    )
    rules = ServerRules(config.connections, config.keep_alive, config.keep_alive_idle, health)
    members = [_member(server) for server in config.servers]
    secure = any(member.origin.tls for member in members)
    context = make_context(tls.verify, tls.ca) if secure else None
    return tuple(
        Server(
            member,
            Connector(member.origin, config.connect_timeout, context, tls.server_name),
            rules,
            log,
        )
        for member in members
    )


def _member(server: str | UpstreamServer) -> Member:
    if isinstance(server, str):
        return Member(parse_origin(server))
    return Member(parse_origin(server.url), server.weight, server.backup)


def _probe_rules(config: Upstream, server: Server) -> ProbeRules:
    health = config.health
    host = config.tls.server_name or server.authority
    return ProbeRules(
        health.path.encode(),
        host.encode(),
        health.interval,
        health.timeout,
        frozenset(health.expect),
    )
