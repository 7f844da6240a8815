"""The life of one client connection in a task: request after request, then idle or end.

A connection has one owner. It comes here with the octets that were read already, and
goes back to `park` (the express lane) when it is idle, or waits here where there is none.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from time import perf_counter

import trio
from msgspec import Struct

from edgebox.handlers.synthetic import refusal
from edgebox.http.faults import Fault
from edgebox.listen.connection import Connection
from edgebox.send.framing import frame
from edgebox.send.writer import Sent, Writer
from edgebox.session.cycle import Gone, Long, Respond, Service, serve_one
from edgebox.session.head import READ_SIZE, receive, receive_nowait

LINGER_OCTETS = 1024 * 1024  # what is still read of a client that does not stop sending

Park = Callable[[Connection], None]


class Unsent(Struct, frozen=True):
    """An answer to `head` of which the socket's buffer took only `sent` octets.

    `member` is our part of its Cache-Status.
    """

    head: bytes
    parts: Sequence[bytes]
    sent: int
    status: int
    keep_alive: bool
    member: bytes

    def rest(self) -> list[memoryview]:
        skip, rest = self.sent, []
        for part in self.parts:
            if skip < len(part):
                rest.append(memoryview(part)[skip:])
            skip = max(0, skip - len(part))
        return rest

    def body_octets(self, sent: int) -> int:
        """Of `sent` octets in all, how many were body."""
        return max(0, sent - self.parts[0].index(b"\r\n\r\n") - 4)


async def serve(
    service: Service,
    conn: Connection,
    octets: bytes = b"",
    park: Park | None = None,
    first: Respond | None = None,
) -> None:
    """Serve `conn` until it ends or is parked. `octets` were read from it already.

    `first` has the answer to the first request, where it is not the service's to give; that
    one began before.
    """
    buffer = bytearray(octets)
    parked = False
    try:
        while buffer or await wait_request(service, conn, buffer):
            if first is None:
                conn.began = trio.current_time()
            turn = await serve_one(service, conn, buffer, first or service.respond)
            first = None
            if turn.long is not None:
                parked = True
                service.carrier.take(conn, turn.long.piece, partial(give_back, turn.long, park))
                return
            if turn.linger:
                await linger(conn, service.rules.linger)
            if not turn.keep_alive:
                return
            if not buffer and park is not None:
                parked = True
                park(conn)
                return
    except Exception as bug:  # one connection's bug must not end the others
        service.recorder.bug(conn.peer, bug)
    finally:
        if not parked:
            conn.close()


async def wait_request(service: Service, conn: Connection, buffer: bytearray) -> bool:
    """Wait for the first octets of a request; False when none came or none is wanted."""
    rules = service.rules
    with trio.move_on_after(rules.drain_idle if service.draining else rules.idle) as scope:
        service.waiting.add(scope)
        try:
            return await receive(conn, buffer)
        finally:
            service.waiting.discard(scope)
    # A loop that is late has octets that it has not seen; closed with these, it is a reset.
    return not conn.is_silent() and await receive(conn, buffer)


async def linger(conn: Connection, seconds: float) -> None:
    """Say that we are done, then read what still comes for a while.

    Closing with unread octets sends a reset, which may destroy the answer in the
    client's receive buffer (RFC 9112 §9.6). Ends after `seconds` or LINGER_OCTETS.
    """
    with suppress(OSError):
        conn.sock.shutdown(socket.SHUT_WR)
    drained = bytearray()
    total = 0
    with trio.move_on_after(seconds):
        while total < LINGER_OCTETS and await receive(conn, drained):
            total += len(drained)
            drained.clear()


def give_back(long: Long, park: Park | None, outcome: Sent, octets: int) -> None:
    """A file was carried, or `octets` of it: tell of it, and see to its connection."""
    account = long.account
    service, conn = account.service, account.conn
    long.piece.file.release()
    account.settle(outcome, account.head + octets, perf_counter() - account.began)
    if outcome is not Sent.WHOLE:
        conn.close()
    elif not long.keep_alive:
        if receive_nowait(conn, bytearray()):
            service.carrier.start(part, service, conn)
        else:
            conn.close()
    elif park is not None:
        park(conn)
    else:
        service.carrier.start(serve, service, conn)


async def part(service: Service, conn: Connection) -> None:
    """Close a connection whose client is still sending."""
    try:
        await linger(conn, service.rules.linger)
    finally:
        conn.close()


async def finish(service: Service, conn: Connection, unsent: Unsent, park: Park) -> None:
    """Send the rest of an answer that the express lane began, then park `conn`."""
    parked = False
    conn.began = trio.current_time()
    try:
        writer = Writer(conn, service.rules.send)
        outcome = await writer.send_rest(unsent.rest())
        sent = unsent.sent + writer.sent
        gone = Gone(unsent.status, unsent.body_octets(sent), sent, unsent.member)
        service.note(conn, unsent.head, gone)
        if outcome is not Sent.WHOLE:
            service.recorder.cut(conn.peer, unsent.head, outcome)
        elif unsent.keep_alive:
            parked = True
            park(conn)
        elif receive_nowait(conn, bytearray()):
            await linger(conn, service.rules.linger)
    finally:
        if not parked:
            conn.close()


def turn_away(service: Service, conn: Connection) -> None:
    """No room, and nobody idle to make some: a fast 503, never a stall."""
    service.counters.busy += 1
    response = refusal(Fault.BUSY)
    wire = frame(response, b"GET", 1, False, service.epoch.stamp)
    assert isinstance(response.body, bytes)
    with suppress(OSError):
        # What was asked is read first: closing with octets unread would reset the answer away.
        conn.recv(READ_SIZE, socket.MSG_DONTWAIT)
    with suppress(OSError):
        conn.send(wire.head + response.body, socket.MSG_DONTWAIT)
    conn.close()
