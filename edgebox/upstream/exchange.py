"""One request and its answer's head, on one connection.

The request goes out first; what does not fit at once goes on in a task of its own
(`upload`), because a server may answer before it has read everything. Then one deadline
counts for the head, from the moment the request is out. Interim responses are passed on
and start it anew: they say that the server is at work.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import trio

from edgebox.http.gate import find_end
from edgebox.upstream.errors import Malformed, Reason, UpstreamError
from edgebox.upstream.incoming import Incoming
from edgebox.upstream.lease import Lease
from edgebox.upstream.outgoing import Outgoing, render_head
from edgebox.upstream.patience import Patience
from edgebox.upstream.reply import Reply, is_hopeless, parse_reply
from edgebox.upstream.tunnel import Tunnel
from edgebox.upstream.upload import Upload, do_nothing
from edgebox.upstream.wire import Wire

MAX_INTERIM = 32  # responses before the final one
_TOGETHER = 16 * 1024  # octets of body that are sent with the head, at one go
_QUOTED = 60  # octets of a malformed head that are told

SWITCHING = 101


@dataclass(frozen=True, slots=True)
class Terms:
    """What an exchange gets from whoever keeps it going.

    `head` and `body`: how long a server may take to answer, and stall within a body.
    `head_size`: octets of a head. `close`: ask for the end of the connection after each
    answer. `nursery` takes the uploads.
    """

    head: Patience
    body: Patience
    head_size: int
    close: bool
    nursery: trio.Nursery


async def exchange(lease: Lease, outgoing: Outgoing, terms: Terms) -> Incoming | Tunnel:
    """Send `outgoing` and wait for its answer's head; a Tunnel for a 101 that was asked for.

    UpstreamError: no usable head came. Whenever this raises, the lease has ended and nobody
    reads the request's body any more.
    """
    wire = lease.wire
    reader = HeadReader(wire, outgoing.method, terms.head_size)
    try:
        upload = _send(wire, outgoing, terms)
    except BaseException as reason:
        lease.end(reusable=False)
        if isinstance(reason, UpstreamError):
            reason.unanswered = reason.resendable = True
        raise
    if upload is None:
        terms.head.begin(wire)
    else:
        upload.when_over = partial(terms.head.begin, wire)
        terms.nursery.start_soon(upload.run)
    return await conclude(lease, outgoing, terms, reader, upload)


async def conclude(
    lease: Lease, outgoing: Outgoing, terms: Terms, reader: HeadReader, upload: Upload | None = None
) -> Incoming | Tunnel:
    """The second half of an exchange: the request is out, but for what `upload` sends."""
    wire = lease.wire
    try:
        try:
            reply = await _final(reader, outgoing, upload, terms.head)
        finally:
            if upload is not None:
                upload.when_over = do_nothing
            terms.head.end(wire)
        if upload is not None and reply.status >= 300:
            # It will not read on (RFC 9112 §9.5). After a 2xx it may: some answer as they read.
            await upload.stop()
    except BaseException as reason:
        lease.end(reusable=False)
        if upload is not None:
            await upload.stop()
        if not isinstance(reason, UpstreamError):
            raise
        if wire.expired:
            reason = UpstreamError(Reason.HEAD_TIMEOUT, f"within {terms.head.seconds:g} s")
        error = reason if upload is None else upload.failure or reason
        error.unanswered = not reader.heard
        error.resendable = upload is None or not upload.begun
        raise error from error.__cause__
    lease.answered(trio.current_time())
    if reply.status == SWITCHING:
        return Tunnel(reply, reader.rest, lease)
    incoming = Incoming(reply, reader.rest, lease, terms.body, upload)
    if upload is not None and incoming.whole is not None:
        await upload.stop()
    return incoming


async def _final(
    reader: HeadReader, outgoing: Outgoing, upload: Upload | None, patience: Patience
) -> Reply:
    """The final response's head, or that of a 101 that was asked for."""
    for _ in range(MAX_INTERIM + 1):
        reply = await reader.read()
        if reply.status >= 200:
            return reply
        if reply.status == SWITCHING:
            whole = upload is None or upload.complete
            if outgoing.upgrade and reply.upgrade and whole:
                return reply
            raise _bad(Malformed.SWITCHED)
        patience.end(reader.wire)
        if outgoing.on_interim is not None and reply.status != 100:
            await outgoing.on_interim(reply.status, reply.fields)
        if upload is None or upload.over:
            patience.begin(reader.wire)
    raise _bad(Malformed.INTERIM_FLOOD)


def _send(wire: Wire, outgoing: Outgoing, terms: Terms) -> Upload | None:
    """Send what goes at once, which mostly is all; gives the upload for what is left."""
    first, body = render_head(outgoing, terms.close), outgoing.body
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
    return Upload(wire, rest, body, outgoing.length, terms.body.seconds)


class HeadReader:
    """Takes response heads off a wire. `heard`: anything came; `rest`: what followed."""

    __slots__ = ("_limit", "_method", "heard", "rest", "wire")

    def __init__(self, wire: Wire, method: bytes, limit: int, octets: bytes = b"") -> None:
        """`octets` came already."""
        self.wire = wire
        self._method = method
        self._limit = limit
        self.heard = bool(octets)
        self.rest = octets

    async def read(self) -> Reply:
        """The next head. UpstreamError: RESET, BAD_RESPONSE."""
        buffer, searched = self.rest, 0
        while not buffer or (end := find_end(buffer, searched)) < 0:
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
                await self.wire.wait_for_answer()
            data = await self.wire.receive()
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
