"""Tells other workers what this one is getting from the upstream."""

from __future__ import annotations

import socket
from collections.abc import Callable

import msgspec
import trio

from edgebox.cache.flight import Passed, Renewed, Shared
from edgebox.cache.flights import Flights
from edgebox.cache.reasons import Cause
from edgebox.cache.serving import failure_of
from edgebox.cache.shelf import Kept
from edgebox.cache.siblings.messages import (
    FOR_ONE,
    NOTHING,
    Frames,
    Told,
    decode_question,
    encode,
    peer_of,
)
from edgebox.cache.spool import PIECE
from edgebox.cache.vary import fits
from edgebox.http.headers import Fields, Headers
from edgebox.http.message import StreamBroken

BACK_OFF = 0.2  # seconds, where no descriptor is left
GREETING = 2.0  # seconds for the question
STALLED = 60.0  # and for a frame: who takes none for so long has more to worry about

# Starts a task in a nursery, counted as one with an answer in hand: who drains waits for it.
Start = Callable[..., None]
# What RAM has for a key and a request's fields, if it is fresh.
Recall = Callable[[bytes, Headers], Kept | None]
_WRONG = (OSError, trio.BrokenResourceError, trio.TooSlowError, msgspec.MsgspecError, StreamBroken)


class Telling:
    """Answers questions about `flights`, those that have claimed their keys.

    A key stays claimed until the answer is on disk, where all workers find it: so long, what has
    landed is told from RAM.
    """

    def __init__(
        self, flights: Flights, recall: Recall, family: bytes, bug: Callable[[Exception], None]
    ) -> None:
        self._flights = flights
        self._recall = recall
        self._family = family
        self._bug = bug

    async def run(self, listener: socket.socket, start: Start) -> None:
        """Be asked at `listener`, which this closes, until cancelled."""
        with trio.socket.from_stdlib_socket(listener) as asked:
            async with trio.open_nursery() as nursery:
                while True:
                    try:
                        sock, _ = await asked.accept()
                    except OSError:
                        await trio.sleep(BACK_OFF)
                    else:
                        start(nursery, self._serve, sock)

    async def _serve(self, sock: trio.socket.SocketType) -> None:
        with sock:
            if not peer_of(sock):
                return
            try:
                await self._tell(Frames(trio.SocketStream(sock)))
            except _WRONG:
                pass  # whoever asked sees that there is no more
            except Exception as bug:  # nobody else is to suffer from it
                self._bug(bug)

    async def _tell(self, frames: Frames) -> None:
        with trio.fail_after(GREETING):
            octets = await frames.receive()
        if octets is None:
            return
        question = decode_question(octets)
        if question.family != self._family:
            await _send(frames, NOTHING)
            return
        asked = Headers(question.fields)
        flight = self._flights.claimed(question.key, question.known, asked)
        outcome = await flight.wait() if flight is not None else None
        match outcome:
            case Shared(entry, spool) if spool.readable and fits(entry.variant, asked):
                assert flight is not None
                reader = spool.read()
                told = Told(entry, outcome.length, flight.begun, flight.born)
                try:
                    await _send(frames, encode(told))
                    async for octets in reader:
                        await _send(frames, octets)
                    await _end(frames, spool.trailers)
                finally:
                    await reader.aclose()
            case Renewed(kept) if fits(kept.entry.variant, asked):
                await self._tell_kept(frames, kept)
            case Passed() if _is_for_one(outcome):
                await _send(frames, FOR_ONE)
            case _:
                await self._tell_kept(frames, self._recall(question.key, asked))

    async def _tell_kept(self, frames: Frames, kept: Kept | None) -> None:
        if kept is None or kept.content is None:
            await _send(frames, NOTHING)
            return
        await _send(frames, encode(Told(kept.entry, kept.size)))
        for start in range(0, kept.size, PIECE):
            await _send(frames, kept.content[start : start + PIECE])
        await _end(frames, ())


def _is_for_one(passed: Passed) -> bool:
    """Whether nobody else need hope for better: not where it was the request, or a failure."""
    return passed.reason.cause is not Cause.REQUEST and failure_of(passed.answer.status) is None


async def _send(frames: Frames, frame: bytes) -> None:
    with trio.fail_after(STALLED):
        await frames.send(frame)


async def _end(frames: Frames, trailers: Fields) -> None:
    await _send(frames, b"")
    await _send(frames, encode(trailers))
