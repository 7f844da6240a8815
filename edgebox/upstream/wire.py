"""One connection to an app server: its read and its write, TCP, Unix or TLS alike.

Over the stdlib's non-blocking sockets: the call is tried first and waited for only when the
kernel says so. A trio stream would yield to the scheduler for each call that succeeds, and
an exchange has only two of them. Closing never waits, so it cannot be cancelled halfway.
One task may receive while another sends. Knows no HTTP.
"""

from __future__ import annotations

import socket
import ssl
from contextlib import suppress

import trio

READ_SIZE = 64 * 1024
# After a read that filled that: a long body comes, and each piece may wake a thousand readers.
LONG_READ = 256 * 1024
_GIVE_WAY = 8  # reads that found octets at once, after which others get their turn

_NOT_YET = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


class Wire:
    """A connected socket.

    `secure`: it speaks TLS. `expired`: it was given up because nothing came for too long.
    `idle_since` is the pool's.
    """

    __slots__ = (
        "_at_once",
        "_open",
        "_recv",
        "_send",
        "_size",
        "_sock",
        "expired",
        "idle_since",
        "secure",
    )

    def __init__(self, sock: socket.socket) -> None:
        """Takes over `sock`, which must be non-blocking, and its handshake done if it is TLS."""
        self._sock = sock
        self._recv = sock.recv
        self._send = sock.send
        self._at_once = 0
        self._size = READ_SIZE
        self._open = True
        self.secure = isinstance(sock, ssl.SSLSocket)
        self.expired = False
        self.idle_since = 0.0

    def receive_nowait(self) -> bytes | None:
        """What is there, b"" at the end; None if nothing is. OSError as `receive`."""
        if self._at_once >= _GIVE_WAY:
            return None  # let `receive` yield first
        try:
            return self._read()
        except _NOT_YET:
            return None

    def take(self) -> bytes:
        """What the kernel says is there; b"" at the end. OSError as `receive`."""
        self._at_once, self._size = 0, READ_SIZE
        return self._recv(READ_SIZE)

    def fileno(self) -> int:
        return self._sock.fileno()

    async def receive(self) -> bytes:
        """The next octets, b"" at the end.

        OSError: the connection broke; ssl.SSLEOFError where it ended without the notice
        that TLS wants (RFC 8446 §6.1). trio.ClosedResourceError: closed by another task.
        """
        if self._at_once >= _GIVE_WAY:
            self._at_once = 0
            await trio.lowlevel.checkpoint()
        while True:
            try:
                return self._read()
            except _NOT_YET as reason:
                self._at_once = 0
                await self._wait(reason, to_read=True)

    def _read(self) -> bytes:
        data = self._recv(self._size)
        self._at_once += 1
        if len(data) >= READ_SIZE:
            self._size = LONG_READ
        return data

    async def wait_for_answer(self) -> None:
        """Until there may be something to receive: right after a request, nothing is.

        Saves the read that would find so. TLS may hold octets that the kernel has not.
        """
        self._size = READ_SIZE
        if not self.secure:
            self._at_once = 0
            await trio.lowlevel.wait_readable(self._sock)

    def send_nowait(self, data: bytes | memoryview) -> int:
        """Send what can be sent at once; how many octets that was. OSError as `receive`."""
        try:
            return self._send(data)
        except _NOT_YET:
            return 0

    async def send(self, data: bytes | memoryview) -> int:
        """Wait until some octets of `data`, which has some, can be sent; how many."""
        while True:
            try:
                return self._send(data)
            except _NOT_YET as reason:
                await self._wait(reason, to_read=False)

    async def _wait(self, reason: OSError, to_read: bool) -> None:
        """TLS may have to write in order to read, and the other way round."""
        if isinstance(reason, ssl.SSLWantReadError):
            to_read = True
        elif isinstance(reason, ssl.SSLWantWriteError):
            to_read = False
        wait = trio.lowlevel.wait_readable if to_read else trio.lowlevel.wait_writable
        try:
            await wait(self._sock)
        except trio.BusyResourceError:
            # The task of the other direction waits for the same: when it has what it wants,
            # ours is near.
            await trio.sleep(0.005)

    def is_quiet(self) -> bool:
        """Whether the peer has neither said nor ended anything: it may be asked again.

        A TLS session ticket that came late is read and means nothing.
        """
        try:
            if self.secure:
                self._recv(1)
            else:
                self._recv(1, socket.MSG_PEEK)
        except _NOT_YET:
            return True
        except OSError:
            pass
        return False

    def send_eof(self) -> None:
        """Say that nothing more will be sent; what comes can still be received."""
        with suppress(OSError):
            if isinstance(self._sock, ssl.SSLSocket):
                self._sock.unwrap()
            else:
                self._sock.shutdown(socket.SHUT_WR)

    def abort(self) -> None:
        """End both directions, so that whoever waits for octets finds the end."""
        with suppress(OSError):
            socket.socket.shutdown(self._sock, socket.SHUT_RDWR)

    def expire(self) -> None:
        """Give it up: who waits for octets finds the end, and why."""
        self.expired = True
        self.abort()

    def close(self) -> None:
        """Give the descriptor back; harmless when it was."""
        if not self._open:
            return
        self._open = False
        if self.secure:
            with suppress(OSError, ValueError):
                self.send_eof()  # close_notify, if it fits; nobody waits for the peer's
        trio.lowlevel.notify_closing(self._sock)
        self._sock.close()
