"""Misses that the express lane carries itself, from the client's request to the answer.

A plain GET of which nothing is stored, on a kept connection to its app server: the request is
sent from the loop that read it, and when the whole answer is there it is judged, stored and
given back from that loop. No task is begun unless something is out of the ordinary; then the
fetch goes on as any other, and nothing is asked twice.

What is forwarded of a header block depends on the block and the client alone, and browsers
repeat their blocks: it is remembered, bounded.
"""

from __future__ import annotations

import os
from collections.abc import Callable

import trio
from msgspec import Struct
from msgspec.structs import replace

from edgebox.cache.answer import Answer, Instant
from edgebox.cache.engine import Engine
from edgebox.cache.flight import Ask, Flight
from edgebox.cache.revalidate import CONDITIONS
from edgebox.cache.shortcut import member_of
from edgebox.handlers.exchange import Exchange
from edgebox.handlers.forward import forwarded, is_looping, outgoing_fields
from edgebox.handlers.rules import ProxyRules
from edgebox.http.headers import Fields, Headers
from edgebox.http.message import Request, Response
from edgebox.http.tracing import traced
from edgebox.observe.access_log import Asked
from edgebox.upstream.brief import METHOD, Brief
from edgebox.upstream.errors import UpstreamError
from edgebox.upstream.group import UpstreamGroup
from edgebox.upstream.incoming import Incoming
from edgebox.upstream.outgoing import Outgoing, render_head
from edgebox.upstream.reply import split_fields

BLOCKS = 128  # header blocks that a route remembers
LONGEST = 2048  # octets of one: with what is made of it, a route holds a megabyte at most

_REQUEST_ID = b"X-Request-Id: %s\r\n"
_NO_ID = b"0" * 32  # a request id of ours, made of no random octets


Tell = Callable[[Exchange, UpstreamError, Fields], Response]


class Prepared(Struct, frozen=True):
    """What goes out for one header block of one client.

    `lines`: the fields as octets; `request_id` b"" where ours is to follow, a new one each time.
    """

    headers: Headers
    lines: bytes
    request_id: bytes
    fresh: bool


class Relays:
    """Begins them for one route."""

    def __init__(
        self, rules: ProxyRules, upstream: UpstreamGroup, engine: Engine, tell: Tell
    ) -> None:
        """`tell` makes an answer of an upstream's failure."""
        self.rules = rules
        self.upstream = upstream
        self.engine = engine
        self.tell = tell
        self._prepared: dict[tuple[bytes, bytes], Prepared | None] = {}

    def begin(
        self, request: Request, now: Instant, block: bytes, peer: bytes, key: bytes | None
    ) -> Relay | None:
        """Ask the upstream; None: a task is to, and no server has heard of it.

        `request` is a GET without content, and `block` the header block that it came with; `key`
        that of the cache, where it is known.
        """
        prepared = self._prepare(request, block, peer)
        if prepared is None:
            return None
        asked = replace(request, headers=prepared.headers)
        relay = Relay(self, asked, now)
        begun = self.engine.shortcut.begin(asked, self.rules.policy, relay.fetch, now, key)
        if begun is None:
            return None
        relay.ask, relay.flight = begun
        relay.began = trio.current_time()
        brief = self.upstream.fetch_nowait(relay.head(prepared), relay.began, relay.ask.key)
        if brief is None:
            self.engine.shortcut.drop(relay.flight, relay.ask)
            return None
        relay.brief = brief
        relay.asked.begin(relay.began)
        return relay

    def _prepare(self, request: Request, block: bytes, peer: bytes) -> Prepared | None:
        key = (block, peer)
        if key in self._prepared:
            return self._prepared[key]
        prepared = self._make(request, block, peer)
        if len(block) <= LONGEST:
            if len(self._prepared) >= BLOCKS:
                self._prepared.clear()
            self._prepared[key] = prepared
        return prepared

    def _make(self, request: Request, block: bytes, peer: bytes) -> Prepared | None:
        rules = self.rules
        headers = Headers(split_fields(block[:-2]))
        whole = replace(request, headers=headers)
        if is_looping(whole, rules.forward.name) or rules.tracing.span:
            return None
        if any(name in headers for name in CONDITIONS):
            return None
        passed_on = forwarded(whole, peer, rules.forward)
        fields = outgoing_fields(passed_on.headers.fields, passed_on, rules.forward)
        fields, request_id, _ = traced(fields, rules.tracing, bytes)
        fresh = fields[-1] == (b"X-Request-Id", _NO_ID)
        if fresh:
            fields = fields[:-1]
        head = render_head(Outgoing(METHOD, b"/", fields), self.upstream.closes)
        lines = head[head.index(b"\r\n") + 2 : -2]
        return Prepared(passed_on.headers, lines, b"" if fresh else request_id, fresh)


