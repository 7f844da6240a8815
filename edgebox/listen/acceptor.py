"""Takes the connections that wait at a listening socket."""

from __future__ import annotations

import errno
import socket
from collections.abc import Iterator

Socket = socket.SocketType  # the type in C that socket.socket is made of

ACCEPTS = 64  # connections taken at a time: others get their turn in between
BACK_OFF = 0.1  # seconds until accept is tried again when descriptors ran out
_STARVED = frozenset((errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM))


class NoDescriptors(Exception):
    """The process or the system has no descriptor left for another connection."""


def accept_ready(listener: socket.socket) -> Iterator[tuple[Socket, object]]:
    """The (socket, address) pairs that are there now, at most ACCEPTS of them.

    Raises NoDescriptors: asking again at once would find the same connection waiting
    and spin. Other errors concern one connection that is gone already (accept(2)).

    The sockets are of the C type, made from numbers: socket.accept() looks family and
    type up in enums for each connection, and its class wraps close() in Python. A profile of
    one request a connection showed both.
    """
    accept, family = listener._accept, int(listener.family)  # type: ignore[attr-defined]
    for _ in range(ACCEPTS):
        try:
            descriptor, address = accept()
            yield Socket(family, socket.SOCK_STREAM, 0, descriptor), address
        except BlockingIOError:
            return
        except OSError as problem:
            if problem.errno in _STARVED:
                raise NoDescriptors from problem
