"""An app server's answer: its head, and its body as it arrives.

Iterate it for the body. Each piece is what one read found, handed on at once and not
before the last one was taken, so an event stream is not delayed and a slow client costs no
memory. The connection goes back to the pool with the last octet, or is closed where
anything is in doubt: octets beyond the body, a body cut off, a request not sent whole.
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Callable

from edgebox.http.headers import Fields
from edgebox.upstream.content import content_of
from edgebox.upstream.errors import Malformed, Reason, Truncated
from edgebox.upstream.lease import Lease
from edgebox.upstream.patience import Patience
from edgebox.upstream.reply import Reply
from edgebox.upstream.upload import Upload


class Incoming:
    """`status`, `fields` and `length` are as in `Reply`.

    `whole`: the body, where all of it came with the head; None where only the iterator
    gives it. `trailers` are known when it has ended. One task at a time may read; read to
    the end or `aclose()`.
    """

    __slots__ = (
        "_content",
        "_error",
        "_keep_alive",
        "_lease",
        "_over",
        "_patience",
        "_ready",
        "_upload",
        "fields",
        "length",
        "status",
        "whole",
    )

    def __init__(
        self, reply: Reply, rest: bytes, lease: Lease, patience: Patience, upload: Upload | None
    ) -> None:
        """`rest` came behind the head. `patience` is for the time without an octet."""
        self.status = reply.status
        self.fields = reply.fields
        self.length = reply.length
        self._keep_alive = reply.keep_alive
        self._lease = lease
        self._patience = patience
        self._upload = upload
        self._content = content_of(reply)
        self._over = False
        self._error: Truncated | None = None
        self._ready = b""
        self._take(rest)
        self.whole = self._ready if self._over and self._error is None else None

    @property
    def server(self) -> str:
        """Who answered: a URL."""
        return self._lease.server.name

    @property
    def reused(self) -> bool:
        """Whether the connection had served before."""
        return self._lease.reused

    def when_over(self, call: Callable[[], None]) -> None:
        """Have `call` run when the last octet is here, or none will come; now if that is so."""
        if self._lease.over:
            call()
        else:
            self._lease.when_over = call

    @property
    def trailers(self) -> Fields:
        return self._content.trailers

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        """The next octets, never none.

        Truncated: there was more, but it will not come; told as often as it is asked. Where
        the wait is cancelled the connection is closed.
        """
        while not self._ready:
            if self._over:
                await self._stop_upload()
                raise self._error or StopAsyncIteration
            try:
                self._take(await self._receive())
            except Truncated as error:
                self._fail(error)
            except BaseException:
                await self.aclose()
                raise
        piece, self._ready = self._ready, b""
        return piece

    async def aclose(self) -> None:
        """Let go of the connection, whatever has come; harmless when it was let go."""
        if self._ready or not self._over:
            self._error = self._error or Truncated(Reason.TRUNCATED, "it was left unread")
        self._ready = b""
        self._over = True
        self._lease.end(reusable=False)
        await self._stop_upload()

    async def _receive(self) -> bytes:
        """The next octets; b"" where the connection ended and the body with it."""
        wire, ragged = self._lease.wire, ""
        try:
            data = wire.receive_nowait()
            if data is None:
                self._patience.begin(wire)
                try:
                    data = await wire.receive()
                finally:
                    self._patience.end(wire)
        except ssl.SSLEOFError:
            # RFC 9112 §9.8: without a closure alert, anybody may have cut it off.
            data, ragged = b"", "without closing TLS"
        except OSError as broken:
            data, ragged = b"", broken.strerror or str(broken)
        if data:
            return data
        if wire.expired:
            raise Truncated(Reason.BODY_TIMEOUT, f"for {self._patience.seconds:g} s")
        if self._upload is not None and self._upload.failure is not None:
            failure = self._upload.failure
            raise Truncated(failure.reason, failure.detail) from failure
        if ragged or not self._content.until_close:
            raise Truncated(Reason.TRUNCATED, ragged)
        self._over = True
        self._lease.end(reusable=False)
        return b""

    def _take(self, data: bytes) -> None:
        """Follow what was received; the body's end is seen here, but for that of an Endless."""
        content = self._content
        taken = content.feed(data)
        if isinstance(taken, Malformed):
            self._fail(Truncated(Reason.BAD_RESPONSE, taken.value))
            return
        self._ready = taken
        if content.done:
            self._over = True
            sent = self._upload is None or self._upload.was_taken
            self._lease.end(self._keep_alive and sent and not content.surplus)

    def _fail(self, error: Truncated) -> None:
        self._over = True
        self._error = error
        self._lease.end(reusable=False)
        self._lease.server.failed(error)

    async def _stop_upload(self) -> None:
        if self._upload is not None and not self._upload.done.is_set():
            await self._upload.stop()
