"""One socket that speaks JSON lines in the supervisor's selector loop: a worker's wire, a client.

Never waits. What the peer does not read is kept up to a bound, then the channel ends; what it
sends is read a piece a turn, so that nobody keeps the loop to himself. A peer that has said
all it will (a half-closed socket) still gets its answers.
"""

from __future__ import annotations

import select
import selectors
import socket
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass

from edgebox.ops.control.jsonlines import LineReader, LineTooLong, encode, refusal

PIECE = 64 * 1024


@dataclass(frozen=True, slots=True)
class ChannelLimits:
    """`line`: octets of a line that is read; `backlog`: octets kept that the peer reads late."""

    line: int
    backlog: int


class Channel(ABC):
    """The end of a connection in `selector`; who hears what comes is the subclass."""

    def __init__(
        self, selector: selectors.BaseSelector, sock: socket.socket, limits: ChannelLimits
    ) -> None:
        sock.setblocking(False)
        self._selector = selector
        self._sock = sock
        self._limits = limits
        self._reader = LineReader(limits.line)
        self._waiting = bytearray()
        self._events = 0
        self._ending = ""  # why it ends as soon as all is sent
        self.heard_all = False  # the peer has closed its side
        self.closed = False
        self._watch(selectors.EVENT_READ)

    @abstractmethod
    def on_line(self, line: bytes) -> None:
        """The peer said something; never an empty line."""

    @abstractmethod
    def on_heard_all(self) -> None:
        """The peer has closed its side: no line comes after this."""

    @abstractmethod
    def on_end(self, why: str) -> None:
        """The channel is closed; called once."""

    @property
    def waiting(self) -> int:
        """Octets that the peer has yet to read."""
        return len(self._waiting)

    def send(self, message: Mapping[str, object]) -> bool:
        """Have the peer told; False where it is gone, or so late that it is given up."""
        return self.send_line(encode(message))

    def send_line(self, line: bytes) -> bool:
        """Likewise, of what is encoded already."""
        if self.closed or self._ending:
            return False
        self._waiting += line
        self._send_some()
        if len(self._waiting) > self._limits.backlog:
            self.close("it does not read what it is told")
        return not self.closed

    def finish(self, why: str) -> None:
        """Close once what was said has been sent; hear nothing more."""
        self._ending = why
        self.heard_all = True
        self._settle()

    def close(self, why: str = "closed here") -> None:
        """Close now."""
        if self.closed:
            return
        self._watch(0)
        self.closed = True
        self._sock.close()
        self.on_end(why)

    def is_abandoned(self) -> bool:
        """Whether a peer that had closed its side has left altogether.

        While there is nothing to send a selector watches for nothing, so whoever keeps a
        stream open asks now and then.
        """
        if self.closed or not self.heard_all:
            return self.closed
        # POLLHUP is told unasked, when both sides are closed.
        poll = select.poll()
        poll.register(self._sock, 0)
        return bool(poll.poll(0))

    def _ready(self, mask: int) -> None:
        if self.closed:  # by another callback of the same turn
            return
        if mask & selectors.EVENT_WRITE:
            self._send_some()
        if mask & selectors.EVENT_READ and not self.closed and not self.heard_all:
            self._hear()

    def _hear(self) -> None:
        try:
            octets = self._sock.recv(PIECE)
        except (BlockingIOError, InterruptedError):
            return
        except OSError as problem:
            self.close(problem.strerror or str(problem))
            return
        try:
            for line in self._reader.feed(octets):
                self._pass_on(line)
        except LineTooLong as problem:
            self.send(refusal(str(problem)))
            self.finish(str(problem))
            return
        if not octets:
            self.heard_all = True
            self._settle()
            self._pass_on(self._reader.last())
            if not self.closed and not self._ending:
                self.on_heard_all()

    def _pass_on(self, line: bytes) -> None:
        if line.strip() and not self.closed and not self._ending:
            self.on_line(line)

    def _send_some(self) -> None:
        while self._waiting:
            try:
                del self._waiting[: self._sock.send(self._waiting)]
            except (BlockingIOError, InterruptedError):
                break
            except OSError as problem:
                self.close(problem.strerror or str(problem))
                return
        self._settle()

    def _settle(self) -> None:
        """Watch for what is wanted now."""
        if self.closed:
            return
        if self._ending and not self._waiting:
            self.close(self._ending)
            return
        wanted = 0 if self.heard_all else selectors.EVENT_READ
        self._watch(wanted | (selectors.EVENT_WRITE if self._waiting else 0))

    def _watch(self, events: int) -> None:
        if events == self._events:
            return
        if not self._events:
            self._selector.register(self._sock, events, self._ready)
        elif not events:
            self._selector.unregister(self._sock)
        else:
            self._selector.modify(self._sock, events, self._ready)
        self._events = events
