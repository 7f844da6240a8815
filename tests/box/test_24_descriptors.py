"""No descriptors left: named answers, no spin, full recovery. (Fault classes 47 and 48.)

The kernel is told what a process may open while it runs, so that the shortage begins and
ends at a known instant: first this very process with a server in it, which can be asked
what it did, then a whole `edgebox serve`.
"""

from __future__ import annotations

import os
import resource
import select
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
import trio

from edgebox.express.lane import Lane
from edgebox.listen.acceptor import BACK_OFF
from edgebox.session.tasks import TaskPerConnection
from tests.box.conftest import Arena, Box, Start, ask, wait_until
from tests.conftest import HELLO
from tests.wire import PATIENCE, Client, Server, request

pytestmark = pytest.mark.slow

REQUEST = b"GET %b HTTP/1.1\r\nHost: x\r\n\r\n"


@contextmanager
def no_descriptors_left() -> Iterator[None]:
    """Nothing more can be opened in this process."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with open("/dev/null", "rb") as lowest_free:
        number = lowest_free.fileno()
    resource.setrlimit(resource.RLIMIT_NOFILE, (number, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def hold_client(server: Server, client: Client) -> None:
    """Keep the server waiting for the rest of a head, so that `client` is not idle."""
    await client.send(b"GET /a.txt HT")
    with trio.fail_after(PATIENCE):
        while not server.worker.admission.tasks:
            await trio.sleep(0.002)


async def test_47_accept_without_descriptors_backs_off_and_makes_room(arena: Arena) -> None:
    # What is in RAM stays believed all the while: to look at it again takes descriptors, too.
    files = {"stale_bound": 60.0}
    async with arena(files=files) as server, server.connect() as busy, server.connect() as idle:
        await hold_client(server, busy)
        await trio.sleep(0.05)  # no longer so young that its times could hide a change
        await idle.send(request("/"))
        await idle.read_answer()
        with socket.socket() as late, no_descriptors_left():
            late.connect(("127.0.0.1", server.port))
            late.send(request("/"))
            assert await idle.closed()  # which made room for the one who waited
            with trio.fail_after(PATIENCE):
                await trio.lowlevel.wait_readable(late)
            assert late.recv(65536).endswith(HELLO)


async def test_47_who_has_asked_already_is_not_shed_before_he_was_heard(arena: Arena) -> None:
    async with arena() as server, server.connect() as client:
        await client.send(request("/"))
        assert (await client.read_answer()).status == 200
        front, service = server.worker.front, server.worker.service
        with trio.fail_after(PATIENCE):
            while not front.statistics()["idle"]:
                await trio.sleep(0.002)
        # Both in one turn of the loop, which so has no chance to see the request before.
        os.write(client.stream.socket.fileno(), request("/a.txt"))
        made_room = front._shed() if isinstance(front, Lane) else service.shed_waiting()
        assert made_room is isinstance(front, TaskPerConnection)
        assert (await client.read_answer()).status == 200


async def test_47_accept_does_not_spin_and_service_returns(arena: Arena) -> None:
    async with arena() as server, server.connect() as busy:
        await hold_client(server, busy)
        with socket.socket() as late:
            with no_descriptors_left():
                late.connect(("127.0.0.1", server.port))
                late.send(request("/"))
                await trio.sleep(1)
                starved = server.worker.counters.starved
                assert 2 <= starved <= 1 / BACK_OFF + 5
                await busy.send(b"TP/1.1\r\nHost: x\r\n\r\n")
                assert (await busy.read_answer()).status == 503  # opening it, too, takes one
            with trio.fail_after(PATIENCE):
                await trio.lowlevel.wait_readable(late)
            assert late.recv(65536).endswith(HELLO)
        await busy.send(request("/a.txt"))
        assert (await busy.read_answer()).status == 200


async def test_48_no_descriptor_to_open_with_is_503_and_forgotten_at_once(arena: Arena) -> None:
    async with arena(files={"stale_bound": 60.0}) as server, server.connect() as client:
        await trio.sleep(0.05)  # as above
        await client.send(request("/"))
        assert (await client.read_answer()).status == 200
        with no_descriptors_left():
            for target in ("/a.txt", "/none", "/sub/", "/big.bin"):
                for _ in range(3):
                    await client.send(request(target))
                    assert (await client.read_answer()).status == 503, target
            await client.send(request("/"))
            assert (await client.read_answer()).body == HELLO  # in RAM: needs none
        for target, status in (("/a.txt", 200), ("/none", 404), ("/sub/", 200), ("/big.bin", 200)):
            await client.send(request(target))
            assert (await client.read_answer()).status == status, target


@pytest.fixture(params=["true", "false"], ids=["lane", "tasks"])
def box(request: pytest.FixtureRequest, start: Start, root: Path, tmp_path: Path) -> Box:
    (tmp_path / "edgebox.toml").write_text(
        # To look again at what is in RAM takes a descriptor: let it be believed for long.
        f'[server]\nexpress = {request.param}\n[files]\nstale_bound = "60s"\n'
        f'[compression]\nenabled = false\n[[site]]\nroot = "{root}"\n'
    )
    return start(cwd=tmp_path)


def hold(box: Box, stack: ExitStack) -> socket.socket:
    """A connection whose second head is not over, so that it cannot be shed as idle."""
    sock = stack.enter_context(box.connect())
    sock.sendall(REQUEST % b"/" + b"GET /a.txt HTTP/1.1\r\n")
    assert read(sock).endswith(HELLO)
    return sock


def read(sock: socket.socket) -> bytes:
    """One answer, known to be short."""
    return sock.recv(65536)


def test_47_a_box_backs_off_without_spinning_and_service_returns(box: Box) -> None:
    with ExitStack() as stack:
        ask(box, "/")
        held = [hold(box, stack) for _ in range(3)]
        with box.no_descriptors_left():
            waiting = [stack.enter_context(box.connect()) for _ in range(20)]
            for sock in waiting:
                sock.sendall(REQUEST % b"/")
            time.sleep(0.3)
            before = box.cpu_seconds()
            time.sleep(1)
            # Ten tries a second are next to nothing; a loop that spins takes all it can get.
            assert box.cpu_seconds() - before < 0.25
        for sock in waiting:
            assert read(sock).endswith(HELLO)
        for sock in held:
            sock.sendall(b"Host: x\r\n\r\n")
            assert read(sock).startswith(b"HTTP/1.1 200 ")
    assert ask(box, "/").body == HELLO


def test_47_idle_connections_of_a_box_make_room(box: Box) -> None:
    with ExitStack() as stack:
        hold(box, stack)
        idle = stack.enter_context(box.connect())
        idle.sendall(REQUEST % b"/")
        assert read(idle).endswith(HELLO)
        with box.no_descriptors_left():
            late = stack.enter_context(box.connect())
            late.sendall(REQUEST % b"/")
            assert read(idle) == b""
            assert read(late).endswith(HELLO)


def test_48_a_file_that_cannot_be_opened_is_503_and_not_remembered(box: Box) -> None:
    with box.connect() as sock:
        for path in (b"/", b"/", b"/"):
            sock.sendall(REQUEST % path)
            assert read(sock).endswith(HELLO)
        with box.no_descriptors_left():
            for path in (b"/a.txt", b"/none", b"/sub/", b"/big.bin") * 3:
                sock.sendall(REQUEST % path)
                assert read(sock).startswith(b"HTTP/1.1 503 ")
        for path, status in ((b"/a.txt", 200), (b"/none", 404), (b"/sub/", 200)):
            sock.sendall(REQUEST % path)
            assert read(sock).startswith(b"HTTP/1.1 %d " % status)
    assert box.process.poll() is None


def few_descriptors() -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (160, 160))


def test_a_low_limit_is_planned_for_and_each_client_gets_an_answer(
    start: Start, root: Path
) -> None:
    """Twice as many clients as there are descriptors: the rest are told so, at once."""
    box = start("--root", str(root), preexec_fn=few_descriptors)
    with ExitStack() as stack:
        crowd = [stack.enter_context(box.connect()) for _ in range(320)]
        for sock in crowd:
            sock.sendall(b"GET / HTTP/1.1\r\nHo")
        answers, silent = [], crowd
        while ready := select.select(silent, [], [], 1)[0]:  # whoever was let in is waited for
            answers += [read(sock) for sock in ready]
            silent = [sock for sock in silent if sock not in ready]
        assert len(answers) > 160
        assert all(answer.startswith(b"HTTP/1.1 503 ") for answer in answers)
        assert all(b"\r\nRetry-After: 1\r\n" in answer for answer in answers)
    wait_until(lambda: ask(box, "/").status == 200)
    assert ask(box, "/big.bin").body == (root / "big.bin").read_bytes()
