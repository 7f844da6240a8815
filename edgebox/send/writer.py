"""Puts a rendered answer on a connection: sendmsg for RAM, sendfile for disk.

Tries first and waits only when the kernel says so: most answers fit the socket's
buffer. File windows that are not in the page cache are read in by a thread before
sendfile touches them, so a slow disk stalls one client and not the loop.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass, field
from enum import Enum

import trio

from edgebox.files.residency import is_resident, load_window
from edgebox.http.message import Body, FileSlice, Response, Stream, StreamBroken, Switched
from edgebox.listen.connection import Connection
from edgebox.send import bandwidth
from edgebox.send.bandwidth import Bandwidth
from edgebox.send.framing import Wire
from edgebox.send.pace import Pace

NOWAIT = socket.MSG_DONTWAIT
MORE = socket.MSG_DONTWAIT | socket.MSG_MORE  # a file follows: let it share the segment


class Sent(Enum):
    """How sending an answer ended."""

    WHOLE = "whole"
    GONE = "client gone"  # reset or closed by the client: nobody's mistake
    SLOW = "client too slow"  # below the minimum rate
    SHRUNK = "file shrank while it was sent"  # the answer must be visibly cut off
    BROKEN = "body ended early"  # a stream that failed; likewise


@dataclass(frozen=True, slots=True)
class SendLimits:
    """`rate` octets a second at least over each `window` seconds; `chunk` octets a sendfile call.

    `bandwidth` is the most that may go out.
    """

    rate: int
    window: float
    chunk: int
    readers: trio.CapacityLimiter
    bandwidth: Bandwidth = field(default_factory=Bandwidth)


class Writer:
    """Sends one answer on one connection and counts what went out."""

    __slots__ = ("_budgets", "_conn", "_limits", "_pace", "broken", "sent")

    def __init__(self, conn: Connection, limits: SendLimits) -> None:
        self._conn = conn
        self._limits = limits
        self._pace = Pace(limits.rate, limits.window, trio.current_time())
        self._budgets = limits.bandwidth.budgets(conn)
        self.sent = 0  # octets, head included
        self.broken = ""  # what a broken stream said of itself

    async def write(self, wire: Wire, response: Response) -> Sent:
        """Send head and body. Never raises for what the client does."""
        return await self._guard(self._write(wire, response.body if wire.body else b""))

    async def send_head(self, wire: Wire) -> Sent:
        """Send the head alone; a file will follow it at once."""
        return await self._guard(self._send_parts((wire.head,), more=True))

    async def send_rest(self, parts: Sequence[bytes | memoryview]) -> Sent:
        """Send what is left of an answer that was begun elsewhere."""
        return await self._guard(self._send_parts(parts))

    async def _send_parts(self, parts: Sequence[bytes | memoryview], more: bool = False) -> Sent:
        await self.send_all(parts, more)
        return Sent.WHOLE

    @staticmethod
    async def _guard(sending: Awaitable[Sent]) -> Sent:
        try:
            return await sending
        except _TooSlow:
            return Sent.SLOW
        except OSError:
            return Sent.GONE

    async def _write(self, wire: Wire, body: Body) -> Sent:
        if isinstance(body, bytes | Switched):
            await self.send_all((wire.head, body if isinstance(body, bytes) else b""))
            return Sent.WHOLE
        if isinstance(body, Stream):
            await self.send_all((wire.head,))
            return await self._send_stream(body, wire.chunked)
        await self.send_all((wire.head,), more=True)
        pieces = body if isinstance(body, tuple) else (body,)
        for number, piece in enumerate(pieces, 1):
            if isinstance(piece, bytes):
                # Not with the last: the kernel would wait 200 ms for more of the segment.
                await self.send_all((piece,), more=number < len(pieces))
            elif not await self._send_file(piece):
                return Sent.SHRUNK
        return Sent.WHOLE

    async def send_all(self, parts: Sequence[bytes | memoryview], more: bool = False) -> None:
        """Send all octets of `parts` in order."""
        flags = MORE if more else NOWAIT
        rest: list[bytes | memoryview] = [p for p in parts if p]
        while rest:
            most = await self._wait_allowed()
            try:
                sent = self._conn.sock.sendmsg(_clip(rest, most) if most else rest, (), flags)
            except BlockingIOError:
                await self._wait_writable()
                continue
            self._moved(sent)
            while rest and sent >= len(rest[0]):
                sent -= len(rest.pop(0))
            if rest and sent:
                rest[0] = memoryview(rest[0])[sent:]

    async def _send_file(self, piece: FileSlice) -> bool:
        """False: the file ended before the slice did."""
        sock, fd = self._conn.sock, piece.file.fileno()
        sock.setblocking(False)  # sendfile knows no MSG_DONTWAIT
        offset, end = piece.offset, piece.offset + piece.length
        loaded = offset  # up to here the page cache was seen to hold the file
        while offset < end:
            if offset >= loaded:
                window = min(self._limits.chunk, end - offset)
                if not is_resident(fd, offset, window):
                    await trio.to_thread.run_sync(
                        load_window, fd, offset, window, limiter=self._limits.readers
                    )
                loaded = offset + window
            most = await self._wait_allowed() or window
            try:
                sent = os.sendfile(sock.fileno(), fd, offset, min(most, loaded - offset))
            except BlockingIOError:
                await self._wait_writable()
                continue
            if sent == 0:
                return False
            self._moved(sent)
            offset += sent
            await trio.lowlevel.checkpoint()  # a fast reader is not alone here
        return True

    async def _send_stream(self, body: Stream, chunked: bool) -> Sent:
        left = body.length
        chunks = body.chunks
        while True:
            try:
                data = await anext(chunks, None)
            except StreamBroken as broken:
                self.broken = str(broken)
                return Sent.BROKEN
            if data is None:
                break
            if not data:
                continue
            if left is not None:
                data = data[:left]
                left -= len(data)
            # The reader's time begins now: it is not to blame for a slow source.
            self._pace = Pace(self._limits.rate, self._limits.window, trio.current_time())
            if chunked:
                await self.send_all((b"%x\r\n" % len(data), data, b"\r\n"))
            else:
                await self.send_all((data,))
        if left:
            return Sent.BROKEN
        if chunked:
            trailers = body.trailers() if body.trailers is not None else ()
            lines = b"".join([b"%s: %s\r\n" % field for field in trailers])
            await self.send_all((b"0\r\n%s\r\n" % lines,))
        return Sent.WHOLE

    async def _wait_allowed(self) -> int:
        """Wait until the limits leave room. How much may go now, 0 for as much as there is."""
        limits, budgets = self._limits.bandwidth, self._budgets
        if limits.server is None and not budgets:
            return 0
        began = trio.current_time()
        await limits.wait_solvent()
        if limits.server is not None and self.sent >= bandwidth.SMALL:
            budgets = (*budgets, limits.server)
        while True:
            now = trio.current_time()
            due = bandwidth.due(budgets, now)
            if due <= now:
                break
            await trio.sleep_until(due)
        self._pace.deadline += now - began  # this was not the client's time
        return bandwidth.piece(budgets)

    async def _wait_writable(self) -> None:
        with trio.move_on_at(self._pace.deadline) as scope:
            await trio.lowlevel.wait_writable(self._conn.sock)
        if scope.cancelled_caught:
            raise _TooSlow

    def _moved(self, octets: int) -> None:
        self.sent += octets
        self._pace.progress(octets, trio.current_time())
        if self._budgets:
            bandwidth.spend(self._budgets, octets)
        self._limits.bandwidth.spend(octets)


def _clip(parts: Sequence[bytes | memoryview], most: int) -> list[bytes | memoryview]:
    """The first `most` octets of `parts`."""
    clipped: list[bytes | memoryview] = []
    for part in parts:
        clipped.append(memoryview(part)[:most])
        most -= len(clipped[-1])
        if not most:
            break
    return clipped


class _TooSlow(Exception):
    """The client reads below the minimum rate."""
