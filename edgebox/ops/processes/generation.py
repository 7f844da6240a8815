"""All workers of one configuration: started, watched, replaced, and let go.

A generation rises until each of its places has a worker that serves; one that fails before
fails the generation, and whoever started it goes back to the one before. Once it serves, a
worker that dies or hangs is replaced, at once the first time, then ever later. When it leaves,
nobody is replaced.

Nothing here waits: `tick` looks at the clock and at the workers' heartbeats, and the
supervisor's loop tells of what it hears.
"""

from __future__ import annotations

import math
import signal
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from edgebox.config.schema import Config
from edgebox.listen.listeners import Listeners
from edgebox.observe.pages import SLOTS, Pages
from edgebox.ops.control.wires import Wires
from edgebox.ops.processes.assignment import Assignment, Identity
from edgebox.ops.processes.process import Process, Stage, launch

START = 60.0  # seconds that a worker may take until it serves; with warm caches it takes one
TERM = 5.0  # seconds that one may take to end when it is told to end at once
SPARE = 3.0  # beyond server.drain, within which a worker cuts off by itself who takes longer
LAST_WORDS = 1.0  # seconds for a hung worker to write down where it hangs
LONGEST_BACKOFF = 8.0  # whom the kernel led to the socket of one who is not there waits so long
# Seconds of service after which an end counts as a first one again. Short: one that dies every ten
# seconds costs a start each time, but who waits for a backoff are clients.
SETTLED = 10.0


class NoSlot(Exception):
    """Too many workers that still drain; the message says how many."""


@dataclass(frozen=True, slots=True)
class Means:
    """What generations are run with. `log` takes a level and a text."""

    pages: Pages
    wires: Wires
    log: Callable[[str, str], None]
    warm: Callable[[int], int]  # the file with the hot paths of a place
    standby: Callable[[], set[int]]  # slots that others have


@dataclass(frozen=True, slots=True)
class Brief:
    """What a generation is to do. `config` is settled, and sized for one worker.

    `status`: where the status page is asked for; all workers answer there.
    """

    number: int
    workers: int
    config: Config
    identity: Identity | None
    listeners: Listeners
    status: Listeners


@dataclass(slots=True)
class _Place:
    """One of the workers that there should be."""

    process: Process | None = None
    restart_at: float = math.inf
    failures: int = 0


