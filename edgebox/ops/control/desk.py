"""What operators' tools ask of the supervisor itself, and where they find it.

reload, upgrade    answered when it is done, or with why it cannot be
reopen, drain, stop    answered at once
status, stats, and all that workers are asked: see `ops/control/reports` and `ops/control/chorus`
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec

from edgebox.config.schema import Config
from edgebox.observe.pages import Pages
from edgebox.ops.control.board import plan_sheet
from edgebox.ops.control.chorus import Chorus
from edgebox.ops.control.control import Control, Reply
from edgebox.ops.control.jsonlines import Message, refusal
from edgebox.ops.control.place import ControlError, choose_place
from edgebox.ops.control.reports import Reports
from edgebox.ops.processes.succession import Told
from edgebox.ops.sizing.sizing import Sized


class Log(Protocol):
    """The supervisor's: its last warnings and errors, and how many there were."""

    @property
    def recent(self) -> Sequence[tuple[int, str, str]]: ...
    @property
    def counts(self) -> dict[str, int]: ...
    def __call__(self, level: str, text: str) -> None: ...


class Orderly(Protocol):
    """Who does what is asked here: the supervisor."""

    def reload(self, told: Told) -> None: ...
    def upgrade(self, told: Told) -> None: ...
    def reopen(self) -> None: ...
    def drain(self) -> None: ...
    def stop(self) -> None: ...
    def facts(self) -> dict[str, object]: ...


class Desk:
    """Registers all verbs of the supervisor with `control`."""

    def __init__(self, control: Control, pages: Pages, log: Log, orderly: Orderly) -> None:
        self._control = control
        self._pages = pages
        self._log = log
        self._generation = 0
        self._started: object = int(time.time())
        self._sheet: dict[str, object] = {}
        self._chorus = Chorus(control)
        self._reports = Reports(control, pages, orderly.facts)
        succession = control.events["ready"]

        def ready(slot: int, message: Message) -> None:
            succession(slot, message)
            self._chorus.ready(slot)

        control.events["ready"] = ready
        control.verbs |= {
            "reload": lambda _, reply: orderly.reload(self._answer(reply)),
            "upgrade": lambda _, reply: orderly.upgrade(self._answer(reply)),
            "reopen": lambda _, reply: _at_once(orderly.reopen, reply),
            "drain": lambda _, reply: _at_once(orderly.drain, reply),
            "stop": lambda _, reply: _at_once(orderly.stop, reply),
        }

    def open(self, config: Config, group: int) -> None:
        """Hear operators' tools from now on; those of `group` too, if it is not negative."""
        place = choose_place(config.control.socket, os.environ, os.geteuid())
        if not place:
            return
        try:
            self._control.listen(place, int(config.control.mode, 8), group)
        except ControlError as problem:
            self._log("warning", str(problem))

    def took_over(self, sized: Sized, generation: int) -> None:
        """Another configuration, or another plan, is in force."""
        self._generation = generation
        board = self._pages.board
        if (before := board.read()) is not None:  # an upgrade is no new start
            self._started = before.sheet.get("started", self._started)
        if before is None or before.pid != os.getpid():
            board.claim(os.getpid(), generation)
        self._sheet = {"plan": plan_sheet(sized.plan), "started": self._started}
        self._publish()

    def turn(self) -> None:
        """Once a second."""
        self._control.turn()
        board = self._pages.board.read()
        if board is not None and board.pid == os.getpid():  # a successor's is not ours to write
            self._publish()
        self._reports.turn()

    def _publish(self) -> None:
        """The board: the plan, and what went wrong of late, which workers cannot tell."""
        numbers = {f"{level}s": count for level, count in self._log.counts.items()}
        sheet = {**self._sheet, "errors": list(self._log.recent)}
        self._pages.board.publish(numbers, {}, msgspec.json.encode(sheet))

    def _answer(self, reply: Reply) -> Told:
        def told(why: str) -> None:
            reply(refusal(why) if why else {"ok": True, "generation": self._generation})

        return told


def _at_once(do: Callable[[], None], reply: Reply) -> None:
    reply({"ok": True})
    do()
