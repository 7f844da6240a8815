"""One site: which of its paths are files and which an app server answers."""

from __future__ import annotations

from collections.abc import Sequence

from edgebox.cache.answer import Instant
from edgebox.epoch import Moment
from edgebox.handlers import synthetic
from edgebox.handlers.exchange import Exchange
from edgebox.handlers.operator import METHODS, Operator
from edgebox.handlers.proxy import Proxy
from edgebox.handlers.relay import Relay
from edgebox.handlers.static import Static
from edgebox.http.faults import Fault
from edgebox.http.message import Request, Response
from edgebox.http.target import Target
from edgebox.route.paths import is_below

Route = tuple[bytes, Proxy | None]

_FILES: Route = (b"", None)


class SiteHandler:
    """Longest prefix wins; what no route names is files."""

    def __init__(
        self,
        static: Static | None,
        routes: Sequence[Route],
        discard: int,
        operator: Operator | None = None,
    ) -> None:
        """`routes`: prefix and where it goes, None for files. `discard`: octets of a body
        that files have no use for, read off to keep the connection. `operator` answers
        what is asked of the cache itself, where some route has one."""
        self._static = static
        self._routes = sorted(routes, key=lambda route: len(route[0]), reverse=True)
        self._discard = discard
        self._operator = operator if any(proxy is not None for _, proxy in routes) else None

    def answer_nowait(
        self, request: Request, now: Moment, block: bytes, peer: bytes
    ) -> Response | Relay | None:
        """The response, where it can be had without waiting; else, of a GET with its header
        `block` by the client at `peer`, the request on its way to an app server."""
        route = self.route_for(request.target)
        if route is None:
            return None
        _, proxy = route
        if proxy is not None:
            return proxy.answer_nowait(request, Instant(now.wall, now.steady), block, peer)
        if self._static is None:
            return None
        return self._static.answer_nowait(request, now.wall, now.monotonic)

    async def answer(self, exchange: Exchange, now: Moment) -> Response:
        """The response, from a file or an app server. Raises BodyRefused."""
        request = exchange.request
        route = self.route_for(request.target)
        if route is None:
            await exchange.body.discard(self._discard)
            return synthetic.refusal(Fault.PATH)
        prefix, proxy = route
        if self._operator is not None and request.method in METHODS:
            await exchange.body.discard(self._discard)
            return await self._operator.answer(exchange, prefix, proxy)
        if proxy is not None:
            return await proxy.answer(exchange)
        # Before the answer, so that a body that is malformed gets its 400.
        await exchange.body.discard(self._discard)
        if self._static is None:
            return synthetic.error(404)
        return await self._static.answer(request, now.wall, now.monotonic)

    def route_for(self, target: Target) -> Route | None:
        """Who answers; None where that depends on whether an encoded slash separates segments:
        nobody is to get past the rules of one route under the name of another."""
        route = self._pick(target.path)
        if target.separated is not None and self._pick(target.separated) is not route:
            return None
        return route

    def _pick(self, path: bytes) -> Route:
        for route in self._routes:
            if is_below(path, route[0]):
                return route
        return _FILES
