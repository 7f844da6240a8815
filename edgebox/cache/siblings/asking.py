"""Gets from another worker what that one is getting from the upstream."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

import msgspec
import trio

from edgebox.cache.answer import Answer, Instant
from edgebox.cache.siblings.claims import Claims
from edgebox.cache.siblings.messages import (
    FOR_ONE,
    NOTHING,
    Frames,
    Question,
    Told,
    address_of,
    decode_fields,
    decode_told,
    encode,
    peer_of,
)
from edgebox.cache.vary import Variant
from edgebox.http.headers import Fields, Headers
from edgebox.upstream.errors import Reason, Truncated

# Seconds until somebody who is there has taken the connection: all that it takes is a turn.
GREETING = 2.0
# And until his upstream answers, or goes on: he has limits of his own, and this is for who hangs.
PATIENCE = 60.0

_WRONG = (OSError, trio.BrokenResourceError, msgspec.MsgspecError, trio.TooSlowError)


class Borrowed:
    """An answer that another worker is getting; like `Incoming` as far as a flight looks."""

    whole = None

    def __init__(self, frames: Frames, told: Told) -> None:
        self._frames = frames
        self.told = told
        self.length = told.length
        self.trailers: Fields = ()

    @property
    def answer(self) -> Answer:
        """What the upstream said, as far as it is stored."""
        entry = self.told.entry
        received = Instant(entry.received_wall, entry.received_steady)
        return Answer(entry.status, Headers(entry.fields), received, received)

    def __aiter__(self) -> Borrowed:
        return self

    async def __anext__(self) -> bytes:
        """The next octets. Truncated: the rest will not come."""
        try:
            with trio.fail_after(PATIENCE):
                octets = await self._frames.receive()
                if octets:
                    return octets
                trailers = await self._frames.receive() if octets is not None else None
            if trailers is not None:
                self.trailers = decode_fields(trailers)
                raise StopAsyncIteration
        except _WRONG as wrong:
            raise Truncated(Reason.TRUNCATED, f"another worker had it: {wrong}") from wrong
        raise Truncated(Reason.TRUNCATED, "another worker had it")

    async def aclose(self) -> None:
        self._frames.close()
        await trio.lowlevel.checkpoint()


class Refusal(Enum):
    """Why nothing could be borrowed."""

    NOTHING = "it gets nothing that fits"
    FOR_ONE = "what came was for one client only"
    GONE = "it has ended, or is not to be reached"


_REFUSALS = {NOTHING: Refusal.NOTHING, FOR_ONE: Refusal.FOR_ONE}


class Asking:
    """Claims keys, and asks who has claimed them before."""

    def __init__(self, claims: Claims, family: bytes) -> None:
        self._family = family
        self.claim = claims.take
        self.let_go = claims.let_go

    async def borrow(
        self, pid: int, key: bytes, fields: Fields, known: Iterable[Variant]
    ) -> Borrowed | Refusal:
        """What that worker is getting for a GET of `key` with these fields."""
        question = Question(self._family, key, fields, tuple(known))
        frames = None
        try:
            frames = await _reach(pid)
            if frames is None:
                return Refusal.GONE
            with trio.fail_after(PATIENCE):
                await frames.send(encode(question))
                head = await frames.receive()
            if head in _REFUSALS:
                return _REFUSALS[head]
            if head is not None:
                borrowed = Borrowed(frames, decode_told(head))
                frames = None
                return borrowed
        except _WRONG:
            pass  # it is dead, or about to be
        finally:
            if frames is not None:
                frames.close()
        return Refusal.GONE


async def _reach(pid: int) -> Frames | None:
    """A connection to that worker; None where it is not he who answers."""
    sock = trio.socket.socket(trio.socket.AF_UNIX)
    try:
        with trio.fail_after(GREETING):
            await sock.connect(address_of(pid))
        if peer_of(sock) != pid:
            sock.close()
            return None
    except BaseException:
        sock.close()
        raise
    return Frames(trio.SocketStream(sock))
