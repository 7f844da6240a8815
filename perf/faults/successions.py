"""Reloads in a row, then upgrades in a row, under many kept connections: nothing is lost."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import click

from perf.faults.box import App, Box, make_place, running_box, targets_of, wait_until
from perf.faults.crowd import Crowd
from perf.faults.outcome import (
    Figure,
    Outcome,
    Promise,
    load_of,
    nothing_lost,
    nothing_wrong,
    spread,
)
from perf.faults.tally import percentile
from perf.processes import own_memory

CLIENTS = 200
PAUSE = 0.4  # seconds
PATIENCE = 120.0  # seconds for one of them, on a machine that others use


def reload_often(app: App, scratch: Path, times: int) -> Outcome:
    """`edgebox reload`, so often."""
    return _succeed("reload", app, scratch, times, _reload)


def upgrade_often(app: App, scratch: Path, times: int) -> Outcome:
    """`edgebox upgrade`, so often."""
    return _succeed("upgrade", app, scratch, times, _upgrade)


def _reload(box: Box) -> None:
    box.told("reload", PATIENCE)


def _upgrade(box: Box) -> None:
    before = _supervisor(box)
    box.told("upgrade", PATIENCE)
    # The command is answered by the old one; the new one has the socket a moment later.
    wait_until(lambda: _supervisor(box) not in (0, before), PATIENCE, "the new supervisor")


def _supervisor(box: Box) -> int:
    """Its process id; 0 while none answers."""
    try:
        return int(box.told()["supervisor"]["pid"])
    except click.ClickException:
        return 0


def _succeed(verb: str, app: App, scratch: Path, times: int, one: Callable[[Box], None]) -> Outcome:
    place = make_place(scratch)
    took, memory, refused = [], [], []
    with (
        running_box(place, app) as box,
        Crowd(box.port, targets_of(place.root), CLIENTS, pause=PAUSE) as crowd,
    ):
        wait_until(lambda: crowd.tally.answered > 2 * CLIENTS, PATIENCE, "the crowd")
        for _ in range(times):
            begun = time.monotonic()
            try:
                one(box)
                took.append(time.monotonic() - begun)
            except click.ClickException as problem:
                refused.append(problem.message)
            memory.append(own_memory([_supervisor(box)]))
        # Those before drain: then there are two workers, and one supervisor.
        settled = wait_until(
            lambda: len(box.processes("worker")) == 2 and not _old(box), PATIENCE, "the end of them"
        )
        time.sleep(1)
    load = load_of(crowd.tally, CLIENTS)
    waits = [seconds for _, seconds in crowd.tally.answers]
    figures = [
        Figure(f"{verb}s", len(took)),
        *spread(f"seconds a {verb}", took),
        Figure("until all those before have ended", settled, "s"),
        Figure("answers within, 99 of 100", percentile(waits, 0.99), "s"),
        Figure("supervisor's memory after the first", memory[0] / 1e6, "MB"),
        Figure("supervisor's memory after the last", memory[-1] / 1e6, "MB"),
    ]
    promises = (
        nothing_wrong(load),
        nothing_lost(load),
        Promise(f"no {verb} fails", "; ".join(refused[:3]) or f"0 of {times}", not refused),
        Promise("no answer is an error", str(load.named or "none is"), not load.named),
        Promise(
            "the supervisor's memory does not grow (5 %)",
            f"{memory[-1] / memory[0] - 1:+.1%}",
            memory[-1] <= 1.05 * memory[0],
        ),
    )
    return Outcome(f"{verb}s", load, promises, tuple(figures))


def _old(box: Box) -> bool:
    """Whether a generation is still draining, or a supervisor before this one is there."""
    return len(box.told()["supervisor"]["generations"]) > 1 or len(box.supervisors()) > 1
