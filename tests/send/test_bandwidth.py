"""Limits of bandwidth: a download takes at least as long as they say, and nobody owes for ever."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from edgebox.http.message import Response
from edgebox.listen.connection import Connection
from edgebox.send.bandwidth import CATCH_UP, LEAST, SMALL, Bandwidth, Budget, Rates
from edgebox.send.framing import frame
from edgebox.send.writer import SendLimits, Sent, Writer
from tests.send.conftest import Box, Boxes
from tests.wire import request

RATE = 2_000_000


@given(
    st.integers(1, 10**9),
    st.lists(st.tuples(st.floats(0, 2), st.integers(0, 10**6)), max_size=50),
)
def test_a_budget_never_gives_more_than_its_rate(rate: int, steps: list[tuple[float, int]]) -> None:
    budget, now, sent, last = Budget(rate), 0.0, 0, 0
    for wait, octets in steps:
        now += wait
        if budget.due(now) <= now:
            budget.spend(octets)
            sent, last = sent + octets, octets
    # What was sent last may be owed still.
    assert sent - last <= rate * (now + CATCH_UP) * 1.001 + 1


@given(st.integers(1, 10**9), st.integers(0, 10**7))
def test_who_waits_until_it_is_due_finds_room(rate: int, octets: int) -> None:
    budget = Budget(rate)
    budget.room(1.0)
    budget.spend(octets)
    due = budget.due(1.0)
    assert due >= 1.0
    assert due <= 1.0 + (octets + 1) / rate
    assert budget.due(due + 1e-3) <= due + 1e-3


def test_who_is_late_gives_up_what_he_says_he_will() -> None:
    budget = Budget(1000)
    assert budget.room(100.0) == pytest.approx(1000 * CATCH_UP)
    assert budget.room(100.0, catch_up=0.001) == pytest.approx(1)
    assert budget.room(100.0) == pytest.approx(1), "given up, not put aside"


@given(st.integers(1, 10**10))
def test_pieces_are_neither_tiny_nor_huge(rate: int) -> None:
    assert LEAST <= Budget(rate).piece <= SMALL


@pytest.fixture
def pair() -> Iterator[tuple[Connection, socket.socket]]:
    ours, theirs = socket.socketpair()
    yield Connection(ours, b"unix:", b"", 0), theirs
    ours.close()
    theirs.close()


async def test_a_unix_socket_that_no_kernel_paces_is_held_to_the_rate(
    pair: tuple[Connection, socket.socket],
) -> None:
    conn, theirs = pair
    limits = SendLimits(1, 5, 65536, trio.CapacityLimiter(1), Bandwidth(Rates(connection=RATE)))
    response = Response(200, (), bytes(300_000))
    began = trio.current_time()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(drain, theirs)
        sent = await Writer(conn, limits).write(frame(response, b"GET", 1, True, b""), response)
        conn.close()
    assert sent is Sent.WHOLE
    assert trio.current_time() - began >= (300_000 - SMALL) / RATE - CATCH_UP


async def drain(sock: socket.socket) -> None:
    sock.setblocking(False)
    while True:
        await trio.lowlevel.wait_readable(sock)
        if not sock.recv(65536):
            return


def test_clients_share_a_budget_by_address_and_leave_their_debts(
    pair: tuple[Connection, socket.socket],
) -> None:
    bandwidth = Bandwidth(Rates(client=1000))
    with socket.socket() as sock:
        here, again, there = (Connection(sock, peer, b"", 0) for peer in (b"a", b"a", b"b"))
        (budget,) = bandwidth.budgets(here)
        assert bandwidth.budgets(again) == (budget,)
        assert bandwidth.budgets(there) != (budget,)
        budget.spend(5000)
        del budget
        bandwidth.turn(1.0)
        (budget,) = bandwidth.budgets(here)  # back, and not forgiven
        assert budget.due(1.0) > 4
        del budget
        bandwidth.turn(100.0)
        bandwidth.turn(100.0)
        assert bandwidth.statistics()["clients"] == 0
    assert bandwidth.budgets(pair[0]) == (), "a Unix socket has no address"


def test_readers_are_not_held_to_what_a_limit_keeps_from_them() -> None:
    assert Rates().least(1000) == 1000
    assert Rates(connection=10_000).least(1000) == 1000
    assert Rates(connection=100).least(1000) == 50


async def download(box: Box, target: str = "/long.bin") -> None:
    async with box.connect() as client:
        await client.send(request(target))
        assert (await client.read_answer()).status == 200


@pytest.mark.slow
@pytest.mark.parametrize("key", ["server_rate", "connection_rate", "client_rate"])
async def test_a_download_takes_the_time_that_the_limit_demands(boxes: Boxes, key: str) -> None:
    async with boxes(limits={key: RATE}) as box:
        began = trio.current_time()
        await download(box)
        # The kernel lets ten segments of a connection go unpaced.
        assert trio.current_time() - began >= (len(box.body) - 2 * SMALL) / RATE - CATCH_UP


@pytest.mark.slow
@pytest.mark.parametrize("key", ["server_rate", "client_rate"])
async def test_downloads_share_what_there_is(boxes: Boxes, key: str) -> None:
    async with boxes(limits={key: 2 * RATE}) as box:
        began = trio.current_time()
        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(download, box)
        size = 3 * len(box.body)
        assert trio.current_time() - began >= (size - 3 * SMALL) / (2 * RATE) - CATCH_UP


@pytest.mark.slow
@pytest.mark.parametrize("key", ["server_rate", "connection_rate", "client_rate"])
async def test_small_answers_are_limited_too(boxes: Boxes, key: str) -> None:
    rate, size, count = 400_000, 4000, 75
    async with boxes(limits={key: rate}) as box, box.connect() as client:
        (box.access.parent / "www" / "small.bin").write_bytes(bytes(size))
        began = trio.current_time()
        for _ in range(count):
            await client.send(request("/small.bin"))
            await client.read_answer()
        # Of the server's rate, a quarter of a second may be owed by small answers.
        allowed = rate * 0.25 + 2 * SMALL
        assert trio.current_time() - began >= (count * size - allowed) / rate - CATCH_UP


@pytest.mark.slow
async def test_a_small_answer_does_not_wait_behind_long_ones(boxes: Boxes) -> None:
    """With what the server may send used up for seconds, and no more clients than that."""
    async with boxes(limits={"server_rate": 200_000}) as box:
        async with trio.open_nursery() as nursery:
            for _ in range(5):
                nursery.start_soon(download, box)
            await trio.sleep(0.3)
            for _ in range(5):
                with trio.fail_after(2):  # a turn in the queue of five would take 37
                    assert (await box.server.get("/a.txt")).status == 200
            nursery.cancel_scope.cancel()
