"""How generations follow each other: one serves, one may be rising, some are going.

The next one starts on the sockets of the one that serves. When it serves, the one before
drains; when it fails, it is dismissed, and what it had of its own is closed: all is as before.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from edgebox.config.load import ConfigError
from edgebox.config.schema import Config
from edgebox.listen.listeners import Listeners
from edgebox.listen.sockets import ListenError
from edgebox.observe.pages import Pages
from edgebox.observe.syslog import is_path
from edgebox.ops.control.wires import Wires
from edgebox.ops.processes.generation import Brief, Generation, Means, NoSlot
from edgebox.ops.processes.inheritance import Inheritance
from edgebox.ops.processes.privileges import PrivilegeError, find_identity, own
from edgebox.ops.processes.reach import owned
from edgebox.ops.sizing.sizing import Sized, size

# Why a generation cannot even be begun.
REASONS = (ConfigError, ListenError, PrivilegeError, NoSlot, OSError)

Told = Callable[[str], None]  # "" when all went well, or the reasons why not


@dataclass(slots=True)
class Rise:
    """A generation that is to take over, and who wants to know how it went."""

    generation: Generation
    asked: Config  # as the operator has it
    sized: Sized
    told: list[Told] = field(default_factory=list)

    def tell(self, why: str) -> None:
        for told in self.told:
            told(why)


class Succession:
    """`read` gives the configuration that is asked for, or raises ConfigError. `risen` and
    `failed` are called when it has turned out what becomes of a generation."""

    def __init__(
        self,
        read: Callable[[], Config],
        pages: Pages,
        wires: Wires,
        log: Callable[[str, str], None],
        inherited: Inheritance | None,
    ) -> None:
        """Raises ListenError for sockets that are none."""
        self._read = read
        self._pages = pages
        self._means = Means(pages, wires, log, self._hot_paths, self._taken)
        estate = inherited or Inheritance(listeners={})
        self.listeners = Listeners.adopt(estate.listeners, estate.given)
        self._status = Listeners.adopt(estate.status, given=False)
        self._warm = list(estate.warm)
        self.number = estate.generation
        self.current: Generation | None = None
        self.rise: Rise | None = None
        self._leaving: list[Generation] = []
        self._retiring = False
        self.risen: Callable[[Rise], None] = lambda rise: None
        self.failed: Callable[[Rise], None] = lambda rise: None
        wires.events["ready"] = self._heard_ready
        wires.events["failed"] = self._heard_failed
        wires.events["draining"] = self._heard_draining

    def begin(self, told: list[Told]) -> None:
        """Start the next generation; none may be rising. Raises one of REASONS."""
        asked = self._read()
        identity = find_identity(asked.server.user, asked.server.group)
        sized = size(asked)
        backlog = sized.whole.server.backlog or 1
        status_at = [asked.status.listen] if asked.status.listen else []
        listeners = self.listeners.changed(asked.server.listen, sized.workers, backlog)
        status = self._status
        try:
            status = self._status.changed(status_at, 1, backlog)
            brief = Brief(self.number + 1, sized.workers, sized.worker, identity, listeners, status)
            _prepare(brief)
            self._start(Rise(Generation(brief, self._means), asked, sized, told))
        except BaseException:
            listeners.close_except(self.listeners)
            status.close_except(self._status)
            raise

    def turn(self, now: float) -> None:
        """See what has become of all of them. After each event, and once a second."""
        for generation in self:
            generation.reap(now)
        self._leaving = [generation for generation in self._leaving if not generation.gone]
        rise = self.rise
        if rise is not None and rise.generation.failure:
            self._fail(rise, now)
        elif rise is not None and rise.generation.risen:
            self._take_over(rise, now)
        if self._retiring and not any(generation.accepts for generation in self):
            self._retiring = False
            self.listeners.refuse()
            self._status.refuse()

    def tick(self, now: float, grace: bool) -> None:
        """Look at the clock and for heartbeats. Once a second."""
        for generation in self:
            generation.tick(now, grace)

    def end(self, how: Callable[[Generation, float], None]) -> None:
        """Have all go, by Generation.drain or Generation.stop; nobody rises any more."""
        now = time.monotonic()
        if self.rise is not None:
            rise, self.rise = self.rise, None
            self._dismiss(rise.generation, now)
            rise.tell("the server is ending")
        if self.current is not None:
            self._leaving.append(self.current)
            self.current = None
        for generation in self:
            how(generation, now)

    def retire(self) -> None:
        """Have all go when they have answered, with nobody to follow: who comes from now on is
        refused, as soon as those are taken in who wait."""
        self._retiring = True
        self.end(Generation.drain)

    def rest(self) -> None:
        """Let who serves go; who comes waits in the sockets for a reload."""
        self.end(Generation.drain)

    def reopen(self) -> None:
        """Have all open their logs again. Raises OSError where one cannot be made."""
        if self.current is not None:
            _prepare(self.current.brief)
        for generation in self:
            generation.reopen()

    def keep_warm(self) -> None:
        """Have those who serve leave word of what is hot."""
        if self.current is not None:
            self.current.keep_warm()

    def estate(self) -> Inheritance:
        """All that a successor needs."""
        return Inheritance(
            listeners=self.listeners.descriptors(),
            given=self.listeners.given,
            status=self._status.descriptors(),
            generation=self.number,
            pages=self._pages.fd,
            warm=tuple(self._warm),
        )

    def close(self, remove: bool) -> None:
        """Close the sockets; `remove` paths of Unix sockets, unless a successor has them."""
        self.listeners.close(remove)
        self._status.close(remove)
        for fd in self._warm:
            os.close(fd)

    def __iter__(self) -> Iterator[Generation]:
        """All of them, the newest first."""
        found = [self.rise.generation] if self.rise is not None else []
        found += [self.current] if self.current is not None else []
        return iter([*found, *reversed(self._leaving)])

    def _start(self, rise: Rise) -> None:
        now = time.monotonic()
        try:
            rise.generation.start(now)
        except BaseException:
            self._dismiss(rise.generation, now)
            raise
        self.number = rise.generation.brief.number
        self.rise = rise

    def _take_over(self, rise: Rise, now: float) -> None:
        self.rise = None
        before, self.current = self.current, rise.generation
        if before is not None:
            before.drain(now)
            self._leaving.append(before)
        brief = rise.generation.brief
        self.listeners.close_except(brief.listeners)
        self._status.close_except(brief.status)
        self.listeners, self._status = brief.listeners, brief.status
        self.risen(rise)
        rise.tell("")

    def _fail(self, rise: Rise, now: float) -> None:
        self.rise = None
        brief = rise.generation.brief
        brief.listeners.close_except(self.listeners)
        brief.status.close_except(self._status)
        self._dismiss(rise.generation, now)
        self.failed(rise)
        rise.tell(rise.generation.failure)

    def _dismiss(self, generation: Generation, now: float) -> None:
        generation.drain(now)  # some of it may serve already
        self._leaving.append(generation)

    def _heard_ready(self, slot: int, message: dict[str, Any]) -> None:
        for generation in self:
            generation.heard_ready(slot, time.monotonic())

    def _heard_failed(self, slot: int, message: dict[str, Any]) -> None:
        for generation in self:
            generation.heard_failed(slot, str(message.get("error")))

    def _heard_draining(self, slot: int, message: dict[str, Any]) -> None:
        for generation in self:
            generation.heard_draining(slot)

    def _hot_paths(self, place: int) -> int:
        while len(self._warm) <= place:
            self._warm.append(os.memfd_create("edgebox-warm", os.MFD_CLOEXEC))
        return self._warm[place]

    def _taken(self) -> set[int]:
        return {process.slot for generation in self for process in generation.processes}


def _prepare(brief: Brief) -> None:
    """Make what workers could not make once they are not root any more. Raises OSError."""
    identity, config = brief.identity, brief.config
    if identity is None or os.geteuid() != 0:
        return
    for directory in owned(config):
        own(directory, identity, directory=True)
    for log in (config.log.access, config.log.error):
        if is_path(log):
            own(log, identity, directory=False)
