"""A whole process that runs out of descriptors: named answers, no spin, full recovery.

The kernel is told what the process may open while it runs, so that the shortage begins
and ends at a known instant. (Fault classes 47 and 48.)
"""

from __future__ import annotations

import resource
import select
import socket
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.box.conftest import Box, Start, ask, wait_until
from tests.conftest import HELLO

pytestmark = pytest.mark.slow

REQUEST = b"GET %b HTTP/1.1\r\nHost: x\r\n\r\n"


@pytest.fixture(params=["true", "false"], ids=["lane", "tasks"])
def box(request: pytest.FixtureRequest, start: Start, root: Path, tmp_path: Path) -> Box:
    (tmp_path / "edgebox.toml").write_text(
        f"[server]\nexpress = {request.param}\n"
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


def test_47_accept_backs_off_without_spinning_and_service_returns(box: Box) -> None:
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


def test_47_idle_connections_make_room(box: Box) -> None:
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
