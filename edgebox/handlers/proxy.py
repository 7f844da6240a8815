"""Paths that app servers answer: through the cache, or straight through.

This room decides what is asked; `cache/engine` whether it must be asked at all, and
`upstream` whom. What an upstream cannot answer is told with whose fault it was.
"""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Awaitable
from contextlib import aclosing
from typing import TypeVar

import trio

from edgebox.cache.answer import Instant
from edgebox.cache.engine import Engine, Unanswered
from edgebox.cache.flight import RoutePolicy
from edgebox.cache.key import primary_key
from edgebox.handlers import synthetic
from edgebox.handlers.exchange import BodyRefused, Exchange, RequestBody
from edgebox.handlers.forward import (
    ends_here,
    forwarded,
    is_looping,
    outgoing_fields,
)
from edgebox.handlers.relay import Relay, Relays
from edgebox.handlers.rules import ProxyRules
from edgebox.http.faults import Fault
from edgebox.http.headers import Fields
from edgebox.http.message import Request, Response, Switched
from edgebox.http.tracing import traced
from edgebox.observe.access_log import Asked
from edgebox.upstream.errors import Reason, UpstreamError
from edgebox.upstream.group import UpstreamGroup
from edgebox.upstream.incoming import Incoming
from edgebox.upstream.outgoing import Outgoing
from edgebox.upstream.server import Log
from edgebox.upstream.tunnel import Tunnel

T = TypeVar("T", Incoming, Incoming | Tunnel)


class Proxy:
    """One route to one upstream."""

    def __init__(
        self, rules: ProxyRules, upstream: UpstreamGroup, engine: Engine, log: Log
    ) -> None:
        self._rules = rules
        self._upstream = upstream
        self._engine = engine
        self._log = log
        self._relays = Relays(rules, upstream, engine, self._tell)

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

    def answer_nowait(
        self, request: Request, now: Instant, block: bytes, peer: bytes
    ) -> Response | Relay | None:
        """A fresh stored answer in RAM, or the request on its way upstream; or None.

        It is sent upstream only if that goes without waiting and `block` is not empty: the
        header block of a GET without content by the client at `peer`.
        """
        key = None
        if b"via" not in request.headers and b"cdn-loop" not in request.headers:
            found = self._engine.answer_nowait(request, self._rules.policy, now)
            if not isinstance(found, bytes):
                return found
            key = found
        return self._relays.begin(request, now, block, peer, key) if block else None

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
                return await self._fetch(exchange, request, fields)

            response = await self._engine.answer(request, rules.policy, fetch, length != 0)
            return await rules.accel.finish(request, response)
        except Unanswered as failed:
            return self._tell(exchange, failed.error, ((b"Cache-Status", failed.member),))
        except UpstreamError as error:
            return self._tell(exchange, error)

    async def _fetch(self, exchange: Exchange, request: Request, fields: Fields) -> Incoming:
        rules = self._rules
        outgoing = self._outgoing(exchange, request, fields)
        key = primary_key(request, rules.policy.keys)
        incoming = await _timed(exchange, self._upstream.fetch(outgoing, key))
        incoming.fields = rules.accel.hold(incoming.fields)
        return incoming

    def _outgoing(
        self, exchange: Exchange, request: Request, fields: Fields, upgrade: bytes = b""
    ) -> Outgoing:
        """`request`, as it is forwarded, with `fields`; its body is that of the exchange."""
        body, rules = exchange.body, self._rules
        fields = outgoing_fields(fields, request, rules.forward)
        fields, request_id, traceparent = traced(fields, rules.tracing, os.urandom)
        asked = _asked(exchange)
        asked.request_id, asked.traceparent = request_id, traceparent
        return Outgoing(
            method=request.method,
            target=request.target.path_and_query,
            fields=fields,
            body=_limited(body, rules.body_size) if body.length != 0 else None,
            length=body.length,
            upgrade=upgrade,
            on_interim=exchange.interim,
        )

    async def _switch(self, exchange: Exchange, request: Request, upgrade: bytes) -> Response:
        """Ask for another protocol (RFC 9110 §7.8); no cache has a say in that."""
        outgoing = self._outgoing(exchange, request, request.headers.fields, upgrade)
        answer = await _timed(exchange, self._upstream.tunnel(outgoing))
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


def _asked(exchange: Exchange) -> Asked:
    """Where to note what is asked now: what is asked after the answer is not this client's."""
    return Asked() if exchange.asked.settled else exchange.asked


async def _timed(exchange: Exchange, answer: Awaitable[T]) -> T:
    """`answer`, which comes from an upstream, with who gave it and when noted."""
    asked, clock = _asked(exchange), trio.current_time
    asked.begin(clock())
    try:
        incoming = await answer
    except UpstreamError as error:
        asked.server = error.server
        asked.end(clock())
        raise
    asked.server, asked.headed = incoming.server, clock()
    if isinstance(incoming, Incoming):
        incoming.when_over(lambda: asked.end(clock()))
    return incoming


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
