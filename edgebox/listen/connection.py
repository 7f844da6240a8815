"""One client connection: what is kept of it while it waits, and its read and write.

An idle keep-alive connection is one of these and a slot in a dict: about half a
kilobyte, not a task and its stack. The bound methods are kept on the record because
the express lane calls them for every request. Nothing else may assume plain TCP.
"""

from __future__ import annotations

import socket


class Connection:
    """A connected client socket.

    `peer` is its address as text octets, `log_peer` the piece of a log line made of it;
    `requests` how many it has made; `active` the epoch number in which it last did
    something; `began` when a task took up the request in hand, by trio's clock. `recv(n, flags)`
    and `send(data, flags)` never block when given MSG_DONTWAIT.
    """

    __slots__ = ("active", "began", "log_peer", "peer", "recv", "requests", "send", "sock")

    def __init__(self, sock: socket.SocketType, peer: bytes, log_peer: bytes, active: int) -> None:
        self.sock = sock
        self.recv = sock.recv
        self.send = sock.send
        self.peer = peer
        self.log_peer = log_peer
        self.requests = 0
        self.active = active
        self.began = 0.0

    def is_silent(self) -> bool:
        """Whether nothing came that was not read yet, be it the end."""
        try:
            self.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except BlockingIOError:
            return True
        except OSError:
            return False
        return False

    def close(self) -> None:
        """Close the socket; harmless when it is closed already."""
        self.sock.close()


def peer_name(address: object) -> bytes:
    """The client's address for logs: an IP address, or b"unix:"."""
    return address[0].encode() if isinstance(address, tuple) else b"unix:"
