"""Keeps the plan true while the server runs: in the supervisor, on its selector.

Something happens (a link goes to another speed, a control group's limit moves, processes wait
for memory, connections take more than was thought), the machine is looked at again by a child,
and where the new plan differs by enough, `on_plan` gets it with a line for the log. Only sizes
that workers can change while they serve are acted on; their number stays until a reload.

A link that is down or does not tell its speed says nothing of how fast it will be: the last
speed stays. Flaps are waited out. What shrank under pressure, or started when memory was short,
grows when it was quiet for a while.
"""

from __future__ import annotations

import math
import os
import selectors
import subprocess
import time
from collections.abc import Callable

from msgspec.structs import replace

from edgebox.config.schema import Config
from edgebox.observe.pages import SLOTS, Pages
from edgebox.ops.sizing.linkwatch import LinkWatch
from edgebox.ops.sizing.pressure import Pressure
from edgebox.ops.sizing.sizing import Sized, size, subject, with_ours
from edgebox.plan import cgroup
from edgebox.plan.assumptions import Overrides
from edgebox.plan.facts import Facts, FactsError
from edgebox.plan.family import resident, resident_of, sockets
from edgebox.plan.gather import gather
from edgebox.plan.gathering import Gathering
from edgebox.plan.measured import Measurements, Running
from edgebox.plan.quantity import size as written_size
from edgebox.plan.quantity import written

SETTLE = 2.0  # seconds without a further change until it is believed
FLAPPING = 10.0  # seconds after which one is believed that never settles
POLL = 5.0  # seconds between two looks at what sends no messages
BREATH = 10.0  # seconds between two looks because of pressure, doubled while they change nothing
QUIET = 300.0  # seconds without pressure after which memory is looked at once more
PATIENCE = 10.0  # seconds for the child that looks at the machine
ENOUGH = 0.1  # share of a number by which it must change to be worth a word

OnPlan = Callable[[Sized, str], None]


def nothing_measured() -> Running | None:
    """Where nobody counts connections."""
    return None


def measure(pages: Pages) -> Running:
    """All workers at this moment, as their pages and /proc have it."""
    numbers = pages.totals().numbers
    readings = (pages.slot(number).read() for number in range(SLOTS))
    return Running(
        connections=numbers["connections"],
        resident=resident_of(reading.pid for reading in readings if reading is not None),
        held=numbers["ram_held"],
        sockets=sockets(),
    )


