"""Reads one request head off a connection, under one deadline, and takes it apart.

`http/gate` judges and splits it, `http/target` says what is asked for. The gate refuses all
that h11 would read amiss, and a property test holds that h11 reads what it accepts in the
same way; so h11 itself, which cost the design's prototype a third of a request, is only set up
where there is a body to read. The deadline is for the whole head and is not moved by
single octets (FAULTS: slow head).
"""

from __future__ import annotations

import socket

import h11
import trio
from msgspec import Struct

from edgebox.http.faults import Fault
from edgebox.http.gate import (
    NO_BODY,
    Head,
    HeadLimits,
    find_end,
    inspect,
    maybe_refuse,
    skip_blank_lines,
)
from edgebox.http.headers import Headers
from edgebox.http.message import Request
from edgebox.http.target import effective_host, parse_target
from edgebox.listen.connection import Connection

READ_SIZE = 16 * 1024


class Received(Struct, frozen=True):
    """A request, the head it came in, and h11 to read its body with, if it has one."""

    request: Request
    head: Head
    reader: h11.Connection | None


async def receive(conn: Connection, buffer: bytearray) -> bool:
    """Append what the client sends next to `buffer`; False at its end or on a reset."""
    while True:
        try:
            data = conn.recv(READ_SIZE, socket.MSG_DONTWAIT)
        except BlockingIOError:
            await trio.lowlevel.wait_readable(conn.sock)
            continue
        except OSError:
            return False
        buffer += data
        return bool(data)


def receive_nowait(conn: Connection, buffer: bytearray) -> bool:
    """Append what the client has sent already to `buffer`; False where there is nothing."""
    try:
        data = conn.recv(READ_SIZE, socket.MSG_DONTWAIT)
    except OSError:
        return False
    buffer += data
    return bool(data)


async def read_head(
    conn: Connection, buffer: bytearray, limits: HeadLimits, timeout: float
) -> bytes | Fault | None:
    """The octets of the next head, taken off `buffer`, in `timeout` seconds for all of it.

    None when the client closed first, be it in the middle: nobody is left to answer.
    """
    searched = 0
    with trio.move_on_after(timeout):
        while True:
            if buffer.startswith(b"\r"):  # perhaps half of an empty line came before
                del buffer[: skip_blank_lines(buffer)]
                searched = 0
            end = find_end(buffer, searched)
            if end >= 0:
                head = bytes(buffer[:end])
                del buffer[:end]
                return head
            refused = maybe_refuse(buffer, searched, limits)
            if refused is not None:
                return refused
            searched = len(buffer)
            if not await receive(conn, buffer):
                return None
    return Fault.HEAD_TIMEOUT


def understand(octets: bytes, limits: HeadLimits) -> Received | Fault:
    """What the head asks for, or why it is refused."""
    head = inspect(octets, limits)
    if isinstance(head, Fault):
        return head
    target = parse_target(head.method, head.target)
    if isinstance(target, Fault):
        return target
    headers = Headers(head.fields)
    # An absolute target's authority wins over Host (RFC 9112 §3.2.2).
    host = head.host if target.authority is None else effective_host(target, headers, head.minor)
    if isinstance(host, Fault):
        return host
    request = Request(head.method, target, host, headers, head.minor)
    if head.framing == NO_BODY:
        return Received(request, head, None)
    reader = _open_reader(octets, limits)
    return reader if isinstance(reader, Fault) else Received(request, head, reader)


def _open_reader(octets: bytes, limits: HeadLimits) -> h11.Connection | Fault:
    """h11, past the head and before the body."""
    reader = h11.Connection(h11.SERVER, max_incomplete_event_size=limits.size + 1)
    reader.receive_data(octets)
    try:
        event = reader.next_event()
    except h11.RemoteProtocolError as refused:
        return Fault.CODING_UNKNOWN if refused.error_status_hint == 501 else Fault.NOT_HTTP
    return reader if isinstance(event, h11.Request) else Fault.NOT_HTTP
