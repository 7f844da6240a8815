"""Paths that app servers answer: through the cache, or straight through.

This room decides what is asked; `cache/engine` whether it must be asked at all, and
`upstream` whom. What an upstream cannot answer is told with whose fault it was.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

from edgebox.cache.answer import Instant
from edgebox.cache.engine import Engine
from edgebox.cache.flight import RoutePolicy
from edgebox.cache.key import primary_key
from edgebox.handlers import synthetic
from edgebox.handlers.exchange import BodyRefused, Exchange, RequestBody
from edgebox.handlers.forward import ForwardRules, is_looping, outgoing_fields
from edgebox.http.faults import Fault
from edgebox.http.headers import Fields
from edgebox.http.message import Request, Response, Switched
from edgebox.upstream.errors import Reason, UpstreamError
from edgebox.upstream.group import UpstreamGroup
from edgebox.upstream.incoming import Incoming
from edgebox.upstream.outgoing import Outgoing
from edgebox.upstream.server import Log


@dataclass(frozen=True, slots=True)
class ProxyRules:
    """How one route is passed on. `body_size`: octets of a request body, 413 beyond."""

    forward: ForwardRules
    policy: RoutePolicy
    body_size: int


class Proxy:
    """One route to one upstream."""

    def __init__(
        self, rules: ProxyRules, upstream: UpstreamGroup, engine: Engine, log: Log
    ) -> None:
        self._rules = rules
        self._upstream = upstream
        self._engine = engine
        self._log = log

    def answer_nowait(self, request: Request, now: Instant) -> Response | None:
        """A fresh stored answer in RAM, or None."""
        if b"via" in request.headers:
            return None
        return self._engine.answer_nowait(request, self._rules.policy, now)

    async def answer(self, exchange: Exchange) -> Response:
        """The answer, from wherever it comes. Raises BodyRefused."""
        request, rules = exchange.request, self._rules
        if is_looping(request, rules.forward.name):
            return synthetic.error(508, "The request has passed through this server before.")
        if request.method == b"TRACE":
            return synthetic.error(405)
        length = exchange.body.length
        if length is not None and length > rules.body_size:
            return synthetic.refusal(Fault.BODY_TOO_LARGE)
        try:
            upgrade = _upgrade(request)
            if upgrade:
                return await self._switch(exchange, upgrade)

            async def fetch(fields: Fields) -> Incoming:
                return await self._upstream.fetch(
                    self._outgoing(exchange, fields), primary_key(request, rules.policy.keys)
                )

            has_body = length != 0
            return await self._engine.answer(request, rules.policy, fetch, has_body)
        except UpstreamError as error:
            return self._tell(exchange, error)

    def _outgoing(self, exchange: Exchange, fields: Fields, upgrade: bytes = b"") -> Outgoing:
        request, body = exchange.request, exchange.body
        target = request.target.raw_path
        if request.target.query is not None:
            target += b"?" + request.target.query
        return Outgoing(
            method=request.method,
            target=target,
            fields=outgoing_fields(fields, request, exchange.peer, self._rules.forward),
            body=_limited(body, self._rules.body_size) if body.length != 0 else None,
            length=body.length,
            upgrade=upgrade,
            on_interim=exchange.interim,
        )

    async def _switch(self, exchange: Exchange, upgrade: bytes) -> Response:
        """Ask for another protocol (RFC 9110 §7.8); no cache has a say in that."""
        fields = exchange.request.headers.fields
        answer = await self._upstream.tunnel(self._outgoing(exchange, fields, upgrade))
        if isinstance(answer, Incoming):
            return await self._engine.relay(exchange.request, answer, self._rules.policy)
        fields = (*answer.fields, (b"Upgrade", answer.protocol))
        return Response(101, fields, Switched(answer), forwarded=True)

    def _tell(self, exchange: Exchange, error: UpstreamError) -> Response:
        """An upstream's failure as an answer; what the body's reader refused is its own fault."""
        cause = error.__cause__
        if error.reason is Reason.REQUEST_BODY and isinstance(cause, BodyRefused):
            raise cause
        target = exchange.request.target.raw.decode("latin-1")
        self._log("warning", f"{exchange.peer.decode()}: {target}: {error}")
        text = f"The server behind this one cannot answer: {error.reason.text}."
        extra: Fields = ((b"Retry-After", b"1"),) if error.status == 503 else ()
        return synthetic.error(error.status, text, extra)


def _upgrade(request: Request) -> bytes:
    """The protocol that a client wants to switch to, b"" for none."""
    if request.minor == 0 or b"upgrade" not in request.headers.tokens(b"connection"):
        return b""
    return request.headers.get(b"upgrade") or b""


async def _limited(body: RequestBody, limit: int) -> AsyncIterator[bytes]:
    """The body, up to its largest size; a chunked one tells its length only as it comes."""
    seen = 0
    async for octets in body.read():
        seen += len(octets)
        if seen > limit:
            raise BodyRefused(Fault.BODY_TOO_LARGE)
        yield octets
