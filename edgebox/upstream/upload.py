"""A request's body on its way to the app server, beside the wait for the answer.

A task of its own, since a server may answer before it has read everything, and may want its
answer read before it reads on. At most one piece is held; the next is asked for when it
has gone out, so a slow server slows the client down and costs no memory.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from itertools import count

import trio

from edgebox.upstream.errors import Reason, UpstreamError
from edgebox.upstream.wire import Wire

_GIVE_WAY = 8  # pieces, after which others get their turn
# What a server reads off for an app that did not want it, to keep the connection. It hangs up
# on more, and does not say so: gunicorn 27 from 64 KiB on, and every tenth POST that was sent
# on such a connection right afterwards was lost.
_READ_OFF = 16 * 1024
_LETTING_GO = 1.0  # seconds that a cancelled body may take to end


class Upload:
    """Sends `rest`, octets that are framed already, then a body.

    `begun`: the body was asked for a piece. `over`: nothing more will be sent; `when_over`
    is called as soon as that is so. `complete`: every octet of the request is with the
    kernel. `failure`: why they never will be, and then the wire is dead; None as well where
    the server broke it, which whoever awaits the answer will find. `done`: wire and body
    were let go.
    """

    def __init__(
        self,
        wire: Wire,
        rest: Sequence[bytes],
        body: AsyncIterator[bytes] | None,
        length: int | None,
        stall: float,
    ) -> None:
        """`length` None: chunked. `stall`: seconds in which the server must take some octets."""
        self._wire = wire
        self._rest = rest
        self._body = body
        self._length = length
        self._stall = stall
        self._scope = trio.CancelScope()
        self._stopped = False
        self.when_over = do_nothing
        self._sent = 0  # octets
        self.begun = False
        self.over = False
        self.complete = False
        self.failure: UpstreamError | None = None
        self.done = trio.Event()

    async def run(self) -> None:
        """Send it all, or as much as is possible or wanted. Raises nothing but Cancelled."""
        broken = False
        try:
            with self._scope:
                try:
                    await self._send_all()
                    self.complete = True
                except UpstreamError as failure:
                    self.failure = failure
                except (OSError, trio.ClosedResourceError):
                    broken = True  # an early answer may lie in the socket all the same
                finally:
                    self.over = True
                    if not (self.complete or broken or self._stopped):
                        # The request will never be whole: let nobody wait for an answer.
                        self.failure = self.failure or UpstreamError(Reason.REQUEST_BODY)
                        self._wire.abort()
                    self.when_over()
                    await _close(self._body)
        finally:
            self.done.set()

    @property
    def was_taken(self) -> bool:
        """Whether the server has read it all, or surely will."""
        return self.complete and self._sent <= _READ_OFF

    async def stop(self) -> None:
        """End it and wait until it has let go: nobody reads the body when this returns."""
        self._stopped = True
        self._scope.cancel()
        # Shielded, since it is called on the way out; what is waited for is cancelled itself.
        with trio.move_on_after(_LETTING_GO, shield=True):
            await self.done.wait()

    async def _send_all(self) -> None:
        for octets in self._rest:
            await self._send(octets)
        if self._body is not None:
            await self._send_body(self._body)

    async def _send_body(self, body: AsyncIterator[bytes]) -> None:
        left = self._length
        self.begun = True
        for turn in count():
            if left == 0:
                break
            if turn % _GIVE_WAY == _GIVE_WAY - 1:  # neither side need ever make us wait
                await trio.lowlevel.checkpoint()
            piece = await _next_piece(body)
            if piece is None:
                break
            if not piece:
                continue
            if left is None:
                piece = b"%x\r\n%b\r\n" % (len(piece), piece)
            else:
                piece = piece[:left]
                left -= len(piece)
            await self._send(piece)
        if left:
            raise UpstreamError(Reason.REQUEST_BODY, f"{left} octets short of its length")
        if self._length is None:
            await self._send(b"0\r\n\r\n")

    async def _send(self, data: bytes | memoryview) -> None:
        self._sent += len(data)
        sent = self._wire.send_nowait(data) if data else 0
        while sent < len(data):
            data = memoryview(data)[sent:]
            with trio.CancelScope(deadline=trio.current_time() + self._stall) as scope:
                sent = await self._wire.send(data)
            if scope.cancelled_caught:
                raise UpstreamError(Reason.SEND_TIMEOUT, f"for {self._stall:g} s")


def do_nothing() -> None:
    """Nobody waits for the end of an upload."""


async def _next_piece(body: AsyncIterator[bytes]) -> bytes | None:
    """The next piece, None at the end; whatever goes wrong there is the request's fault."""
    try:
        return await anext(body, None)
    except Exception as failed:
        raise UpstreamError(Reason.REQUEST_BODY, str(failed)) from failed


async def _close(body: AsyncIterator[bytes] | None) -> None:
    """Let a generator clean up; a bug there must not end the other uploads."""
    aclose = getattr(body, "aclose", None)
    if aclose is not None:
        with suppress(Exception):
            await aclose()