class Relay:
    """One of them: under way from when `Relays.begin` returned it.

    Whoever has it waits until `fileno()` is readable and calls `advance`, once; where that has
    no answer, `carry_on`, and a task calls `finish`.
    """

    __slots__ = (
        "_incoming", "_relays", "_request", "_since", "ask", "asked", "began", "brief",
        "flight",
    )  # fmt: skip

    ask: Ask
    flight: Flight
    brief: Brief
    began: float

    def __init__(self, relays: Relays, request: Request, now: Instant) -> None:
        self._relays = relays
        self._request = request
        self._since = now
        self._incoming: Incoming | None = None
        self.asked = Asked()

    def fileno(self) -> int:
        return self.brief.fileno()

    def head(self, prepared: Prepared) -> bytes:
        """The request's head as octets."""
        request_id, last = prepared.request_id, b"\r\n"
        if prepared.fresh:
            request_id = os.urandom(16).hex().encode()
            last = _REQUEST_ID % request_id + last
        self.asked.request_id = request_id
        target = self._request.target.path_and_query
        return b"GET %b HTTP/1.1\r\n%b%b" % (target, prepared.lines, last)

    def advance(self) -> Response | None:
        """The client's answer, if the upstream's is there as a whole, and a plain one."""
        relays, asked, now = self._relays, self.asked, trio.current_time()
        incoming = self.brief.receive_nowait(now)
        if incoming is None:
            return None
        self._incoming = incoming
        fields = incoming.fields = relays.rules.accel.hold(incoming.fields)
        asked.server, asked.headed = incoming.server, now
        asked.end(now)
        if relays.rules.accel.holds(fields):
            return None  # it names a file
        answer = Answer(incoming.status, Headers(fields), self._since, relays.engine.now())
        assert incoming.whole is not None
        return relays.engine.shortcut.land(self.flight, self.ask, answer, incoming.whole)

    def carry_on(self) -> None:
        """No answer for now: have the fetch go on without the lane."""
        if not self.brief.is_interim:  # that, the client has to hear first
            self._carry_on()

    async def finish(self, exchange: Exchange) -> Response:
        """The client's answer, after `carry_on`."""
        relays, brief = self._relays, self.brief
        brief.on_interim = exchange.interim
        if brief.is_interim:
            self._carry_on()
        try:
            response = await relays.engine.land(self.flight, self.ask)
        except UpstreamError as error:
            return relays.tell(exchange, error, ((b"Cache-Status", member_of(self.ask)),))
        finally:
            exchange.asked.follow(self.asked)
        return await relays.rules.accel.finish(self._request, response)

    def abandon(self) -> None:
        """The loop ends."""
        self.brief.abandon()
        self._relays.engine.shortcut.drop(self.flight, self.ask)

    async def fetch(self, fields: Fields) -> Incoming:
        """Ask anew, after a connection that had grown old."""
        relays, request = self._relays, self._request
        fields = outgoing_fields(fields, request, relays.rules.forward)
        fields, self.asked.request_id, _ = traced(fields, relays.rules.tracing, os.urandom)
        outgoing = Outgoing(METHOD, request.target.path_and_query, fields)
        return self._heard(await relays.upstream.fetch(outgoing, self.ask.key))

    async def _receive(self) -> Incoming:
        if self._incoming is not None:
            return self._incoming
        try:
            return self._heard(await self.brief.receive())
        except UpstreamError as error:
            self.asked.server = error.server
            self.asked.end(trio.current_time())
            raise

    def _heard(self, incoming: Incoming) -> Incoming:
        incoming.fields = self._relays.rules.accel.hold(incoming.fields)
        asked, clock = self.asked, trio.current_time
        asked.server, asked.headed = incoming.server, clock()
        incoming.when_over(lambda: asked.end(clock()))
        return incoming

    def _carry_on(self) -> None:
        self._relays.engine.shortcut.carry_on(self.flight, self.ask, self._receive, self._since)
