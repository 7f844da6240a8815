"""What a worker is told when it starts: the first line on its wire, and how it is read.

Descriptors in it are numbers, the same in both processes: the worker inherits them.
"""

from __future__ import annotations

import socket

import msgspec

from edgebox.config.schema import Config

LONGEST = 64 * 1024 * 1024


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """Who a worker runs as."""

    name: str
    user: int
    group: int
    groups: tuple[int, ...]


class Assignment(msgspec.Struct, frozen=True, kw_only=True):
    """`config` is settled, and sized for one worker."""

    config: Config
    slot: int
    generation: int
    listeners: tuple[int, ...]
    status: tuple[int, ...]  # listeners, too: for the status page
    pages: int
    warm: int  # a file without a name, where the hot paths of this place are left
    identity: Identity | None

    @property
    def descriptors(self) -> tuple[int, ...]:
        """What a worker with this assignment inherits."""
        return (*self.listeners, *self.status, self.pages, self.warm)


class _Line(msgspec.Struct):
    assignment: Assignment


def receive(wire: socket.socket) -> tuple[Assignment, bytes]:
    """The assignment, and the octets that came after it. EOFError: the supervisor is gone."""
    octets = bytearray()
    while b"\n" not in octets:
        piece = wire.recv(1024 * 1024)
        if not piece or len(octets) > LONGEST:
            raise EOFError("no assignment")
        octets += piece
    line, _, rest = octets.partition(b"\n")
    return msgspec.json.decode(line, type=_Line).assignment, bytes(rest)
