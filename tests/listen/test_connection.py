"""A connection tells whether its client has said something that was not read yet."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from edgebox.listen.connection import Connection

Pair = tuple[Connection, socket.socket]


@pytest.fixture
def pair() -> Iterator[Pair]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        yield Connection(ours, b"", b"", 0), theirs


def test_a_client_is_silent_until_he_says_something(pair: Pair) -> None:
    conn, client = pair
    assert conn.is_silent()
    client.sendall(b"GET ")
    assert not conn.is_silent()
    assert not conn.is_silent()  # looking takes nothing away
    assert conn.recv(100, 0) == b"GET "
    assert conn.is_silent()


def test_the_end_is_something_said(pair: Pair) -> None:
    conn, client = pair
    client.close()
    assert not conn.is_silent()