class Live:
    """`turn` is to be called about once a second, `adopt` after a reload, `close` at the end."""

    def __init__(
        self,
        selector: selectors.BaseSelector,
        facts: Facts,
        config: Config,
        on_plan: OnPlan,
        measure: Callable[[], Running | None] = nothing_measured,
        now: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        """`config` as the operator wrote it, planned for `facts`; `measure`: the server now."""
        self._selector = selector
        self._on_plan = on_plan
        self._measure = measure
        self._now = now
        self._measured: Measurements | None = None
        self._looking: Gathering | None = None
        self._give_up_at = self._grow_at = math.inf
        self._due: float = math.inf
        self._first: float | None = None  # when the first of changes came that are not looked at
        self._cause = ""
        self._pressed_at = -math.inf
        self._relief_at = -math.inf  # when pressure is a reason to look again
        self._breath = BREATH
        self._polled_at = now()
        self._plans = self._looks = 0
        self.adopt(facts, config)
        self._links = LinkWatch(selector, self._link_changed)
        self._pressure = Pressure(selector, cgroup.pressure(), self._pressed)

    def adopt(self, facts: Facts, config: Config) -> None:
        """This configuration is in force from now on, planned for these facts."""
        self._config = config
        self._sized = size(config, facts)
        self._workers = self._sized.workers
        self._connection_size = self._sized.plan.value("plan.connection_size") or 0
        self._limit = facts.memory.cgroup_limit
        # Who was here before us, or starts beside us, has what it needs by then.
        self._grow_at = self._now() + QUIET

    def turn(self) -> None:
        """Look at the clock, and now and then at what sends no messages."""
        now = self._now()
        if now - self._polled_at >= POLL:
            self._polled_at = now
            self._poll(now)
        self._pressure.turn()
        if self._looking is not None:
            if now >= self._give_up_at:
                self._abandon()
                self._looked(gather(subject(self._config), netlink=False))
        elif now >= self._due:
            self._look(now)

    def close(self) -> None:
        self._links.close()
        self._pressure.close()
        self._abandon()

    def statistics(self) -> dict[str, object]:
        return {
            "looks": self._looks,
            "plans": self._plans,
            "links": self._links.statistics(),
            "pressure": self._pressure.statistics(),
        }

    # --- what happens --------------------------------------------------------------------------

    def _link_changed(self, name: str) -> None:
        known = {link.name for link in self._sized.facts.network.links}
        if name and known and name not in known:
            return
        self._schedule(f"link {name}" if name else "a link", SETTLE)

    def _pressed(self) -> None:
        now = self._now()
        if now - self._pressed_at >= QUIET:
            self._breath = BREATH
        self._pressed_at = now
        if now >= self._relief_at:
            self._relief_at = now + self._breath
            # It may be that there is nothing to be done: large files read from a slow disk.
            self._breath = min(2 * self._breath, QUIET)
            self._schedule("memory pressure", 0.0)

    def _poll(self, now: float) -> None:
        limit = cgroup.limits().memory
        if limit != self._limit:
            self._limit = limit
            told = "gone" if limit is None else f"now {written_size(limit)}"
            self._schedule(f"memory limit {told}", SETTLE)
        if now >= self._grow_at and now - self._pressed_at >= QUIET:
            self._grow_at = math.inf
            self._schedule("available memory", 0.0)
        self._note(self._measure())

    def _note(self, running: Running | None) -> None:
        """Connections that take more than was planned with are worth a new plan."""
        if running is None:
            return
        before = self._measured or Measurements(rest=running)
        self._measured = before.after(running)
        largest = self._measured.largest
        if largest is not None and largest > self._connection_size * (1 + ENOUGH):
            self._connection_size = largest
            self._schedule(f"a connection takes {written_size(largest)}", SETTLE)

    def _schedule(self, cause: str, wait: float) -> None:
        now = self._now()
        if self._first is None:
            self._first = now
        self._cause = cause
        self._due = min(now + wait, self._first + FLAPPING)

    # --- looking again ---------------------------------------------------------------------------

    def _look(self, now: float) -> None:
        self._due, self._first = math.inf, None
        self._looks += 1
        try:
            self._looking = Gathering(subject(self._config))
        except OSError:
            self._looked(gather(subject(self._config), netlink=False))
            return
        self._give_up_at = now + PATIENCE
        self._selector.register(self._looking, selectors.EVENT_READ, self._hear)

    def _hear(self, mask: int) -> None:
        """The child tells all at once, and ends."""
        looking, self._looking = self._looking, None
        if looking is None:
            return
        self._selector.unregister(looking)
        try:
            facts = looking.finish(1.0)
        except (OSError, subprocess.SubprocessError, FactsError):
            facts = gather(subject(self._config), netlink=False)
        self._looked(facts)

    def _abandon(self) -> None:
        if self._looking is not None:
            self._selector.unregister(self._looking)
            self._looking.abandon()
            self._looking = None

    def _looked(self, facts: Facts) -> None:
        facts = with_ours(facts, resident(os.getpid()))
        measured = self._overrides()
        free = size(self._config, facts, measured)
        if _lost(self._sized, free):
            measured = replace(measured, speed=self._sized.plan.value("nic.speed"))
            free = size(self._config, facts, measured)
        # Their number cannot be changed while they run.
        new = size(self._config, facts, replace(measured, workers=self._workers))
        changes = differences(self._sized, new)
        if not changes:
            return
        shrunken = _working_set(new) < _working_set(self._sized)
        if shrunken and self._cause == "memory pressure":
            self._grow_at = self._now() + QUIET
        line = f"re-planned: {self._told(new)}: {', '.join(changes)}"
        if free.workers != self._workers:
            line += f"; a reload would have {free.workers} workers"
        self._sized, self._breath = new, BREATH
        self._plans += 1
        self._on_plan(new, line)

    def _overrides(self) -> Overrides:
        """What has been measured, unless the operator said it."""
        said = self._config.plan.connection_size is not None
        largest = None if said or self._measured is None else self._measured.largest
        return Overrides(connection_size=largest)

    def _told(self, new: Sized) -> str:
        """The cause, in the plan's own words where it is the link."""
        speed = new.plan.value("nic.speed")
        if speed != self._sized.plan.value("nic.speed"):
            return f"link {new.plan.interface or ''} now {written(speed, 'bits/s')}"
        return self._cause


def differences(before: Sized, after: Sized) -> list[str]:
    """What a running server can change, where one of it changed by enough; else nothing."""
    rows = [
        ("connections", before.whole.limits.connections or 0, after.whole.limits.connections or 0),
        ("working set", _working_set(before), _working_set(after)),
    ]
    if all(abs(new - old) <= ENOUGH * old for _, old, new in rows):
        return []
    return [
        f"{name} {_written(name, old)} → {_written(name, new)}"
        for name, old, new in rows
        if abs(new - old) > ENOUGH * old / 10
    ]


def _lost(before: Sized, after: Sized) -> bool:
    """Whether a speed that was known is not any more: the cable is out, or the card is silent."""
    known, now = (each.plan.value("nic.speed") for each in (before, after))
    return known is not None and now is None


def _working_set(sized: Sized) -> int:
    return sized.whole.files.working_set or 0


def _written(name: str, value: int) -> str:
    return f"{value:,}" if name == "connections" else written_size(value)