@dataclass(slots=True)
class Generation:
    """See above. `failure` says why it will never serve."""

    brief: Brief
    means: Means
    failure: str = ""
    leaving: bool = False
    risen: bool = False
    killed: int = 0  # workers that had to be
    _places: list[_Place] = field(default_factory=list)

    @property
    def processes(self) -> Iterator[Process]:
        for place in self._places:
            if place.process is not None:
                yield place.process

    @property
    def accepts(self) -> bool:
        """Whether somebody may still take in who waits to be accepted."""
        return any(process.accepts for process in self.processes)

    @property
    def gone(self) -> bool:
        """Whether no process is left."""
        return not any(True for _ in self.processes)

    def start(self, now: float) -> None:
        """Start a worker for each place. Raises OSError and NoSlot; `stop` what has started."""
        for number in range(self.brief.workers):
            self._places.append(_Place())
            self._launch(number, now)

    def heard_ready(self, slot: int, now: float) -> None:
        """A worker serves. That is a sign of life, too: its first beat is yet to come."""
        process = self._find(slot)
        if process is None or process.stage is not Stage.STARTING:
            return
        process.stage, process.overdue_at, process.heard = Stage.READY, math.inf, now
        if process.reopen:
            process.signal(signal.SIGUSR1)
        if not self.risen:
            self.risen = not self.leaving and all(
                place.process is not None and place.process.stage is Stage.READY
                for place in self._places
            )

    def heard_failed(self, slot: int, why: str) -> None:
        """A worker cannot do what it is told; it ends next."""
        process = self._find(slot)
        if process is not None:
            process.failure = why

    def heard_draining(self, slot: int) -> None:
        """A worker has taken in who waited at its sockets, and accepts nobody more."""
        process = self._find(slot)
        if process is not None:
            process.accepts = False

    def reap(self, now: float) -> None:
        """See to processes that have ended."""
        for process in list(self.processes):
            if how := process.ended():
                self.means.wires.detach(process.slot)
                self.means.pages.slot(process.slot).release()
                self._bury(process, how, now)

    def tick(self, now: float, grace: bool = False) -> None:
        """See to workers that are late, hang, or are to be replaced.

        `grace`: we were not looking for a while ourselves, and who beats late is not to blame.
        """
        for process in list(self.processes):
            if process.overdue_at <= now:
                self._kill(process)
            elif not grace and process.stage in (Stage.READY, Stage.DRAINING):
                self._check_pulse(process, now)
        for number, place in enumerate(self._places):
            if place.restart_at <= now and not self.leaving:
                place.restart_at = math.inf
                try:
                    self._launch(number, now)
                except (OSError, NoSlot) as problem:
                    self._note_failure(place, f"cannot be started: {problem}", now)

    def drain(self, now: float) -> None:
        """Let all answer what they have in hand, then end."""
        self._leave()
        for process in self.processes:
            if process.stage is Stage.READY:
                process.stage = Stage.DRAINING
                process.overdue_at = now + self.brief.config.server.drain + SPARE
                process.signal(signal.SIGQUIT)
            elif process.stage is Stage.STARTING:
                self._end(process, now)

    def stop(self, now: float) -> None:
        """Have all end at once."""
        self._leave()
        for process in self.processes:
            self._end(process, now)

    def reopen(self) -> None:
        """Have all open their logs again."""
        for process in self.processes:
            if process.stage in (Stage.READY, Stage.DRAINING):
                process.signal(signal.SIGUSR1)
            else:
                process.reopen = True

    def keep_warm(self) -> None:
        """Have all leave the paths of their hot files for who comes next."""
        for process in self.processes:
            if process.stage is Stage.READY:
                self.means.wires.tell(process.slot, {"verb": "keep_warm"})

    def resize(self, config: Config, sizes: Mapping[str, int]) -> None:
        """Have all take up these sizes, which `config` has too, for who comes later."""
        self.brief = replace(self.brief, config=config)
        for process in self.processes:
            self.means.wires.tell(process.slot, {"verb": "resize", **sizes})

    def healthy(self, now: float) -> bool:
        """Whether somebody serves, and nobody hangs."""
        serving = [p for p in self.processes if p.stage is Stage.READY]
        return bool(serving) and all(self._silence(p, now) < self._hang for p in serving)

    def statistics(self) -> dict[str, object]:
        return {
            "generation": self.brief.number,
            "workers": [
                {"slot": p.slot, "pid": p.pid, "stage": p.stage.name.lower(), "started": p.started}
                for p in self.processes
            ],
            "killed": self.killed,
        }

    # --- processes come and go ---------------------------------------------------------------

    def _launch(self, number: int, now: float) -> None:
        means, brief = self.means, self.brief
        slot = self._free_slot()
        assignment = Assignment(
            config=brief.config,
            slot=slot,
            generation=brief.number,
            listeners=tuple(s.fileno() for s in brief.listeners.portion(number, brief.workers)),
            status=tuple(s.fileno() for s in brief.status),
            pages=means.pages.fd,
            warm=means.warm(number),
            identity=brief.identity,
        )
        popen, wire = launch(assignment.descriptors)
        means.pages.slot(slot).claim(popen.pid, brief.number)
        self._places[number].process = Process(popen, number, slot, now, now + START)
        means.wires.attach(slot, wire)
        means.wires.tell(slot, {"assignment": assignment})

    def _free_slot(self) -> int:
        taken = self.means.standby() | {process.slot for process in self.processes}
        for number in range(SLOTS):
            if number not in taken and self.means.pages.slot(number).read() is None:
                return number
        raise NoSlot(f"{SLOTS} workers are there already, most of them draining: wait for these")

    def _bury(self, process: Process, how: str, now: float) -> None:
        place = self._places[process.place]
        place.process = None
        if self.leaving:
            return
        if not self.risen:
            self.failure = self.failure or process.failure or f"a worker has ended ({how})"
            return
        if process.heard and now - process.heard > SETTLED:
            place.failures = 0
        self._note_failure(place, how, now)

    def _note_failure(self, place: _Place, how: str, now: float) -> None:
        pause = 0.0 if not place.failures else min(2.0 ** (place.failures - 1), LONGEST_BACKOFF)
        place.failures += 1
        place.restart_at = now + pause
        self.means.log("error", f"a worker has ended: {how}; the next one in {pause:.0f} s")

    def _leave(self) -> None:
        self.leaving = True
        for place in self._places:
            place.restart_at = math.inf

    def _end(self, process: Process, now: float) -> None:
        if process.stage is not Stage.ENDING:
            process.stage, process.overdue_at = Stage.ENDING, now + TERM
            process.signal(signal.SIGTERM)

    def _kill(self, process: Process) -> None:
        self.killed += 1
        process.overdue_at = math.inf
        process.failure = process.stage.value
        self.means.log("warning", f"worker {process.pid} {process.failure}: killed")
        process.signal(signal.SIGKILL)

    # --- signs of life -----------------------------------------------------------------------

    @property
    def _hang(self) -> float:
        return self.brief.config.server.hang

    def _silence(self, process: Process, now: float) -> float:
        """Seconds since its last sign of life."""
        reading = self.means.pages.slot(process.slot).read()
        return now - max(reading.beat if reading else 0.0, process.started, process.heard)

    def _check_pulse(self, process: Process, now: float) -> None:
        silence = self._silence(process, now)
        if silence < self._hang:
            return
        self.means.log(
            "error", f"worker {process.pid} has shown no sign of life for {silence:.0f} s"
        )
        process.stage, process.overdue_at = Stage.HANGING, now + LAST_WORDS
        process.signal(signal.SIGUSR2)

    def _find(self, slot: int) -> Process | None:
        return next((process for process in self.processes if process.slot == slot), None)
