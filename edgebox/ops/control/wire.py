"""A worker's end of the wire to the supervisor: it answers verbs, and tells of events.

Each request is a task of its own, so that a slow one holds up no other. A verb that cannot do
what it is asked raises Refused; anything else it raises is a bug, and costs the worker no more
than that answer. When the wire ends the supervisor is gone: a worker without one drains.
"""

from __future__ import annotations

import socket
import traceback
from collections.abc import Awaitable, Callable, Mapping

import trio

from edgebox.ops.control.jsonlines import (
    BadLine,
    LineReader,
    LineTooLong,
    Message,
    decode,
    encode,
    refusal,
)

PIECE = 64 * 1024
LONGEST = 16 * 1024 * 1024
MOST_WAITING = 4096  # events that the supervisor has yet to read; more are lost, and counted
PATIENCE = 10.0  # seconds within which the supervisor is to answer

Verb = Callable[[Message], Awaitable[Message]]
Emit = Callable[[Mapping[str, object]], None]
Stream = Callable[[Message, Emit], Awaitable[Message]]


class Refused(Exception):
    """A verb cannot be done as asked; the message says why, to the operator."""


class Wire:
    """JSON lines over the socket that the supervisor made for this worker."""

    def __init__(
        self, sock: socket.socket, log: Callable[[str, str], None], early: bytes = b""
    ) -> None:
        """`early` are octets that somebody has read from the socket already."""
        sock.setblocking(False)
        self.verbs: dict[str, Verb] = {}
        # Verbs that say many things: they get a call for each piece, and are cancelled when
        # nobody listens any more.
        self.streams: dict[str, Stream] = {}
        self.when_gone: Callable[[], None] = lambda: None
        self._sock = trio.socket.from_stdlib_socket(sock)
        self._log = log
        self._reader = LineReader(LONGEST)
        self._early = early
        self._send, self._receive = trio.open_memory_channel[bytes](MOST_WAITING)
        self._scopes: dict[int, trio.CancelScope] = {}
        self._answers: dict[int, trio.MemorySendChannel[Message]] = {}
        self._number = 0
        self._heard = 0
        self.lost = 0  # events that were not sent

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Answer until the supervisor is gone (then `when_gone` is called) or until cancelled."""
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._tell)
                task_status.started()
                await self._listen(nursery)
                nursery.cancel_scope.cancel()
        finally:
            self._sock.close()
        self.when_gone()

    def send_nowait(self, event: Mapping[str, object]) -> bool:
        """Tell of an event; False where the supervisor is so far behind that it is lost."""
        try:
            self._send.send_nowait(encode(event))
        except (trio.WouldBlock, trio.BrokenResourceError):
            self.lost += 1
            return False
        return True

    async def ask(self, event: Mapping[str, object]) -> Message:
        """Tell of an event and wait for what the supervisor says. Raises Refused."""
        self._number = number = self._number + 1
        send, receive = trio.open_memory_channel[Message](1)
        self._answers[number] = send
        try:
            if not self.send_nowait({**event, "ask": number}):
                raise Refused("the supervisor does not listen")
            with trio.fail_after(PATIENCE):
                answer = await receive.receive()
        except trio.TooSlowError:
            raise Refused(f"the supervisor has not answered for {PATIENCE:g} s") from None
        finally:
            self._answers.pop(number, None)
        if not answer.get("ok"):
            raise Refused(str(answer.get("error")))
        return answer

    def statistics(self) -> dict[str, int]:
        return {"heard": self._heard, "lost": self.lost, "in_hand": len(self._scopes)}

    async def _tell(self) -> None:
        async for line in self._receive:
            view = memoryview(line)
            while view:
                try:
                    view = view[await self._sock.send(view) :]
                except OSError:  # the supervisor is gone, as `_listen` is about to notice
                    return

    async def _listen(self, nursery: trio.Nursery) -> None:
        octets, self._early = self._early, b""
        while True:
            try:
                for line in self._reader.feed(octets):
                    self._take(decode(line), nursery)
                octets = await self._sock.recv(PIECE)
            except (OSError, LineTooLong, BadLine) as problem:
                self._log("error", f"the wire to the supervisor is broken: {problem}")
                return
            if not octets:
                return

    def _take(self, message: Message, nursery: trio.Nursery) -> None:
        self._heard += 1
        if (number := message.get("answered")) is not None:
            waiting = self._answers.pop(number, None)
            if waiting is not None:
                waiting.send_nowait(message)
            return
        number, name = message.pop("id", 0), message.get("verb")
        if name == "stop":
            if number in self._scopes:
                self._scopes[number].cancel()
        else:
            nursery.start_soon(self._serve, number, str(name), message)

    async def _serve(self, number: int, name: str, message: Message) -> None:
        if not number:  # no answer is wanted
            await self._answer(number, name, message)
            return
        with trio.CancelScope() as scope:
            self._scopes[number] = scope
            try:
                answer = await self._answer(number, name, message)
            finally:
                del self._scopes[number]
            await self._send.send(encode({**answer, "id": number}))

    async def _answer(self, number: int, name: str, message: Message) -> Message:
        def emit(piece: Mapping[str, object]) -> None:
            self.send_nowait({"ok": True, "more": True, **piece, "id": number})

        try:
            if name in self.streams:
                return {"ok": True, **await self.streams[name](message, emit)}
            if name in self.verbs:
                return {"ok": True, **await self.verbs[name](message)}
        except Refused as problem:
            return refusal(str(problem))
        except Exception as problem:
            # One request of an operator is lost by a bug; the clients of this worker are not.
            trace = "".join(traceback.format_exception(problem))
            self._log("error", f"internal error in the verb {name}: {trace}")
            return refusal(f"internal error: {problem!r}")
        return refusal(f"a worker knows no verb {name!r}")
