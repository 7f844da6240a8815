"""Asks one server over and over how it is, on connections of its own.

Outside the pool and the queue: a server that is busy is not ill, and one that nobody asks
any more must be able to come back.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import trio

from edgebox.upstream.connector import Connector
from edgebox.upstream.errors import UpstreamError
from edgebox.upstream.exchange import Terms, exchange
from edgebox.upstream.lease import Lease
from edgebox.upstream.outgoing import Outgoing
from edgebox.upstream.patience import Patience
from edgebox.upstream.server import Server
from edgebox.upstream.wire import Wire


@dataclass(frozen=True, slots=True)
class ProbeRules:
    """GET `path` with `host` as Host each `interval` seconds; `timeout` for all of it.

    `expect` are the statuses that count as good.
    """

    path: bytes
    host: bytes
    interval: float
    timeout: float
    expect: frozenset[int]


async def watch(server: Server, rules: ProbeRules, nursery: trio.Nursery) -> None:
    """Check `server` until cancelled, and tell it what was found."""
    while True:
        server.checked(await find_problem(server.connector, rules, nursery))
        await trio.sleep(rules.interval)


async def find_problem(
    connector: Connector, rules: ProbeRules, nursery: trio.Nursery
) -> str | None:
    """One check: None when all is well, else what is wrong."""
    fields = ((b"Host", rules.host), (b"User-Agent", b"edgebox-health"))
    patience = Patience(math.inf)  # one deadline for everything
    terms = Terms(patience, patience, head_size=32 * 1024, close=True, nursery=nursery)
    with trio.move_on_after(rules.timeout):
        try:
            lease = Lease(_Alone(), await connector.connect(), trio.current_time(), reused=False)
            answer = await exchange(lease, Outgoing(b"GET", rules.path, fields), terms)
        except UpstreamError as error:
            return str(error)
        await answer.aclose()
        if answer.status in rules.expect:
            return None
        return f"its check was answered {answer.status}"
    return f"its check took more than {rules.timeout:g} s"


class _Alone:
    """Lends a connection once, and draws no conclusions."""

    name = ""

    def take_back(self, wire: Wire, reusable: bool) -> None:
        wire.close()

    def answered(self, seconds: float) -> None:
        pass

    def failed(self, error: UpstreamError) -> None:
        pass
