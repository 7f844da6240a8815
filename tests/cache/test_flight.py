"""A flight lands once, and all who wait hear of it."""

from __future__ import annotations

import trio

from edgebox.cache.flight import Failed, Flight
from edgebox.http.headers import Headers
from edgebox.upstream.errors import Reason, UpstreamError

RESET, TIMEOUT = (Failed(UpstreamError(r)) for r in (Reason.RESET, Reason.HEAD_TIMEOUT))


async def test_everybody_hears_of_the_outcome_early_or_late() -> None:
    flight = Flight(Headers(), 0)
    heard = []

    async def wait() -> None:
        heard.append(await flight.wait())

    async with trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(wait)
        await trio.testing.wait_all_tasks_blocked()
        assert flight.waiting.count == 3
        flight.land(RESET)
    assert heard == [RESET] * 3
    assert await flight.wait() is RESET
    assert flight.waiting.count == 0


async def test_the_first_outcome_counts() -> None:
    flight = Flight(Headers(), 0)
    flight.land(RESET)
    flight.land(TIMEOUT)
    assert await flight.wait() is RESET


async def test_who_gives_up_waiting_is_not_counted_any_more() -> None:
    flight = Flight(Headers(), 0)
    with trio.move_on_after(0):
        await flight.wait()
    assert flight.waiting.count == 0
