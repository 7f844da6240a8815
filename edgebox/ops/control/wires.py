"""The workers as the supervisor speaks with them, each over its own wire.

A worker is told things, or asked: then it answers or is answered for, when its wire ends or
when it has taken too long. So whoever asks several of them hears from each, always. What
workers tell unasked are events, by name.
"""

from __future__ import annotations

import selectors
import socket
import traceback
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial

from edgebox.ops.control.channel import Channel, ChannelLimits
from edgebox.ops.control.jsonlines import BadLine, Message, decode, refusal

PATIENCE = 10.0  # seconds within which a worker is to answer, where nothing else is said
# Workers are our own; a configuration with many sites is a long line.
LIMITS = ChannelLimits(line=16 * 1024 * 1024, backlog=64 * 1024 * 1024)

Answer = Callable[[Message], None]
Event = Callable[[int, Message], None]


@dataclass(slots=True)
class _Asked:
    slot: int
    answer: Answer
    deadline: float | None
    patience: float


def gone(slot: int) -> Message:
    """What is answered for a worker that is not there: whatever it held is not there either."""
    return {**refusal(f"worker {slot} is gone"), "gone": True}


class Wires:
    """A wire for each slot that has a worker."""

    def __init__(
        self,
        selector: selectors.BaseSelector,
        now: Callable[[], float],
        log: Callable[[str, str], None] = lambda level, text: None,
    ) -> None:
        """`now`: seconds of a clock that is never set; `log` takes a level and a text."""
        self.events: dict[str, Event] = {}
        # A wire ended, and why: the process is gone or about to. Not called by `detach`.
        self.when_lost: Callable[[int, str], None] = lambda slot, why: None
        self._selector = selector
        self._log = log
        self._now = now
        self._wires: dict[int, _Wire] = {}
        self._asked: dict[int, _Asked] = {}
        self._number = 0
        self._late = 0  # answers that nobody waited for any more

    @property
    def slots(self) -> list[int]:
        """The slots that have a wire."""
        return sorted(self._wires)

    @property
    def serving(self) -> list[int]:
        """Those whose worker has said that it is ready."""
        return sorted(slot for slot, wire in self._wires.items() if wire.ready)

    @property
    def starting(self) -> list[int]:
        """The others: what they are told they hear once they serve."""
        return sorted(slot for slot, wire in self._wires.items() if not wire.ready)

    def attach(self, slot: int, sock: socket.socket) -> None:
        """Speak with the worker in `slot`; the socket is ours from now on."""
        self.detach(slot)
        self._wires[slot] = _Wire(self, slot, self._selector, sock)

    def detach(self, slot: int) -> None:
        """Close a worker's wire; `when_lost` is not called."""
        wire = self._wires.pop(slot, None)
        if wire is not None:
            wire.close()

    def tell(self, slot: int, message: Mapping[str, object]) -> bool:
        """Send a message to which no answer is wanted; False where nobody hears it."""
        wire = self._wires.get(slot)
        return wire is not None and wire.send(message)

    def ask(
        self, slot: int, message: Mapping[str, object], answer: Answer,
        patience: float | None = PATIENCE,
    ) -> int:  # fmt: skip
        """Have a worker do something; `answer` gets what it says, in any case something.

        Of a stream, `answer` gets each piece. `patience`: seconds until the worker is answered
        for, from its last piece on; None waits for as long as the worker lives. Returns a
        number for `stop`.
        """
        self._number = number = self._number + 1
        deadline = None if patience is None else self._now() + patience
        self._asked[number] = _Asked(slot, answer, deadline, patience or 0.0)
        if not self.tell(slot, {**message, "id": number}):
            self._conclude(number, gone(slot))
        return number

    def ask_all(
        self, slots: Iterable[int], message: Mapping[str, object],
        done: Callable[[dict[int, Message]], None],
    ) -> None:  # fmt: skip
        """Have several workers do something; `done` gets all answers by slot, at the latest
        after PATIENCE, and at once where there is nobody."""
        waiting, answers = set(slots), dict[int, Message]()

        def take(slot: int, answer: Message) -> None:
            answers[slot] = answer
            if answers.keys() == waiting:
                done(answers)

        if not waiting:
            done(answers)
        for slot in sorted(waiting):
            self.ask(slot, message, partial(take, slot))

    def stop(self, number: int) -> None:
        """The answer to this `ask` is not wanted any more."""
        asked = self._asked.pop(number, None)
        if asked is not None:
            self.tell(asked.slot, {"verb": "stop", "id": number})

    def take(self, slot: int, message: Message) -> None:
        """A worker says something."""
        name = message.get("event")
        if isinstance(name, str):
            if name == "ready":
                self._wires[slot].ready = True
            event = self.events.get(name)
            if event is not None:
                event(slot, message)
            return
        number = message.pop("id", None)
        asked = self._asked.get(number) if isinstance(number, int) else None
        if asked is None or asked.slot != slot:
            self._late += 1
        elif message.get("more"):
            if asked.deadline is not None:
                asked.deadline = self._now() + asked.patience
            self._deliver(asked.answer, message)
        else:
            assert isinstance(number, int)
            self._conclude(number, message)

    def lose(self, wire: _Wire, why: str) -> None:
        """A wire has ended; that of a worker which was told to go is no news."""
        expected = self._wires.get(wire.slot) is not wire
        if not expected:
            del self._wires[wire.slot]
        for number in [n for n, asked in self._asked.items() if asked.slot == wire.slot]:
            self._conclude(number, gone(wire.slot))
        if not expected:
            self.when_lost(wire.slot, why)

    def _conclude(self, number: int, message: Message) -> None:
        asked = self._asked.pop(number, None)
        if asked is not None:
            self._deliver(asked.answer, message)

    def _deliver(self, answer: Answer, message: Message) -> None:
        try:
            answer(message)
        except Exception as problem:
            # What an operator asked for gets lost by a bug; the supervisor, and the box, do not.
            trace = "".join(traceback.format_exception(problem))
            self._log("error", f"internal error over a worker's answer: {trace}")

    def answer_late(self) -> None:
        """To be called about once a second: answers for workers that take too long."""
        now = self._now()
        for number, asked in list(self._asked.items()):
            if asked.deadline is not None and asked.deadline <= now:
                self.tell(asked.slot, {"verb": "stop", "id": number})
                late = f"worker {asked.slot} has not answered for {asked.patience:g} s"
                self._conclude(number, refusal(late))

    def statistics(self) -> dict[str, int]:
        return {"wires": len(self._wires), "asked": len(self._asked), "late": self._late}


class _Wire(Channel):
    """A worker."""

    def __init__(
        self, wires: Wires, slot: int, selector: selectors.BaseSelector, sock: socket.socket
    ) -> None:
        self.slot = slot
        self.ready = False
        self._wires = wires
        super().__init__(selector, sock, LIMITS)

    def on_line(self, line: bytes) -> None:
        try:
            message = decode(line)
        except BadLine as problem:
            self.close(str(problem))
            return
        self._wires.take(self.slot, message)

    def on_heard_all(self) -> None:
        self.close("it has closed its wire")

    def on_end(self, why: str) -> None:
        self._wires.lose(self, why)
