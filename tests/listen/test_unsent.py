"""Promises of the bound on what is unsent: kept by the kernel, for each connection accepted."""

from __future__ import annotations

import socket
from contextlib import suppress
from pathlib import Path

import pytest

from edgebox.listen.unsent import bound_unsent

MIB = 1024 * 1024


def taken(bound: int | None) -> int:
    """Octets that the kernel takes for a client that reads nothing."""
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.socket() as client:
        if bound is not None:
            bound_unsent(listener, bound)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192)
        client.connect(listener.getsockname())
        accepted, _ = listener.accept()
        with accepted, suppress(BlockingIOError):
            accepted.setblocking(False)
            sent = 0
            while sent < 64 * MIB:
                sent += accepted.send(bytes(MIB))
        return sent


@pytest.mark.parametrize("bound", [16 * 1024, 256 * 1024])
def test_a_client_that_does_not_read_costs_the_kernel_hardly_more_than_the_bound(
    bound: int,
) -> None:
    assert bound <= taken(bound) <= bound + 64 * 1024 < (taken(None))


def test_a_unix_socket_is_left_as_it_is(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "s"))
        bound_unsent(listener, 16 * 1024)
