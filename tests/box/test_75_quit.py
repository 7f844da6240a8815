"""SIGQUIT: who is here is answered, and who comes is refused at once, not left to wait.

A load balancer, or a client that knows a second address, goes on elsewhere when a connection is
refused. One that is accepted by the kernel, for nobody, costs him all his patience.
"""

from __future__ import annotations

import signal
import socket
from functools import partial
from pathlib import Path

import pytest

from tests.box.conftest import Start, ask, wait_until
from tests.conftest import HELLO

pytestmark = pytest.mark.slow


def refused(address: str | tuple[str, int]) -> bool:
    family = socket.AF_UNIX if isinstance(address, str) else socket.AF_INET
    with socket.socket(family) as sock:
        try:
            sock.connect(address)
        except ConnectionRefusedError:
            return True
    return False


@pytest.mark.parametrize("workers", ["1", "2"])
def test_who_comes_is_refused_while_who_is_here_is_answered(
    start: Start, root: Path, tmp_path: Path, workers: str
) -> None:
    path = f"{tmp_path}/s"
    box = start(
        "--root", str(root), "--listen", "127.0.0.1:0", "--listen", f"unix:{path}",
        "--workers", workers,
    )  # fmt: skip
    with box.connect() as held:
        held.sendall(b"GET / HTTP/1.1\r\nHo")
        assert ask(box).status == 200
        box.signal(signal.SIGQUIT)
        for address in (("127.0.0.1", box.port), path):
            wait_until(partial(refused, address))
        held.sendall(b"st: x\r\n\r\n")
        answer = b""
        while data := held.recv(65536):
            answer += data
    assert answer.endswith(HELLO)
    assert b"Connection: close" in answer
    assert box.wait() == 0


def test_who_waited_to_be_accepted_is_answered(start: Start, root: Path) -> None:
    box = start("--root", str(root), "--workers", "2")
    waiting = [box.connect() for _ in range(50)]  # nothing is sent: the kernel holds them back
    for sock in waiting:
        sock.sendall(b"GET / HTTP/1.0\r\n\r\n")
    box.signal(signal.SIGQUIT)
    for sock in waiting:
        with sock:
            assert sock.recv(65536).endswith(HELLO)
    assert box.wait() == 0
