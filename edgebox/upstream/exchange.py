"""One request and its answer's head, on one connection.

The request goes out first; what does not fit at once goes on in a task of its own
(`upload`), because a server may answer before it has read everything. Then one deadline
counts for the head, from the moment the request is out. Interim responses are passed on
and start it anew: they say that the server is at work.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import trio

from edgebox.http.gate import find_end
from edgebox.upstream.errors import Malformed, Reason, UpstreamError
from edgebox.upstream.incoming import Incoming
from edgebox.upstream.lease import Lease
from edgebox.upstream.outgoing import Outgoing, render_head
from edgebox.upstream.reply import Reply, is_hopeless, parse_reply
from edgebox.upstream.tunnel import Tunnel
from edgebox.upstream.upload import Upload
from edgebox.upstream.wire import Wire

MAX_INTERIM = 32  # responses before the final one
_TOGETHER = 64 * 1024  # octets of body that are sent with the head, at one go
_QUOTED = 60  # octets of a malformed head that are told

SWITCHING = 101


@dataclass(frozen=True, slots=True)
class ExchangeRules:
    """Seconds for the head, seconds that a body may stall, octets of a head.

    `close`: ask the server to end the connection after each answer.
    """

    head_timeout: float
    body_timeout: float
    head_size: int
    close: bool


async def exchange(
    lease: Lease, outgoing: Outgoing, rules: ExchangeRules, nursery: trio.Nursery
) -> Incoming | Tunnel:
    """Send `outgoing` and wait for its answer's head; a Tunnel for a 101 that was asked for.

    `nursery` takes the upload, if there is one. UpstreamError: no usable head came. Whenever
    this raises, the lease has ended and nobody reads the body any more.
    """
    reader = _HeadReader(lease.wire, outgoing.method, rules.head_size)
    upload: Upload | None = None
    try:
        pending = _send(lease.wire, outgoing, rules)
        with trio.CancelScope() as scope:

            def start_clock() -> None:
                scope.deadline = trio.current_time() + rules.head_timeout

            if pending is None:
                start_clock()
            else:
                nursery.start_soon(pending.run, start_clock)
                upload = pending
            reply = await reader.read()
            interim = 0
            while reply.status < 200 and reply.status != SWITCHING:
                interim += 1
                if interim > MAX_INTERIM:
                    raise _bad(Malformed.INTERIM_FLOOD)
                scope.deadline = math.inf
                if outgoing.on_interim is not None and reply.status != 100:
                    await outgoing.on_interim(reply.status, reply.fields)
                if upload is None or upload.over:
                    start_clock()
                reply = await reader.read()
        if scope.cancelled_caught:
            raise UpstreamError(Reason.HEAD_TIMEOUT, f"within {rules.head_timeout:g} s")
        if reply.status == SWITCHING and not (outgoing.upgrade and reply.upgrade):
            raise _bad(Malformed.SWITCHED)
        if upload is not None and reply.status >= 300:
            # It will not read on (RFC 9112 §9.5). After a 2xx it may: some answer as they read.
            await upload.stop()
    except BaseException as reason:
        lease.end(reusable=False)
        if upload is not None:
            await upload.stop()
        if not isinstance(reason, UpstreamError):
            raise
        error = reason if upload is None else upload.failure or reason
        error.unanswered = not reader.heard
        error.resendable = upload is None or not upload.begun
        raise error from error.__cause__
    lease.server.answered()
    if reply.status == SWITCHING:
        return Tunnel(reply, reader.rest, lease)
    incoming = Incoming(reply, reader.rest, lease, rules.body_timeout, upload)
    if upload is not None and incoming.whole is not None:
        await upload.stop()
    return incoming


def _send(wire: Wire, outgoing: Outgoing, rules: ExchangeRules) -> Upload | None:
    """Send what goes at once, which mostly is all; the upload for what is left."""
    first, body = render_head(outgoing, rules.close), outgoing.body
    rest: list[bytes] = []
    if isinstance(body, bytes):
        if len(body) <= _TOGETHER:
            first += body
        else:
            rest.append(body)
        body = None
    try:
        sent = wire.send_nowait(first)
    except OSError as broken:
        raise UpstreamError(Reason.RESET, _words(broken), unsent=True) from None
    if sent < len(first):
        rest.insert(0, first[sent:])
    if not rest and body is None:
        return None
    return Upload(wire, rest, body, outgoing.length, rules.body_timeout)


class _HeadReader:
    """Takes response heads off a wire. `heard`: anything came; `rest`: what followed."""

    __slots__ = ("_limit", "_method", "_wire", "heard", "rest")

    def __init__(self, wire: Wire, method: bytes, limit: int) -> None:
        self._wire = wire
        self._method = method
        self._limit = limit
        self.heard = False
        self.rest = b""

    async def read(self) -> Reply:
        """The next head. UpstreamError: RESET, BAD_RESPONSE."""
        buffer, searched = self.rest, 0
        while (end := find_end(buffer, searched)) < 0:
            if len(buffer) > self._limit:
                raise _bad(Malformed.TOO_LARGE)
            if is_hopeless(buffer):
                raise _bad(Malformed.HEAD, buffer)
            searched = len(buffer)
            buffer += await self._receive()
        if end > self._limit:
            raise _bad(Malformed.TOO_LARGE)
        head, self.rest = buffer[:end], buffer[end:]
        reply = parse_reply(head, self._method)
        if isinstance(reply, Malformed):
            raise _bad(reply, head)
        return reply

    async def _receive(self) -> bytes:
        try:
            if not self.heard:
                await self._wire.wait_for_answer()
            data = await self._wire.receive()
        except OSError as broken:
            raise UpstreamError(Reason.RESET, _words(broken)) from None
        if not data:
            raise UpstreamError(Reason.RESET, "in the middle of a head" if self.heard else "")
        self.heard = True
        return data


def _bad(malformed: Malformed, octets: bytes = b"") -> UpstreamError:
    quoted = f", {octets[:_QUOTED]!r}" if octets else ""
    return UpstreamError(Reason.BAD_RESPONSE, malformed.value + quoted)


def _words(broken: OSError) -> str:
    return broken.strerror or str(broken)
