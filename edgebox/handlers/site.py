"""One site: which of its paths are files and which an app server answers."""

from __future__ import annotations

from collections.abc import Sequence

from edgebox.cache.answer import Instant
from edgebox.epoch import Moment
from edgebox.handlers import synthetic
from edgebox.handlers.exchange import Exchange
from edgebox.handlers.operator import METHODS, Operator
from edgebox.handlers.proxy import Proxy
from edgebox.handlers.static import Static
from edgebox.http.message import Request, Response
from edgebox.route.paths import is_below

Route = tuple[bytes, Proxy | None]


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

    def answer_nowait(self, request: Request, now: Moment) -> Response | None:
        """The response, where it can be had without waiting."""
        _, proxy = self._route_for(request.target.path)
        if proxy is not None:
            return proxy.answer_nowait(request, Instant(now.wall, now.steady))
        if self._static is None:
            return None
        return self._static.answer_nowait(request, now.wall, now.monotonic)

    async def answer(self, exchange: Exchange, now: Moment) -> Response:
        """The response, from a file or an app server. Raises BodyRefused."""
        request = exchange.request
        prefix, proxy = self._route_for(request.target.path)
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

    def _route_for(self, path: bytes) -> Route:
        for prefix, proxy in self._routes:
            if is_below(path, prefix):
                return prefix, proxy
        return b"", None
