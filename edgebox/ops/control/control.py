"""The control socket: what operators' tools ask of a running server, and who answers.

Everything goes through one selector, whose keys carry what is to be called with the mask; no
trio, no thread, no wait. A client asks by a verb; whoever registered that verb answers, now or
later, by calling the Reply, perhaps after asking the workers.

What a client does harms nobody: lines, backlogs and clients are bounded, and one that only
sits there makes room for the next. Who may connect, the mode of the socket says.
"""

from __future__ import annotations

import selectors
import socket
import time
import traceback
from collections.abc import Callable, Mapping

from edgebox.ops.control.channel import Channel, ChannelLimits
from edgebox.ops.control.jsonlines import BadLine, Message, decode, encode, refusal
from edgebox.ops.control.place import bind_control, remove_control
from edgebox.ops.control.wires import Wires

CLIENTS = 64  # at once
REQUESTS = 32  # of one client that are not answered yet
SILENCE = 60.0  # seconds that a client may stay without asking anything
STREAM_BACKLOG = 256 * 1024  # octets beyond which a client of a stream is behind

CLIENT_LIMITS = ChannelLimits(line=64 * 1024, backlog=8 * 1024 * 1024)


class Reply:
    """How a verb answers its client: called once, or often with {"more": true} in between.

    After the client has gone, calls do nothing and `gone` is true; `when_gone` is then called,
    for a verb that would otherwise go on producing.
    """

    def __init__(self, client: _Client) -> None:
        self._client = client
        self.done = False
        self.when_gone: Callable[[], None] = _ignore

    def __call__(self, message: Mapping[str, object]) -> None:
        if self.done:
            return
        line = encode(message)  # what cannot be is a bug, which may still be told of
        if message.get("more"):
            self._client.send_line(line)
        else:
            self.done = True
            self._client.conclude(self, line)

    @property
    def gone(self) -> bool:
        return self._client.closed

    @property
    def behind(self) -> bool:
        """Whether the client reads so late that a stream should rather leave something out."""
        return self._client.waiting > STREAM_BACKLOG


Verb = Callable[[Message, Reply], None]


class Control(Wires):
    """Clients, and the workers' wires."""

    def __init__(
        self,
        selector: selectors.BaseSelector,
        log: Callable[[str, str], None],
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """`log` takes a level and a text."""
        super().__init__(selector, now, log)
        self.verbs: dict[str, Verb] = {}
        self._listener: socket.socket | None = None
        self._accepting = False
        self._clients: dict[_Client, None] = {}  # the longest unheard first
        self._counts = dict.fromkeys(("clients", "requests", "refused"), 0)

    def listen(self, path: str, mode: int, group: int = -1) -> None:
        """Hear clients at a Unix socket; `group` owns it beside us. Raises ControlError."""
        self.adopt(bind_control(path, mode, group))

    def adopt(self, listener: socket.socket) -> None:
        """Hear clients at a socket that listens already (after an upgrade)."""
        listener.setblocking(False)
        self._listener = listener
        self._accept_from(True)

    @property
    def listener(self) -> socket.socket | None:
        """The socket that clients come to, for whoever hands it on."""
        return self._listener

    def _accept_from(self, wanted: bool) -> None:
        if self._listener is None or wanted == self._accepting:
            return
        if wanted:
            self._selector.register(self._listener, selectors.EVENT_READ, self._accept)
        else:
            self._selector.unregister(self._listener)
        self._accepting = wanted

    def _accept(self, mask: int) -> None:
        if self._listener is None or not self._accepting:
            return
        try:
            sock, _ = self._listener.accept()
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            return
        except OSError as problem:  # no descriptor is free: not again before the next turn
            self._log("warning", f"control socket: {problem}")
            self._accept_from(False)
            return
        self._counts["clients"] += 1
        client = _Client(self, self._selector, sock)
        self._clients[client] = None
        if len(self._clients) > CLIENTS:
            idle = next((each for each in self._clients if not each.pending), client)
            idle.send(refusal("too many clients: this one has asked nothing for the longest"))
            idle.close()

    def hear(self, client: _Client, line: bytes) -> None:
        """A client asks."""
        client.heard_at = self._now()
        if client in self._clients:  # it goes to the end
            self._clients[client] = self._clients.pop(client)
        self._counts["requests"] += 1
        reply = Reply(client)
        client.pending.append(reply)
        if len(client.pending) > REQUESTS:
            self._counts["refused"] += 1
            client.send(refusal("too many requests before their answers"))
            client.close()
            return
        try:
            message = decode(line)
        except BadLine as problem:
            self._counts["refused"] += 1
            reply(refusal(str(problem)))
            return
        name = message.get("verb")
        verb = self.verbs.get(name) if isinstance(name, str) else None
        if verb is None:
            self._counts["refused"] += 1
            known = ", ".join(sorted(self.verbs))
            reply(refusal(f"there is no verb {name!r}; there are {known}"))
            return
        try:
            verb(message, reply)
        except Exception as problem:
            # A bug in one verb must not take the supervisor along, and the box with it.
            trace = "".join(traceback.format_exception(problem))
            self._log("error", f"internal error in the verb {name}: {trace}")
            reply(refusal(f"internal error: {problem!r}"))

    def forget(self, client: _Client) -> None:
        """A client has gone."""
        self._clients.pop(client, None)

    def turn(self) -> None:
        """To be called about once a second: answers for workers, sends silent clients away."""
        self.answer_late()
        now = self._now()
        for client in list(self._clients):
            if client.is_abandoned():
                client.close()
            elif not client.pending and now - client.heard_at > SILENCE:
                client.close("silent")
        self._accept_from(True)

    def close(self, remove: bool = True) -> None:
        """End with everybody. `remove` the socket's path too, unless another goes on with it."""
        self._accept_from(False)
        for client in list(self._clients):
            client.close()
        for slot in self.slots:
            self.detach(slot)
        if self._listener is not None:
            if remove:
                remove_control(self._listener)
            self._listener.close()
            self._listener = None

    def statistics(self) -> dict[str, int]:
        return self._counts | {"clients_now": len(self._clients)} | super().statistics()

    @property
    def now(self) -> float:
        return self._now()


class _Client(Channel):
    """An operator's tool."""

    def __init__(
        self, control: Control, selector: selectors.BaseSelector, sock: socket.socket
    ) -> None:
        self.heard_at = control.now
        self.pending: list[Reply] = []
        self._control = control
        super().__init__(selector, sock, CLIENT_LIMITS)

    def on_line(self, line: bytes) -> None:
        self._control.hear(self, line)

    def on_heard_all(self) -> None:
        if self.is_abandoned():
            self.close("it has left")
        elif not self.pending:
            self.finish("done")

    def on_end(self, why: str) -> None:
        self._control.forget(self)
        gone, self.pending = self.pending, []
        for reply in gone:
            reply.done = True
            reply.when_gone()

    def conclude(self, reply: Reply, line: bytes) -> None:
        """The last that a reply says."""
        self.pending.remove(reply)
        self.heard_at = self._control.now
        self.send_line(line)
        if self.heard_all and not self.pending and not self.closed:
            self.finish("done")


def _ignore() -> None:
    """Nobody waits."""
