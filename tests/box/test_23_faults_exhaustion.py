"""Clients that take too much, too long or leave: they lose, and nobody else notices.

The numbers are those of the project's list of fault classes. All clients are on loopback
and in this very process; limits are set low so that they strike soon.
"""

from __future__ import annotations

import re
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
import trio

from tests.box.conftest import Arena
from tests.conftest import HELLO
from tests.wire import PATIENCE, Client, Server, count_answers, first_status, request

slow = pytest.mark.slow
RESET = struct.pack("ii", 1, 0)  # SO_LINGER: close with a reset


async def reset(client: Client) -> None:
    client.stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    await client.stream.aclose()


@pytest.mark.parametrize(
    ("octets", "status"),
    [
        (request("/", "X: " + "y" * 20_000), 431),
        (request("/", *["X: " + "y" * 1000] * 20), 431),
        (request("/", *["X: y"] * 101), 431),
        (request("/", *["X:"] * 5000), 431),
        (b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"y" * 20_000, 431),
        (request("/" + "y" * 9000), 414),
        (request("/?" + "y" * 20_000), 414),
        (b"GET /" + b"y" * 20_000, 414),
        (b"y" * 20_000, 431),
    ],
    ids=lambda value: None if isinstance(value, bytes) else str(value),
)
async def test_38_a_head_beyond_the_limits(arena: Arena, octets: bytes, status: int) -> None:
    async with arena() as server:
        for step in (None, 1009):
            answer = await server.exchange(octets, step)
            assert first_status(answer) == status
            assert count_answers(answer) == 1


async def test_38_a_head_within_the_limits_is_no_trouble(arena: Arena) -> None:
    async with arena() as server, server.connect() as client:
        for fields in (["X: " + "y" * 15_000], ["X: y"] * 99):
            for _ in range(3):
                await client.send(request("/?" + "q" * 500, *fields))
                assert (await client.read_answer()).body == HELLO


async def trickle(client: Client, octets: bytes, pause: float) -> None:
    try:
        for octet in octets:
            await client.send(bytes([octet]))
            await trio.sleep(pause)
    except (trio.BrokenResourceError, trio.ClosedResourceError):
        pass


@slow
@pytest.mark.parametrize(
    "octets", [b"", b"\r\n" * 500, request("/", "X: " + "y" * 1000)], ids=["none", "blank", "head"]
)
async def test_39_a_slow_head_has_one_deadline(arena: Arena, octets: bytes) -> None:
    async with arena(limits={"head_timeout": 0.3}) as server:
        async with server.connect() as client, trio.open_nursery() as nursery:
            await client.send(b"\r\nG" if not octets else octets[:1])
            nursery.start_soon(trickle, client, octets[1:], 0.02)
            assert (await server.get("/")).body == HELLO
            answer = await client.read_all()
            nursery.cancel_scope.cancel()
        assert first_status(answer) == 408
        assert count_answers(answer) == 1


@slow
@pytest.mark.parametrize("framing", ["Content-Length: 5000", "Transfer-Encoding: chunked"])
async def test_40_a_slow_body_has_a_minimum_rate(arena: Arena, framing: str) -> None:
    limits = {"body_timeout": 0.3, "body_rate": 1000}
    async with arena(limits=limits) as server:
        async with server.connect() as client, trio.open_nursery() as nursery:
            await client.send(request("/", framing, method="POST"))
            nursery.start_soon(trickle, client, b"1\r\nx\r\n" * 800, 0.02)
            answer = await client.read_all()
            nursery.cancel_scope.cancel()
        assert first_status(answer) == 408
        assert count_answers(answer) == 1


@pytest.fixture
def huge(root: Path) -> Path:
    """More than any socket's buffers hold, and no disk space."""
    path = root / "huge.bin"
    path.touch()
    with path.open("r+b") as file:
        file.truncate(64 * 1024 * 1024)
    return path


@contextmanager
def small_window(server: Server) -> Iterator[socket.socket]:
    """A client that takes in next to nothing."""
    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        sock.connect(("127.0.0.1", server.port))
        sock.setblocking(False)
        yield sock


