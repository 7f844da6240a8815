"""Who gets which server, and who waits."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import trio

from edgebox.upstream.balance import RoundRobin
from edgebox.upstream.connector import Connector
from edgebox.upstream.dispatch import Dispatcher, eligible
from edgebox.upstream.errors import Reason, UpstreamError
from edgebox.upstream.health import HealthRules, Standing
from edgebox.upstream.origin import Origin
from edgebox.upstream.server import Member, Server, ServerRules

RULES = ServerRules(2, 0, 0, HealthRules(1, 10, 1, 1))


def server(name: str, backup: bool = False, rules: ServerRules = RULES) -> Server:
    origin = Origin(name, 80)
    connector = Connector(origin, 1, None)
    return Server(Member(origin, 1, backup), connector, rules, lambda level, text: None)


def dispatcher(*servers: Server, queue: int = 8, timeout: float = 5) -> Dispatcher:
    return Dispatcher(servers, RoundRobin(), queue, timeout)


def eject(failing: Server) -> None:
    failing.failed(UpstreamError(Reason.RESET))


def down(failing: Server) -> None:
    failing.checked("ill")


def drain(failing: Server) -> None:
    failing.drain()


def found(servers: list[Server], now: float = 0, tried: list[Server] | None = None) -> list[str]:
    return [one.name[-1] for one in eligible(servers, now, tried or [])]


@pytest.fixture
async def servers(autojump_clock) -> list[Server]:
    return [server("a"), server("b"), server("x", backup=True), server("y", backup=True)]


async def test_backups_stay_back_while_anybody_else_is_there(servers) -> None:
    assert found(servers) == ["a", "b"]
    eject(servers[0])
    assert found(servers) == ["b"]
    down(servers[1])
    assert found(servers) == ["x", "y"]


async def test_where_all_failed_lately_all_are_asked_and_backups_last(servers) -> None:
    for one in servers:
        eject(one)
    assert found(servers) == ["a", "b"]
    for one in servers[:2]:
        down(one)
    assert found(servers) == ["x", "y"]


@pytest.mark.parametrize("out", [down, drain])
async def test_checks_and_operators_can_leave_nobody(servers, out: Callable) -> None:
    for one in servers:
        out(one)
    assert found(servers) == []


async def test_those_tried_are_passed_over(servers) -> None:
    assert found(servers, tried=[servers[0]]) == ["b"]
    assert found(servers, tried=servers[:2]) == ["x", "y"]
    assert found(servers, tried=servers) == []


async def test_a_term_that_is_over_makes_one_request_a_trial(servers) -> None:
    eject(servers[0])
    now = trio.current_time() + 10
    assert found(servers, now) == ["a", "b"]
    servers[0].occupy(now)
    assert servers[0].standing(now) is Standing.EJECTED
    assert found(servers, now) == ["b"]


async def test_places_run_out_and_come_back() -> None:
    one = server("a")
    places = dispatcher(one)
    assert [places.acquire_nowait(b"", trio.current_time()) for _ in range(3)] == [one, one, None]
    one.vacate()
    assert places.acquire_nowait(b"", trio.current_time()) is one


async def test_nobody_up_is_a_503() -> None:
    one = server("a")
    drain(one)
    with pytest.raises(UpstreamError) as caught:
        dispatcher(one).acquire_nowait(b"", trio.current_time())
    assert (caught.value.reason, caught.value.status) == (Reason.NO_SERVER, 503)


async def test_the_one_who_waited_longest_is_next_and_nobody_overtakes(autojump_clock) -> None:
    one, order = server("a"), []
    places = dispatcher(one)
    for _ in range(2):
        places.acquire_nowait(b"", trio.current_time())

    async def wait(number: int) -> None:
        await places.acquire(b"")
        order.append(number)

    async with trio.open_nursery() as nursery:
        for number in range(4):
            nursery.start_soon(wait, number)
            await trio.sleep(0.1)
        assert places.statistics() == {"waiting": 4, "waited": 4}
        for _ in range(4):
            one.vacate()
            assert places.acquire_nowait(b"", trio.current_time()) is None
            await trio.sleep(0.1)
    assert order == [0, 1, 2, 3]


async def test_the_queue_is_bounded_in_length_and_time(autojump_clock) -> None:
    one = server("a")
    places = dispatcher(one, queue=1, timeout=5)
    for _ in range(2):
        places.acquire_nowait(b"", trio.current_time())
    reasons = []

    async def wait() -> None:
        with pytest.raises(UpstreamError) as caught:
            await places.acquire(b"")
        reasons.append((caught.value.reason, caught.value.status, trio.current_time() - start))

    start = trio.current_time()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait)
        await trio.sleep(1)
        nursery.start_soon(wait)
    assert reasons == [(Reason.QUEUE_FULL, 503, 1), (Reason.QUEUE_TIMEOUT, 503, 5)]
    assert (one.active, places.statistics()["waiting"]) == (2, 0)


async def test_one_who_gives_up_loses_no_place(autojump_clock) -> None:
    one = server("a")
    places = dispatcher(one)
    for _ in range(2):
        places.acquire_nowait(b"", trio.current_time())
    with trio.move_on_after(1):
        await places.acquire(b"")
    assert places.statistics()["waiting"] == 0
    with trio.CancelScope() as scope:  # cancelled in the instant in which a place is given
        async with trio.open_nursery() as nursery:

            async def give_and_cancel() -> None:
                await trio.testing.wait_all_tasks_blocked()
                scope.cancel()
                one.vacate()

            nursery.start_soon(give_and_cancel)
            await places.acquire(b"")
            pytest.fail("it got a place")
    assert one.active == 1


async def test_a_server_that_comes_back_takes_those_who_wait(autojump_clock) -> None:
    one, other = server("a"), server("b")
    down(other)
    places = dispatcher(one, other)
    for _ in range(2):
        places.acquire_nowait(b"", trio.current_time())
    got = []

    async def wait() -> None:
        got.append(await places.acquire(b""))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait)
        nursery.start_soon(wait)
        await trio.sleep(1)
        other.checked(None)
    assert got == [other, other]


async def test_those_who_wait_are_told_when_nobody_is_left(autojump_clock) -> None:
    one = server("a")
    places = dispatcher(one)
    for _ in range(2):
        places.acquire_nowait(b"", trio.current_time())

    async def wait() -> None:
        with pytest.raises(UpstreamError) as caught:
            await places.acquire(b"")
        assert caught.value.reason is Reason.NO_SERVER

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait)
        await trio.sleep(1)
        drain(one)


async def test_a_choosy_one_does_not_hold_up_the_others(autojump_clock) -> None:
    one, other = server("a"), server("b")
    places = dispatcher(one, other)
    for _ in range(4):
        places.acquire_nowait(b"", trio.current_time())
    got = []

    async def wait(name: str, tried: list[Server]) -> None:
        got.append((name, await places.acquire(b"", tried)))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait, "choosy", [one])
        await trio.sleep(1)
        nursery.start_soon(wait, "other", [])
        await trio.sleep(1)
        one.vacate()
        await trio.sleep(1)
        other.vacate()
    assert got == [("other", one), ("choosy", other)]


async def test_nobody_overtakes_where_a_term_is_over_unnoticed(autojump_clock) -> None:
    one, other = server("a"), server("b")
    eject(other)
    places = dispatcher(one, other, timeout=60)
    for _ in range(2):
        places.acquire_nowait(b"", trio.current_time())
    order = []

    async def wait(number: int) -> None:
        order.append((number, await places.acquire(b"")))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait, 1)
        await trio.sleep(10)
        assert places.acquire_nowait(b"", trio.current_time()) is None
        nursery.start_soon(wait, 2)
        await trio.sleep(1)
        assert order == [(1, other)]  # on trial: one request only
        other.answered(0.1)
    assert order == [(1, other), (2, other)]
