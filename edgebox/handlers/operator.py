"""What operators ask of the running cache: PURGE, and EXPLAIN.

    PURGE /page                           that URL, all its variants
    PURGE /blog/*                         every URL of this host that begins so
    PURGE /   Surrogate-Key: news front   whatever bears one of these tags, on any host
    PURGE /   Purge-Scope: everything     the whole cache
    Purge-Mode: soft                      with any of these: stale from now on, not gone
    EXPLAIN /page                         what is stored, and what a GET would get and why

Only networks that the configuration lists are heard, and only where they ask themselves: what
a proxy passes on may be anybody's. Each worker has its own part of the cache in RAM, so what is
purged here is told to the others, and answered when they have done it, too.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

import msgspec
from msgspec.structs import replace

from edgebox.cache.engine import Engine
from edgebox.cache.key import primary_key
from edgebox.cache.purges import Purge, Scope
from edgebox.cache.rules import KeyRules
from edgebox.handlers import synthetic
from edgebox.handlers.exchange import Exchange
from edgebox.handlers.forward import Network, contains
from edgebox.handlers.proxy import Proxy
from edgebox.http.message import Request, Response
from edgebox.http.target import Target

METHODS = frozenset((b"PURGE", b"EXPLAIN"))
_PASSED_ON = (b"via", b"forwarded", b"x-forwarded-for")
_JSON = (b"Content-Type", b"application/json")
_EDITS_NOTHING = KeyRules()


class Operator:
    """Does what an operator asks, and what nobody else may."""

    def __init__(self, engine: Engine, networks: tuple[Network, ...]) -> None:
        self._engine = engine
        self._networks = networks
        # Has all other workers purge; returns "" or what went wrong.
        self.tell_others: Callable[[Sequence[Purge]], Awaitable[str]] = _tell_nobody

    def when_invalidating(self, tell: Callable[[Sequence[Purge]], Awaitable[None]]) -> None:
        """Have all other workers told of what an unsafe request here has invalidated."""
        self._engine.tell_others = tell

    async def answer(self, exchange: Exchange, route: bytes, proxy: Proxy | None) -> Response:
        """The answer to a PURGE or EXPLAIN; `proxy` is who answers the path, None for files."""
        request = exchange.request
        heard = contains(self._networks, exchange.peer)
        if not heard or any(name in request.headers for name in _PASSED_ON):
            return synthetic.error(403, "This cache takes no orders from here.")
        if request.method == b"EXPLAIN":
            return _tell(await self.explain(request, exchange.peer, route, proxy))
        purges = purges_of(request, proxy.policy.keys if proxy is not None else _EDITS_NOTHING)
        if not purges:
            return synthetic.error(400, "The request does not say what to purge.")
        count = await self.purge(purges)
        if problem := await self.tell_others(purges):
            return synthetic.error(503, f"Purged here, but not everywhere: {problem}.")
        return _tell({"purged": count})

    async def purge(self, purges: Sequence[Purge]) -> int:
        """Do it in this worker, and on the disk that all share; counts answers in RAM."""
        return sum([await self._engine.purge(purge) for purge in purges])

    async def invalidate(self, purges: Sequence[Purge]) -> None:
        """What a client of another worker has had changed is to be validated here, too."""
        for purge in purges:
            await self._engine.invalidate(purge)

    async def explain(
        self, request: Request, peer: bytes, route: bytes, proxy: Proxy | None
    ) -> dict[str, object]:
        """What a GET like `request` would get from this worker, and why."""
        told: dict[str, object] = {"route": route.decode("latin-1")}
        if proxy is None:
            return {**told, "answered_by": "files"}
        asked = proxy.forwarded(replace(request, method=b"GET"), peer)
        told["answered_by"] = proxy.upstream
        return told | await self._engine.explain(asked, proxy.policy)


async def _tell_nobody(purges: Sequence[Purge]) -> str:
    return ""


def purges_of(request: Request, keys: KeyRules) -> list[Purge]:
    """What a PURGE names; nothing where that makes no sense. `keys`: how its URL becomes a key."""
    headers = request.headers
    soft = headers.tokens(b"purge-mode") == [b"soft"]
    scope = headers.tokens(b"purge-scope")
    if scope:
        return [Purge(Scope.ALL, soft=soft)] if scope == [b"everything"] else []
    if b"surrogate-key" in headers:
        tags = [tag for line in headers.all(b"surrogate-key") for tag in line.split()]
        return [Purge(Scope.TAG, tag, soft) for tag in dict.fromkeys(tags)]
    if request.target.raw.endswith(b"*"):
        prefix = primary_key(replace(request, target=_cut(request.target)), _EDITS_NOTHING)
        return [Purge(Scope.PREFIX, prefix, soft)]
    return [Purge(Scope.KEY, primary_key(request, keys), soft)]


def _cut(target: Target) -> Target:
    """The target without the star at its end."""
    if target.query is not None:
        return replace(target, query=target.query[:-1])
    return replace(target, raw_path=target.raw_path[:-1])


def _tell(told: dict[str, object]) -> Response:
    return Response(200, (_JSON,), msgspec.json.format(msgspec.json.encode(told)) + b"\n")
