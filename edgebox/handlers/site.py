"""One site: which of its paths are files and which an app server answers."""

from __future__ import annotations

from collections.abc import Sequence

from edgebox.cache.answer import Instant
from edgebox.epoch import Moment
from edgebox.handlers import synthetic
from edgebox.handlers.exchange import Exchange
from edgebox.handlers.proxy import Proxy
from edgebox.handlers.static import Static
from edgebox.http.message import Request, Response


class SiteHandler:
    """Longest prefix wins; what no route names is files.

    A prefix that ends in "/" is a directory of paths; any other matches whole segments,
    so that "/app" is "/app" and "/app/x" but not "/apple".
    """

    def __init__(
        self, static: Static | None, routes: Sequence[tuple[bytes, Proxy | None]], discard: int
    ) -> None:
        """`routes`: prefix and where it goes, None for files. `discard`: octets of a body
        that files have no use for, read off to keep the connection."""
        self._static = static
        self._routes = sorted(routes, key=lambda route: len(route[0]), reverse=True)
        self._discard = discard

    def answer_nowait(self, request: Request, now: Moment) -> Response | None:
        """The response, where it can be had without waiting."""
        proxy = self._proxy_for(request.target.path)
        if proxy is not None:
            return proxy.answer_nowait(request, Instant(now.wall, now.steady))
        if self._static is None:
            return None
        return self._static.answer_nowait(request, now.wall, now.monotonic)

    async def answer(self, exchange: Exchange, now: Moment) -> Response:
        """The response, from a file or an app server. Raises BodyRefused."""
        proxy = self._proxy_for(exchange.request.target.path)
        if proxy is not None:
            return await proxy.answer(exchange)
        # Before the answer, so that a body that is malformed gets its 400.
        await exchange.body.discard(self._discard)
        if self._static is None:
            return synthetic.error(404)
        return await self._static.answer(exchange.request, now.wall, now.monotonic)

    def _proxy_for(self, path: bytes) -> Proxy | None:
        for prefix, proxy in self._routes:
            if path.startswith(prefix) and (
                prefix.endswith(b"/") or path[len(prefix) : len(prefix) + 1] in (b"", b"/")
            ):
                return proxy
        return None
