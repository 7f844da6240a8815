"""A client connection that has switched protocols: octets both ways until one side ends.

There is no deadline on silence: a WebSocket may be quiet for hours, and its own pings are
its business. TCP keep-alive finds peers that are gone.
"""

from __future__ import annotations

import socket

import trio

from edgebox.http.message import Duplex
from edgebox.listen.connection import Connection
from edgebox.session.head import receive

KEEP_ALIVE_IDLE = 60  # seconds of silence before the kernel asks whether the peer is there


async def relay(conn: Connection, early: bytes, duplex: Duplex) -> None:
    """Pass octets between client and `duplex`; `early` came behind the client's request."""
    if conn.sock.family != socket.AF_UNIX:
        conn.sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        conn.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, KEEP_ALIVE_IDLE)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_upwards, conn, early, duplex, nursery.cancel_scope)
        await _downwards(conn, duplex)
        nursery.cancel_scope.cancel()


async def _upwards(conn: Connection, early: bytes, duplex: Duplex, scope: trio.CancelScope) -> None:
    buffer = bytearray(early)
    try:
        while buffer or await receive(conn, buffer):
            octets = bytes(buffer)
            buffer.clear()
            await duplex.send(octets)
        duplex.send_eof()  # the client has ended its side; the other may go on
    except (OSError, trio.ClosedResourceError):
        scope.cancel()


async def _downwards(conn: Connection, duplex: Duplex) -> None:
    try:
        while octets := await duplex.receive():
            rest = memoryview(octets)
            while rest:
                try:
                    rest = rest[conn.send(rest, socket.MSG_DONTWAIT) :]
                except BlockingIOError:
                    await trio.lowlevel.wait_writable(conn.sock)
    except (OSError, trio.ClosedResourceError):
        return