@slow
@pytest.mark.alone  # whoever reads has to be faster than who does not
@pytest.mark.parametrize("target", ["/huge.bin", "/big.bin"])
async def test_41_a_reader_that_stops_is_let_go(
    arena: Arena, root: Path, huge: Path, target: str
) -> None:
    """One answer goes by sendfile, the other lies in RAM and may have begun in the lane."""
    limits = {"send_timeout": 0.3, "send_rate": 1_000_000}
    async with arena(limits=limits, files={"object_size": 2_000_000}) as server:
        assert (await server.get("/big.bin")).status == 200
        with small_window(server) as sock:
            for _ in range(8):  # 12 MB: more than the server's side buffers
                sock.send(request(target))
            with trio.fail_after(PATIENCE):
                while server.worker.counters.requests == 1:
                    await trio.sleep(0.01)
            assert (await server.get("/")).body == HELLO
            await server.wait_rest()  # while the client still holds its end


@slow
async def test_41_a_reader_that_trickles_is_let_go_too(arena: Arena, huge: Path) -> None:
    limits = {"send_timeout": 0.3, "send_rate": 50_000_000}
    async with arena(limits=limits) as server:
        with small_window(server) as sock:
            sock.send(request("/huge.bin"))
            with trio.fail_after(PATIENCE):
                while not server.worker.admission.tasks:
                    await trio.sleep(0.001)
                while server.worker.admission.tasks:
                    with suppress(BlockingIOError):
                        assert sock.recv(1000)
                    await trio.sleep(0.001)
            await server.wait_rest()


@slow
async def test_42_a_flood_of_pipelined_requests_is_answered_in_order(
    arena: Arena, root: Path
) -> None:
    """The server stops reading while nobody takes its answers, so it holds next to nothing."""
    for digit in range(10):
        (root / f"{digit}").write_bytes(b"%d" % digit * 20_000)
    total = 600
    async with arena() as server, server.connect() as client:
        for buffer in (socket.SO_SNDBUF, socket.SO_RCVBUF):
            client.stream.setsockopt(socket.SOL_SOCKET, buffer, 65536)
        sent = 0

        async def flood() -> None:
            nonlocal sent
            for number in range(total):
                await client.send(request(f"/{number % 10}", "X: " + "y" * 2000))
                sent = number + 1
            await client.stream.send_eof()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(flood)
            before = -1
            while sent != before:  # until the client cannot send any more
                before = sent
                await trio.sleep(0.3)
            assert sent < total
            assert server.worker.counters.requests < total
            assert (await server.get("/")).body == HELLO
            answers = (await client.read_all()).split(b"HTTP/1.1 200 OK\r\n")[1:]
        assert len(answers) == total
        for number, answer in enumerate(answers):
            assert answer.endswith(b"\r\n\r\n" + b"%d" % (number % 10) * 20_000)


async def ask_and_go_on(server: Server, octets: bytes) -> bytes:
    """What is answered to a client that reads while it sends."""
    async with server.connect() as client, trio.open_nursery() as nursery:

        async def send() -> None:
            with suppress(trio.BrokenResourceError):
                await client.send(octets)

        nursery.start_soon(send)
        return await client.read_all()


@pytest.mark.parametrize("target", ["/", "/big.bin"])
async def test_43_what_comes_after_close_is_ignored(arena: Arena, root: Path, target: str) -> None:
    body = {"/": HELLO}.get(target) or (root / "big.bin").read_bytes()
    async with arena() as server:
        for junk in (b"x", request("/a.txt"), request("/a.txt") * 5000):
            for _ in range(3):
                answer = await ask_and_go_on(server, request(target, "Connection: close") + junk)
                assert count_answers(answer) == 1
                assert answer.endswith(body)


