"""The course of one server: a rest, then crowd after crowd, each with a rest after it.

A crowd counts as whole once every client is being answered, and reads on together from then.
What comes before, and the rush of the first moments, is recorded and takes no part in the
figures. Nothing here raises for what a server or a crowd does wrong: that is a fault of the
course, and told.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from perf.gigabit import sample
from perf.gigabit.client import ClientFailed, Crowd, downloading
from perf.gigabit.network import SERVER_ADDRESS, inside
from perf.gigabit.sample import Second, Watch
from perf.gigabit.servers import PORT

SHORTEST_REST = 3.0  # seconds
WHOLE_WITHIN = 90.0  # seconds for the last client of a crowd to be answered
SETTLE = 3.0  # seconds in which a crowd reads what waited for it in buffers
WARMING = 10  # clients, for a moment: first uses of code and pools are no client's memory


@dataclass(frozen=True)
class Plan:
    """What is to be done: `crowds` one after another, `seconds` each."""

    program: Path
    target: str
    crowds: tuple[int, ...]
    seconds: float

    @property
    def rest(self) -> float:
        return max(SHORTEST_REST, self.seconds / 3)


@dataclass
class Course:
    """What was seen: every second of it, and what went wrong."""

    began: float
    seconds: list[Second] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)


def run(plan: Plan, watch: Watch, say: Callable[[str], None]) -> Course:
    """The whole course; `say` is told a line for each crowd."""
    course = Course(time.monotonic())
    try:
        with inside(watch.network.client):
            _warm(plan)
            course.began = time.monotonic()
            _record(course, watch, None, plan.rest)
            for size in plan.crowds:
                _take(plan, watch, course, size)
                say(f"{size:>6} clients: {course.seconds[-1].wire / 1e6:.1f} MB/s at the end")
                _record(course, watch, None, plan.rest)
    except (ClientFailed, OSError, IndexError) as problem:
        course.faults.append(f"the course was broken off: {type(problem).__name__}: {problem}")
    return course


def _warm(plan: Plan) -> None:
    with downloading(plan.program, SERVER_ADDRESS, PORT, plan.target, WARMING):
        time.sleep(1)


def _take(plan: Plan, watch: Watch, course: Course, size: int) -> None:
    """One crowd: until it is whole, then for as long as the plan says."""
    with downloading(plan.program, SERVER_ADDRESS, PORT, plan.target, size) as crowd:
        until = time.monotonic() + WHOLE_WITHIN
        while crowd.ask().taking < size:
            if time.monotonic() > until:
                taking = crowd.ask().taking
                course.faults.append(f"of {size} clients only {taking} were ever answered")
                break
            _record(course, watch, crowd, 1.0, steady=False)
        _record(course, watch, crowd, SETTLE, steady=False)
        _record(course, watch, crowd, plan.seconds, steady=True)
        lost, left = course.seconds[-1].lost, course.seconds[-1].connections
    if left < size - lost:
        # The kernel gives up on who found the queue full at fifteen tries (tcp_retries2).
        course.faults.append(f"{left} of {size} connections were left at the server's end")
    if lost:
        reason = crowd.said.strip().partition("\n")[0]
        course.faults.append(f"{lost} of {size} clients were cut off: {reason}")


def _record(
    course: Course, watch: Watch, crowd: Crowd | None, seconds: float, *, steady: bool = False
) -> None:
    """Looks once a second, for `seconds`."""
    size = crowd.size if crowd is not None else 0
    before = sample.look(watch, crowd)
    due, end = before.at, before.at + seconds
    while due < end - 0.5:
        # A look may take longer than a second, on a busy machine: the next is late, not lost.
        due = max(due + 1.0, time.monotonic())
        time.sleep(max(0.0, due - time.monotonic()))
        after = sample.look(watch, crowd)
        course.seconds.append(sample.between(before, after, course.began, size, steady))
        before = after
