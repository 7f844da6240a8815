"""What workers say to each other about an answer that one of them is getting.

A connection is for one question. Back comes what is `Told`, then the answer's octets, each in a
frame of four octets' length before; then an empty frame and one with the trailers. Or a refusal.
Where the connection ends before, the worker has ended, or the rest will not come.
"""

from __future__ import annotations

import os
import socket
import struct

import msgspec
import trio

from edgebox.cache.entry import StoredResponse
from edgebox.cache.vary import Variant
from edgebox.http.headers import Fields

NOTHING = b"nothing that fits"
FOR_ONE = b"for one client only"
LARGEST = 16 * 1024 * 1024  # octets of a frame: a spool hands out less than one
_BACKLOG = 128
_READ = 256 * 1024
_PEER = struct.Struct("iII")  # unix(7), SO_PEERCRED: pid, uid, gid


class Question(msgspec.Struct, frozen=True):
    """What comes for a GET of `key` with these fields? `family`: who may ask whom.

    `known`: variants of it, which tell in what requests must be alike.
    """

    family: bytes
    key: bytes
    fields: Fields
    known: tuple[Variant, ...] = ()


class Told(msgspec.Struct, frozen=True):
    """What is known of an answer that may be stored, its octets apart.

    `length`: how many these are, where that is known. `begun`: when it was asked for, by
    CLOCK_MONOTONIC; `born`: the disk tier's mark of that time. Both are 0 where it was long ago.
    """

    entry: StoredResponse
    length: int | None
    begun: float = 0.0
    born: int = 0


encode = msgspec.msgpack.encode
decode_question = msgspec.msgpack.Decoder(Question).decode
decode_told = msgspec.msgpack.Decoder(Told).decode
decode_fields = msgspec.msgpack.Decoder(Fields).decode


def address_of(pid: int) -> str:
    """Where a worker is asked: an abstract name (unix(7)), which needs no directory.

    Anybody may take such a name, so both ends look whom they have.
    """
    return f"\0edgebox/{pid}"


def listen() -> socket.socket:
    """Where this process is asked. OSError: somebody has taken its name."""
    listener = socket.socket(socket.AF_UNIX)
    try:
        listener.bind(address_of(os.getpid()))
        listener.listen(_BACKLOG)
    except OSError:
        listener.close()
        raise
    listener.setblocking(False)
    return listener


def peer_of(sock: trio.socket.SocketType) -> int:
    """The process at the other end; 0 where it is another user's."""
    told = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size)
    pid, user, _ = _PEER.unpack(told)
    return pid if user == os.geteuid() else 0


class Frames:
    """Frames on a stream. Raises trio.BrokenResourceError, as streams do."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self._stream = stream
        self._buffer = bytearray()

    async def send(self, frame: bytes) -> None:
        await self._stream.send_all(len(frame).to_bytes(4, "big") + frame)

    async def receive(self) -> bytes | None:
        """The next frame; None where none will come."""
        buffer = self._buffer
        while len(buffer) < 4 or len(buffer) < 4 + (size := int.from_bytes(buffer[:4], "big")):
            if len(buffer) >= 4 and size > LARGEST:
                return None
            data = await self._stream.receive_some(_READ)
            if not data:
                return None
            buffer += data
        frame = bytes(memoryview(buffer)[4 : 4 + size])
        del buffer[: 4 + size]
        return frame

    def close(self) -> None:
        self._stream.socket.close()