@slow
async def test_43_nor_does_it_destroy_an_answer_that_is_still_under_way(
    arena: Arena, root: Path
) -> None:
    """A close that the client did not ask for may cross its next request on the way."""
    async with arena(limits={"keep_alive_requests": 1}) as server:
        for _ in range(3):
            with small_window(server) as sock:
                sock.send(request("/big.bin"))
                await trio.sleep(0.05)
                sock.send(request("/a.txt"))
                stream = trio.SocketStream(trio.socket.from_stdlib_socket(sock.dup()))
                async with stream:
                    answer = await Client(stream).read_all()
            assert answer.endswith((root / "big.bin").read_bytes())


async def test_43_requests_beyond_the_last_allowed_cost_no_answer(arena: Arena, root: Path) -> None:
    async with arena(limits={"keep_alive_requests": 3}) as server:
        answer = await server.exchange(request("/a.txt") * 2 + request("/big.bin") * 3000)
        assert count_answers(answer) == 3
        assert answer.endswith((root / "big.bin").read_bytes())


async def test_44_a_client_that_is_done_sending_is_answered_in_full(
    arena: Arena, root: Path
) -> None:
    async with arena() as server:
        for target, body in (("/", HELLO), ("/big.bin", (root / "big.bin").read_bytes())):
            for _ in range(3):
                answer = await server.exchange(request("/a.txt") + request(target), end=True)
                assert count_answers(answer) == 2
                assert answer.endswith(body)
        for half in (b"", b"\r\n", b"GET", b"GET / HTTP/1.1\r\nHost: x\r\n"):
            assert await server.exchange(half, end=True) == b""
        unfinished = request("/", "Content-Length: 5", method="POST") + b"1"
        assert await server.exchange(unfinished, end=True) == b""


async def test_45_a_reset_is_no_news(arena: Arena, huge: Path, tmp_path: Path) -> None:
    async with arena() as server:
        for octets in (
            b"", b"G", request("/"), request("/huge.bin"), request("/a.txt") * 50,
            request("/", "Content-Length: 50", method="POST") + b"x",
            request("/", "Transfer-Encoding: chunked", method="POST") + b"5\r\nhe",
        ):  # fmt: skip
            for pause in (0, 0.01):
                async with server.connect() as client:
                    if octets:
                        await client.send(octets)
                    await trio.sleep(pause)
                    await reset(client)
    log = (tmp_path / "error.log").read_text()
    assert " error: " not in log
    assert " warning: " not in log


@pytest.mark.parametrize("close", [[], ["Connection: close"]], ids=["", "close"])
@pytest.mark.parametrize("method", ["POST", "GET"])
async def test_46_the_answer_outlives_a_body_nobody_reads(
    arena: Arena, method: str, close: list[str]
) -> None:
    """A megabyte and more is under way when the answer goes out; a bare close would reset it."""
    body = b"x" * 1_500_000
    async with arena(limits={"body_discard": 1000}) as server:
        octets = request("/", f"Content-Length: {len(body)}", *close, method=method) + body
        answer = await server.exchange(octets)
        assert first_status(answer) == (200 if method == "GET" else 405)
        assert b"\r\nConnection: close\r\n" in answer
        octets = request("/", "Transfer-Encoding: chunked", *close, method=method)
        answer = await server.exchange(octets + b"%x\r\n%b" % (len(body), body))
        assert first_status(answer) == (200 if method == "GET" else 405)


@slow
async def test_46_a_client_that_never_stops_sending_is_cut_off(arena: Arena) -> None:
    async with arena(limits={"body_discard": 1000, "linger": 0.3}) as server:
        async with server.connect() as client:
            await client.send(request("/", "Content-Length: 1000000000", method="POST"))
            with trio.fail_after(PATIENCE), pytest.raises(trio.BrokenResourceError):
                while True:
                    await client.send(b"x" * 10_000)
            await server.wait_rest()


def test_no_class_of_this_section_is_missing() -> None:
    covered = {int(found[1]) for name in globals() if (found := re.match(r"test_(\d\d)_", name))}
    # 47 and 48 are in test_24_descriptors.py; 49 is of HTTP/2, which is not spoken here.
    assert covered == set(range(38, 47))
