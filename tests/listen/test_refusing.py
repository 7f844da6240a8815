"""Sockets that nobody will accept from any more."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from edgebox.listen.listeners import Listeners
from edgebox.listen.sockets import bind


def visit(listener: socket.socket) -> None:
    with socket.socket(listener.family) as sock:
        sock.settimeout(5)
        sock.connect(listener.getsockname())


@pytest.mark.parametrize("unix", [False, True], ids=["tcp", "unix"])
def test_who_comes_is_refused(tmp_path: Path, unix: bool) -> None:
    listeners = Listeners({}).changed([f"unix:{tmp_path}/s" if unix else "127.0.0.1:0"], 1, 16)
    (listener,) = listeners
    visit(listener)
    theirs = socket.fromfd(listener.fileno(), listener.family, listener.type)  # a worker's
    listeners.refuse()
    for sock in (listener, theirs):
        with pytest.raises(ConnectionRefusedError):
            visit(sock)
    listeners.refuse()  # once more is no trouble
    theirs.close()
    listeners.close(remove=True)


def test_sockets_that_were_given_are_left_to_whoever_gave_them() -> None:
    given = bind("127.0.0.1:0", 16)
    listeners = Listeners({"given": [given]}, given=True)
    listeners.refuse()
    visit(given)
    listeners.close(remove=False)
