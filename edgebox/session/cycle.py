"""One request, from its head to the last octet of its answer.

    read_head → understand → respond → frame → write → log

`respond` is the site's business (`ops/worker/worker` puts it in); this room knows only that
a request goes in and a response comes out.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from time import perf_counter

import msgspec
import trio
from msgspec import Struct

from edgebox.epoch import Epoch
from edgebox.handlers.exchange import BodyRefused, Exchange
from edgebox.handlers.synthetic import refusal
from edgebox.http.faults import Fault
from edgebox.http.gate import HeadLimits
from edgebox.http.headers import Fields
from edgebox.http.message import FileSlice, Response, Switched
from edgebox.listen.connection import Connection
from edgebox.observe.access_log import Asked, Entry, split_head
from edgebox.observe.counters import Counters
from edgebox.observe.hottest import url_of
from edgebox.observe.kinds import kind_of
from edgebox.observe.outcome import member_in
from edgebox.observe.recorder import Recorder
from edgebox.send.carrier import LONG, Carrier
from edgebox.send.framing import Wire, frame, wants_keep_alive
from edgebox.send.writer import SendLimits, Sent, Writer
from edgebox.session.body import BodyReader
from edgebox.session.head import Received, read_head, receive_nowait, understand
from edgebox.session.tunnel import relay

# Raises BodyRefused.
Respond = Callable[[Exchange], Awaitable[Response]]

CLEAN_UP = 2  # seconds that giving back what a response holds may take when all else ends


@dataclass(frozen=True, slots=True)
class Rules:
    """The limits that a session holds its client to; see [limits] in edgebox.toml."""

    head: HeadLimits
    head_timeout: float
    idle: float
    drain_idle: float
    requests: int
    body_rate: int
    body_window: float
    linger: float
    send: SendLimits


class Gone(Struct, frozen=True):
    """An answer that went out: `octets` in all, `size` of them body.

    `host` is whom the request was for, `member` our part of Cache-Status, both b"" where that
    is not known; `asked` what an upstream had to do with it.
    """

    status: int
    size: int
    octets: int
    member: bytes = b""
    host: bytes = b""
    asked: Asked = msgspec.field(default_factory=Asked)


@dataclass(slots=True)
class Service:
    """What every session of a worker shares."""

    rules: Rules
    epoch: Epoch
    respond: Respond
    recorder: Recorder
    counters: Counters
    carrier: Carrier
    draining: bool = False
    waiting: set[trio.CancelScope] = field(default_factory=set)

    def note(self, conn: Connection, head: bytes, gone: Gone) -> None:
        """Write down an answer to `head`."""
        self.counters.answered(gone.status, gone.octets)
        if not (self.recorder.in_pieces or self.recorder.wants_entries):
            return
        now = trio.current_time()
        gone.asked.end(now)
        line, block = split_head(head)
        self.recorder.record(
            Entry(
                line=line,
                block=block,
                status=gone.status,
                size=gone.size,
                octets=gone.octets,
                peer=conn.peer,
                host=gone.host,
                member=gone.member,
                seconds=now - conn.began,
                requests=conn.requests,
                asked=gone.asked,
            )
        )

    def drain(self) -> None:
        """The next answer on each connection is its last.

        Who is idle may still ask, shortly: a request on its way when its connection is
        closed is lost, and its client cannot know whether it was heard.
        """
        self.draining = True
        until = trio.current_time() + self.rules.drain_idle
        for scope in self.waiting:
            scope.deadline = min(scope.deadline, until)

    def shed_waiting(self) -> bool:
        """End the sessions that wait for a request; False where none does."""
        for scope in self.waiting:
            scope.cancel()
        self.counters.shed += len(self.waiting)
        return bool(self.waiting)


class Account(Struct, frozen=True):
    """What is told of an answer to the request head `octets`, once it is over.

    No more than that: it is kept for as long as a download takes. `host` and `member` as of Gone.
    """

    service: Service
    conn: Connection
    octets: bytes
    status: int
    kind: str
    url: bytes
    host: bytes
    member: bytes
    asked: Asked
    head: int  # octets of the answer's head
    began: float  # perf_counter()
    first: float  # seconds until the head went out

    def settle(self, sent: Sent, octets: int, total: float, broken: str = "") -> None:
        """It is over: `octets` went out in `total` seconds; `broken` is what a stream said."""
        service, size = self.service, max(0, octets - self.head)
        gone = Gone(self.status, size, octets, self.member, self.host, self.asked)
        service.note(self.conn, self.octets, gone)
        service.counters.served(self.kind, octets, self.first, total)
        service.counters.hottest.note(self.url, 1, octets)
        if sent is not Sent.WHOLE:
            service.recorder.cut(self.conn.peer, self.octets, sent, broken)


class Long(Struct, frozen=True):
    """A piece of a file whose head is out. The file must be released."""

    piece: FileSlice
    keep_alive: bool
    account: Account


class Turn(Struct, frozen=True):
    """How a cycle ended: `keep_alive` when another request may follow.

    `linger`: the client may still be sending what nobody will read, so the connection
    is drained before it is closed, lest a reset overtake the answer (RFC 9112 §9.6).
    `long`: only the head is out; whoever gets this has the rest carried.
    """

    keep_alive: bool
    linger: bool = False
    long: Long | None = None


async def serve_one(
    service: Service, conn: Connection, buffer: bytearray, respond: Respond
) -> Turn:
    """Answer the request whose first octets are in `buffer`; `respond` has the answer."""
    octets = await read_head(conn, buffer, service.rules.head, service.rules.head_timeout)
    if octets is None:
        return Turn(False)
    if isinstance(octets, Fault):
        return await _refuse(service, conn, octets, bytes(buffer))
    received = understand(octets, service.rules.head)
    if isinstance(received, Fault):
        return await _refuse(service, conn, received, octets)
    conn.requests += 1
    conn.active = service.epoch.number
    return await _answer(service, conn, buffer, octets, received, respond)


async def _answer(
    service: Service, conn: Connection, buffer: bytearray, octets: bytes, received: Received,
    respond: Respond,
) -> Turn:  # fmt: skip
    rules, request = service.rules, received.request
    body = BodyReader(conn, buffer, received, rules.body_rate, rules.body_window)
    answering = True
    began = perf_counter()

    async def send_interim(status: int, fields: Fields) -> None:
        if answering and request.minor == 1:
            head = frame(Response(status, fields, forwarded=True), request.method, 1, True, b"")
            await Writer(conn, rules.send).send_rest((head.head,))

    exchange = Exchange(request, body, conn.peer, send_interim)
    try:
        response = await respond(exchange)
    except BodyRefused as refused:
        if refused.fault is None:
            return Turn(False)
        return await _refuse(service, conn, refused.fault, octets)
    except Exception as bug:
        service.recorder.bug(conn.peer, bug)
        response = refusal(Fault.INTERNAL)
    finally:
        answering = False  # whoever still fetches for others has no word to this client
        exchange.asked.settled = True
    wanted = wants_keep_alive(request.minor, request.headers.tokens(b"connection"))
    allowed = body.finished and not service.draining and conn.requests < rules.requests
    keep_alive = wanted and allowed
    wire = frame(response, request.method, request.minor, keep_alive, service.epoch.stamp)
    writer = Writer(conn, rules.send)
    first = perf_counter() - began  # a head is sent at once, whatever its body waits for
    account = Account(
        service=service,
        conn=conn,
        octets=octets,
        status=response.status,
        kind=kind_of(response),
        url=url_of(request),
        host=request.host,
        member=member_in(response.fields),
        asked=exchange.asked,
        head=len(wire.head),
        began=began,
        first=first,
    )
    piece = _maybe_long(wire, response)
    if buffer or keep_alive != wanted or not body.finished:
        piece = None  # whoever may be sending more meanwhile is this task's to see to
    handed_over = False
    try:
        if piece is not None:
            sent = await writer.send_head(wire)
            if sent is Sent.WHOLE:
                handed_over = True
                return Turn(False, long=Long(piece, wire.keep_alive, account))
        else:
            sent = await writer.write(wire, response)
        total = perf_counter() - began
        if isinstance(response.body, Switched) and sent is Sent.WHOLE:
            await relay(conn, bytes(buffer), response.body.duplex)
    finally:
        if not handed_over:
            with trio.move_on_after(CLEAN_UP, shield=True):
                await response.aclose()
    account.settle(sent, writer.sent, total, writer.broken)
    if sent is not Sent.WHOLE:
        return Turn(False)
    if isinstance(response.body, Switched):
        return Turn(False)
    if wire.keep_alive and body.finished:
        return Turn(True)
    # Who did not ask for the end may be sending the next request at this moment.
    more = wanted or not body.finished or bool(buffer) or receive_nowait(conn, buffer)
    return Turn(False, linger=more)


def _maybe_long(wire: Wire, response: Response) -> FileSlice | None:
    """The body, where it is one piece of a file that no socket's buffer takes whole."""
    body = response.body
    if wire.body and isinstance(body, FileSlice) and body.length >= LONG:
        return body
    return None


async def _refuse(service: Service, conn: Connection, fault: Fault, octets: bytes) -> Turn:
    """Tell the client why, then end the connection or not, as the fault says."""
    response = refusal(fault)
    method = b"HEAD" if octets.startswith(b"HEAD ") else b"GET"  # RFC 9110 §9.3.2: no content
    wire = frame(response, method, 1, not fault.close, service.epoch.stamp)
    writer = Writer(conn, service.rules.send)
    sent = await writer.write(wire, response)
    size = max(0, writer.sent - len(wire.head))
    service.note(conn, octets, Gone(response.status, size, writer.sent))
    keep_alive = wire.keep_alive and sent is Sent.WHOLE
    return Turn(keep_alive, linger=not keep_alive)
