"""Tells other workers what this one is getting from the upstream."""

from __future__ import annotations

import socket
from collections.abc import Callable

import msgspec
import trio

from edgebox.cache.flight import Flight, Passed, Shared
from edgebox.cache.flights import Flights
from edgebox.cache.reasons import Cause
from edgebox.cache.siblings.messages import (
    FOR_ONE,
    NOTHING,
    Frames,
    Told,
    decode_question,
    encode,
    peer_of,
)
from edgebox.cache.vary import fits
from edgebox.http.headers import Headers
from edgebox.http.message import StreamBroken

BACK_OFF = 0.2  # seconds, where no descriptor is left
GREETING = 2.0  # seconds for the question
STALLED = 60.0  # and for a frame: who takes none for so long has more to worry about

# Starts a task in a nursery, counted as one with an answer in hand: who drains waits for it.
Start = Callable[..., None]
_WRONG = (OSError, trio.BrokenResourceError, trio.TooSlowError, msgspec.MsgspecError, StreamBroken)


class Telling:
    """Answers questions about `flights`, those that have claimed their keys."""

    def __init__(self, flights: Flights, family: bytes) -> None:
        self._flights = flights
        self._family = family

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

    async def _tell(self, frames: Frames) -> None:
        with trio.fail_after(GREETING):
            octets = await frames.receive()
        if octets is None:
            return
        question = decode_question(octets)
        asked = Headers(question.fields)
        flight = None
        if question.family == self._family:
            flight = self._flights.claimed(question.key, asked)
        outcome = await flight.wait() if flight is not None else None
        match outcome:
            case Shared() if outcome.spool.readable and fits(outcome.entry.variant, asked):
                assert flight is not None
                await _send(frames, flight, outcome)
            case Passed() if outcome.reason.cause is not Cause.REQUEST:
                await _send_in_time(frames, FOR_ONE)
            case _:
                await _send_in_time(frames, NOTHING)


async def _send(frames: Frames, flight: Flight, shared: Shared) -> None:
    answer, spool = shared.answer, shared.spool
    told = Told(
        answer.status, answer.headers.fields, answer.sent, answer.received, shared.length,
        flight.begun, flight.born,
    )  # fmt: skip
    reader = spool.read()
    try:
        await _send_in_time(frames, encode(told))
        async for octets in reader:
            await _send_in_time(frames, octets)
        await _send_in_time(frames, b"")
        await _send_in_time(frames, encode(spool.trailers))
    finally:
        await reader.aclose()


async def _send_in_time(frames: Frames, frame: bytes) -> None:
    with trio.fail_after(STALLED):
        await frames.send(frame)
