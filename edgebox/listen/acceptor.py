"""Takes the connections that wait at a listening socket."""

from __future__ import annotations

import errno
import socket
from collections.abc import Iterator

ACCEPTS = 64  # connections taken at a time: others get their turn in between
BACK_OFF = 0.1  # seconds until accept is tried again when descriptors ran out
_STARVED = frozenset((errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM))


class NoDescriptors(Exception):
    """The process or the system has no descriptor left for another connection."""


def accept_ready(listener: socket.socket) -> Iterator[tuple[socket.socket, object]]:
    """The (socket, address) pairs that are there now, at most ACCEPTS of them.

    Raises NoDescriptors: asking again at once would find the same connection waiting
    and spin. Other errors concern one connection that is gone already (accept(2)).
    """
    for _ in range(ACCEPTS):
        try:
            yield listener.accept()
        except BlockingIOError:
            return
        except OSError as problem:
            if problem.errno in _STARVED:
                raise NoDescriptors from problem
