"""Paths that app servers answer: through the cache, or straight through.

This room decides what is asked; `cache/engine` whether it must be asked at all, and
`upstream` whom. What an upstream cannot answer is told with whose fault it was.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass

from edgebox.cache.answer import Instant
from edgebox.cache.engine import Engine, Unanswered
from edgebox.cache.flight import RoutePolicy
from edgebox.cache.key import primary_key
from edgebox.handlers import synthetic
from edgebox.handlers.accel import Accel
from edgebox.handlers.exchange import BodyRefused, Exchange, RequestBody
from edgebox.handlers.forward import (
    ForwardRules,
    ends_here,
    forwarded,
    is_looping,
    outgoing_fields,
)
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
    """How one route is passed on. `body_size`: octets of a request body, 413 beyond.

    `accel`: what becomes of answers that name a file.
    """

    forward: ForwardRules
    policy: RoutePolicy
    body_size: int
    accel: Accel


class Proxy:
    """One route to one upstream."""

    def __init__(
        self, rules: ProxyRules, upstream: UpstreamGroup, engine: Engine, log: Log
    ) -> None:
        self._rules = rules
        self._upstream = upstream
        self._engine = engine
        self._log = log

    @property
    def policy(self) -> RoutePolicy:
        """How this route is cached."""
        return self._rules.policy

    @property
    def upstream(self) -> str:
        """The name of whoever answers this route."""
        return self._upstream.name

    def forwarded(self, request: Request, peer: bytes) -> Request:
        """A request of the client at `peer` as the app server, and the cache, are to see it."""
        return forwarded(request, peer, self._rules.forward)

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
        if ends_here(request):
            return synthetic.options()
        length = exchange.body.length
        if length is not None and length > rules.body_size:
            return synthetic.refusal(Fault.BODY_TOO_LARGE)
        upgrade = _upgrade(request)
        request = self.forwarded(request, exchange.peer)
        try:
            if upgrade:
                return await self._switch(exchange, request, upgrade)

            async def fetch(fields: Fields) -> Incoming:
                incoming = await self._upstream.fetch(
                    self._outgoing(exchange, request, fields),
                    primary_key(request, rules.policy.keys),
                )
                incoming.fields = rules.accel.hold(incoming.fields)
                return incoming

            response = await self._engine.answer(request, rules.policy, fetch, length != 0)
            return await rules.accel.finish(request, response)
        except Unanswered as failed:
            return self._tell(exchange, failed.error, ((b"Cache-Status", failed.member),))
        except UpstreamError as error:
            return self._tell(exchange, error)

    def _outgoing(
        self, exchange: Exchange, request: Request, fields: Fields, upgrade: bytes = b""
    ) -> Outgoing:
        """`request`, as it is forwarded, with `fields`; its body is that of the exchange."""
        body = exchange.body
        target = request.target.raw_path
        if request.target.query is not None:
            target += b"?" + request.target.query
        return Outgoing(
            method=request.method,
            target=target,
            fields=outgoing_fields(fields, request, self._rules.forward),
            body=_limited(body, self._rules.body_size) if body.length != 0 else None,
            length=body.length,
            upgrade=upgrade,
            on_interim=exchange.interim,
        )

    async def _switch(self, exchange: Exchange, request: Request, upgrade: bytes) -> Response:
        """Ask for another protocol (RFC 9110 §7.8); no cache has a say in that."""
        outgoing = self._outgoing(exchange, request, request.headers.fields, upgrade)
        answer = await self._upstream.tunnel(outgoing)
        if isinstance(answer, Incoming):
            answer.fields = self._rules.accel.hold(answer.fields)
            response = await self._engine.relay(request, answer, self._rules.policy)
            return await self._rules.accel.finish(request, response)
        fields = (*answer.fields, (b"Upgrade", answer.protocol))
        return Response(101, fields, Switched(answer), forwarded=True)

    def _tell(self, exchange: Exchange, error: UpstreamError, extra: Fields = ()) -> Response:
        """An upstream's failure as an answer; what the body's reader refused is its own fault."""
        cause = error.__cause__
        if error.reason is Reason.REQUEST_BODY and isinstance(cause, BodyRefused):
            raise cause
        target = exchange.request.target.raw.decode("latin-1")
        self._log("warning", f"{exchange.peer.decode()}: {target}: {error}")
        text = f"The server behind this one cannot answer: {error.reason.text}."
        if error.status == 503:
            extra = (*extra, (b"Retry-After", b"1"))
        return synthetic.error(error.status, text, extra)


def _upgrade(request: Request) -> bytes:
    """The protocol that a client wants to switch to, b"" for none.

    Never HTTP/2: whoever speaks that to an app server through us is subject to no rule of
    ours any more, and RFC 9113 §3.1 has given that up.
    """
    if request.minor == 0 or b"upgrade" not in request.headers.tokens(b"connection"):
        return b""
    wanted = request.headers.tokens(b"upgrade")
    if any(protocol.startswith((b"h2", b"http/")) for protocol in wanted):
        return b""
    return request.headers.get(b"upgrade") or b""


async def _limited(body: RequestBody, limit: int) -> AsyncGenerator[bytes, None]:
    """The body, up to its largest size; a chunked one tells its length only as it comes."""
    seen = 0
    async with aclosing(body.read()) as pieces:
        async for octets in pieces:
            seen += len(octets)
            if seen > limit:
                raise BodyRefused(Fault.BODY_TOO_LARGE)
            yield octets
