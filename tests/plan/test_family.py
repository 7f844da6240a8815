"""Promises of what processes hold: children count, files that all share do not."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time

import pytest

from edgebox.plan.family import resident, resident_of, sockets

MIB = 1024 * 1024


@pytest.mark.slow
def test_a_child_s_memory_is_its_parent_s_family_s() -> None:
    before = resident(os.getpid())
    code = "x = b'x' * (64 << 20); print('ready', flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        child.stdout.readline()
        grown = resident(os.getpid()) - before
        alone = resident_of([child.pid])
        child.kill()
    assert 60 * MIB < grown < 100 * MIB
    assert 60 * MIB < alone < 100 * MIB


def test_a_process_that_is_gone_holds_nothing() -> None:
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    assert resident_of([child.pid]) == 0


@pytest.mark.alone
def test_what_waits_in_a_socket_is_the_kernel_s_memory() -> None:
    before = sockets()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        with socket.create_connection(listener.getsockname()) as sender:
            receiver, _ = listener.accept()
            with receiver:
                sender.setblocking(False)
                sent, deadline = 0, time.monotonic() + 5
                while sent < 2 * MIB and time.monotonic() < deadline:
                    try:
                        sent += sender.send(b"x" * MIB)
                    except BlockingIOError:
                        break
                assert sockets() - before >= sent / 2
