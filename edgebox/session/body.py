"""The body of one request: read for whoever wants it, or read off and thrown away.

Whatever happens, its octets are never taken for the next request (RFC 9110 §9.3.1):
either the body was read to its end, or the connection ends. A minimum rate holds, so
that a slow body does not keep a connection for ever.
"""

from __future__ import annotations

import socket
from collections.abc import AsyncGenerator
from contextlib import aclosing

import h11
import trio

from edgebox.handlers.exchange import BodyRefused
from edgebox.http.chunked import ChunkGate
from edgebox.http.faults import Fault
from edgebox.listen.connection import Connection
from edgebox.send.pace import Pace
from edgebox.session.head import Received, receive

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


class BodyReader:
    """The octets after a head, as its framing delimits them."""

    def __init__(
        self, conn: Connection, buffer: bytearray, received: Received, rate: int, window: float
    ) -> None:
        """`rate` octets a second are due in each `window` seconds."""
        self._conn = conn
        self._buffer = buffer
        self._reader = received.reader
        self.framing = received.head.framing
        self._gate = ChunkGate() if self.framing.chunked else None
        self._left = self.framing.length or 0
        self._rate, self._window = rate, window
        self.finished = not self.framing.chunked and self._left == 0
        # The client waits for a word before it sends: 100, or a final answer.
        self.awaited = received.head.expects_continue and not self.finished

    @property
    def length(self) -> int | None:
        """Octets of content as the head tells them: None for a chunked body."""
        return None if self.framing.chunked else self.framing.length or 0

    async def read(self) -> AsyncGenerator[bytes, None]:
        """Pieces of content as they arrive. Raises BodyRefused."""
        if self.awaited:
            self.awaited = False
            if not self._buffer:  # RFC 9110 §10.1.1: needless once the body is coming
                await self._invite()
        pace = Pace(self._rate, self._window, trio.current_time())
        while not self.finished:
            if not self._buffer:
                with trio.move_on_at(pace.deadline) as scope:
                    if not await receive(self._conn, self._buffer):
                        raise BodyRefused(None)
                if scope.cancelled_caught:
                    raise BodyRefused(Fault.BODY_TIMEOUT)
            octets = self._take()
            pace.progress(len(octets), trio.current_time())
            if self._gate is None:  # nothing to decode: half the cost of a way through h11
                yield octets
                continue
            for content in self._decode(octets):
                yield content

    async def discard(self, limit: int) -> Fault | None:
        """Read the body off; None when the next request may follow.

        Gives BODY_TOO_LARGE for more than `limit` octets of content: the caller answers
        what it has to answer and ends the connection; and so for a client that waits to be
        asked, since without a 100 it may go on with its next request as well as with the
        body (RFC 9110 §10.1.1). Raises BodyRefused.
        """
        if self._left > limit or self.awaited:
            return Fault.BODY_TOO_LARGE
        seen = 0
        async with aclosing(self.read()) as contents:
            async for content in contents:
                seen += len(content)
                if seen > limit:
                    return Fault.BODY_TOO_LARGE
        return None

    async def _invite(self) -> None:
        with trio.move_on_after(self._window):
            try:
                while True:
                    try:
                        self._conn.send(CONTINUE, socket.MSG_DONTWAIT)  # it fits, or nothing does
                        return
                    except BlockingIOError:
                        await trio.lowlevel.wait_writable(self._conn.sock)
            except OSError:
                raise BodyRefused(None) from None

    def _take(self) -> bytes:
        """The octets in the buffer that belong to this body, taken off it."""
        if self._gate is None:
            count = min(self._left, len(self._buffer))
            self._left -= count
            self.finished = self._left == 0
        else:
            before = self._gate.consumed
            fault = self._gate.feed(bytes(self._buffer))
            if fault is not None:
                raise BodyRefused(fault)
            count = self._gate.consumed - before
            self.finished = self._gate.done
        octets = bytes(self._buffer[:count])
        del self._buffer[:count]
        return octets

    def _decode(self, octets: bytes) -> list[bytes]:
        assert self._reader is not None  # there is a body
        contents = []
        try:
            self._reader.receive_data(octets)
            while isinstance(event := self._reader.next_event(), h11.Data):
                contents.append(bytes(event.data))
        except h11.RemoteProtocolError:
            raise BodyRefused(Fault.CHUNK) from None
        return contents
