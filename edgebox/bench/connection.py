"""One connection of the load: its socket, and where its present request stands.

It keeps no time and counts nothing; the runner does. `take` is sans-I/O: octets in, and what
they amount to out, with the readers that also read upstreams' answers.
"""

from __future__ import annotations

import socket

from msgspec import Struct

from edgebox.http.gate import find_end
from edgebox.upstream.content import Content, content_of
from edgebox.upstream.errors import Malformed
from edgebox.upstream.reply import Ending, Reply, parse_reply

HEAD_SIZE = 64 * 1024
HEADS = 1024  # heads remembered: servers repeat theirs within a second


class Answer(Struct, frozen=True):
    """A whole answer. `length` counts its content; `reusable`: the connection may go on."""

    status: int
    length: int
    reusable: bool
    reply: Reply


class Heads:
    """Heads of answers, each read once while it is repeated."""

    def __init__(self, method: bytes) -> None:
        self._method = method
        self._known: dict[bytes, Reply | Malformed] = {}

    def read(self, head: bytes) -> Reply | Malformed:
        reply = self._known.get(head)
        if reply is None:
            if len(self._known) >= HEADS:
                self._known.clear()
            reply = self._known[head] = parse_reply(head, self._method)
        return reply

    def statistics(self) -> dict[str, int]:
        return {"heads": len(self._known)}


class Connection:
    """Times are the runner's clock, in seconds; 0.0 where it has not come to that."""

    __slots__ = (
        "_content", "_head", "_heads", "_length", "_reply", "begun", "connected", "ending",
        "first", "sent", "sock", "spoilt", "unsent", "used",
    )  # fmt: skip

    def __init__(self, heads: Heads) -> None:
        self._heads = heads
        self.sock: socket.socket | None = None
        self.begun = 0.0
        self.start(0.0)

    def start(self, begun: float) -> None:
        """Before the first request of a connection."""
        self.used = 0  # answers that it has brought
        self.begun = begun
        self.connected = 0.0
        self.spoilt = False  # the server would not take the whole request
        self.ending = False  # the answer is whole; the server has yet to close
        self.start_request()

    def start_request(self) -> None:
        """Before each request."""
        self.unsent = b""  # what the socket did not take yet
        self.sent = 0.0
        self.first = 0.0
        self._head = b""  # what has come of the head
        self._reply: Reply | None = None
        self._content: Content | None = None
        self._length = 0

    def take(self, data: bytes) -> Answer | Malformed | None:
        """The next octets. None while the answer is not whole."""
        while self._reply is None:
            data = self._head + data
            end = find_end(data, 0)
            if end < 0:
                self._head = data
                return Malformed.HEAD if len(data) > HEAD_SIZE else None
            reply = self._heads.read(data[:end])
            if isinstance(reply, Malformed):
                return reply
            data, self._head = data[end:], b""
            if reply.status == 101:
                return Malformed.STATUS
            if reply.status < 200:  # on the way to the answer (RFC 9110 §15.2)
                continue
            if reply.ending is Ending.LENGTH and len(data) == reply.length:
                return Answer(reply.status, len(data), reply.keep_alive, reply)
            self._reply, self._content = reply, content_of(reply)
        assert self._content is not None
        content = self._content.feed(data)
        if isinstance(content, Malformed):
            return content
        self._length += len(content)
        if not self._content.done:
            return None
        return self._answer(self._reply.keep_alive and not self._content.surplus)

    def take_end(self) -> Answer | None:
        """The server has closed. None if that cuts the answer off."""
        if self._content is None or not self._content.until_close:
            return None
        return self._answer(reusable=False)

    def _answer(self, reusable: bool) -> Answer:
        assert self._reply is not None
        return Answer(self._reply.status, self._length, reusable, self._reply)

    def close(self) -> None:
        if self.sock is not None:
            self.sock.close()
            self.sock = None
