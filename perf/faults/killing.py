"""Each process is killed at random while a crowd is at work.

A worker is stopped for the moment that it takes to note down whose connections it has, then
killed: whatever is lost must be on one of these. The supervisor is left alone, since who sees
to that one is systemd.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from perf.faults.answer import Target
from perf.faults.box import HELPER, HOUSEKEEPER, WORKER, App, Box, clients_of, wait_until
from perf.faults.crowd import Crowd
from perf.faults.outcome import (
    Figure,
    Outcome,
    Promise,
    load_of,
    nothing_wrong,
    spread,
)
from perf.faults.tally import Blow, longest_wait

APP = "app"
ROLES = (WORKER, WORKER, HOUSEKEEPER, HELPER, APP)  # a worker twice as often: there are two
PAUSE = (1.0, 4.0)  # seconds between two deaths, at the least and at the most
CLIENTS = 50
RECOVERS = 90.0  # seconds; backoffs are up to 60
DOWN = 0.5  # seconds after which whoever sees to the app has noticed


@dataclass
class Wound:
    """Something killed that has not recovered yet."""

    role: str
    at: float
    healed: Callable[[], bool]


class Killer:
    """Kills, and looks for when all is as before."""

    def __init__(self, box: Box, app: App, crowd: Crowd) -> None:
        self._box = box
        self._app = app
        self._crowd = crowd
        self._random = random.Random(7)
        self._open: list[Wound] = []
        self._pages = 0
        self.blows: list[Blow] = []
        self.healed: list[tuple[str, float, float]] = []  # role, when killed, when healed

    def run(self, seconds: float) -> None:
        """Kill for so long, then wait for all to be as before."""
        until = time.monotonic() + seconds
        due = time.monotonic()
        while (now := time.monotonic()) < until:
            self._look()
            hurt = {wound.role for wound in self._open}
            if now >= due and (left := [role for role in ROLES if role not in hurt]):
                self._kill(self._random.choice(left))
                due = now + self._random.uniform(*PAUSE)
            time.sleep(0.02)
        wait_until(self._look, RECOVERS, "the last recovery")

    def times(self, role: str) -> list[float]:
        return [end - begin for name, begin, end in self.healed if name == role]

    def _look(self) -> bool:
        for wound in list(self._open):
            if wound.healed():
                self._open.remove(wound)
                self.healed.append((wound.role, wound.at, time.monotonic()))
        return not self._open

    def _kill(self, role: str) -> None:
        if role == APP:
            self._kill_app()
            return
        candidates = sorted(self._box.serving()) if role == WORKER else self._box.processes(role)
        if not candidates:
            return
        victim = self._random.choice(candidates)
        ports: frozenset[int] = frozenset()
        with contextlib.suppress(ProcessLookupError, FileNotFoundError):
            if role == WORKER:
                os.kill(victim, signal.SIGSTOP)
                ports = clients_of(victim, self._box.port)
            os.kill(victim, signal.SIGKILL)
        at = time.monotonic()
        self.blows.append(Blow(at, ports))
        self._open.append(Wound(role, at, self._healing(role, victim)))

    def _healing(self, role: str, victim: int) -> Callable[[], bool]:
        if role == WORKER:
            return lambda: len(self._box.serving() - {victim}) == 2
        if role == HOUSEKEEPER:
            return lambda: bool(set(self._box.processes(role)) - {victim})
        target = self._new_page()
        return lambda: self._is_compressed(target)

    def _new_page(self) -> Target:
        """A file that nobody has compressed yet."""
        self._pages += 1
        path = Path(f"new-{self._pages}.html")
        body = f"<p>{path}</p>\n".encode() * 100
        (self._box.place.root / path).write_bytes(body)
        target = Target(f"/{path}", body)
        self._crowd.targets.append(target)
        return target

    def _is_compressed(self, target: Target) -> bool:
        _, fields, _ = self._box.ask(target.path, coding="gzip", patience=0.5)
        return bool(fields and fields["Content-Encoding"] == "gzip")

    def _kill_app(self) -> None:
        self._app.process.kill()
        at = time.monotonic()
        self.blows.append(Blow(at, prefix="/app/"))
        restarted = False

        def healed() -> bool:
            nonlocal restarted
            if not restarted and time.monotonic() - at > DOWN:
                self._app.start_again()
                restarted = True
            return restarted and self._box.ask("/app/0/probe", patience=0.5)[0] == 200

        self._open.append(Wound(APP, at, healed))


def kill_at_random(box: Box, app: App, targets: list[Target], seconds: float) -> Outcome:
    """The whole part."""
    with Crowd(box.port, targets, CLIENTS, pause=0.05, turnover=0.01) as crowd:
        time.sleep(2)
        killer = Killer(box, app, crowd)
        killer.run(seconds)
    load = load_of(crowd.tally, CLIENTS, killer.blows)
    figures = []
    for role in (WORKER, HOUSEKEEPER, HELPER, APP):
        times = killer.times(role)
        figures += [Figure(f"{role}: killed", len(times))]
        figures += spread(f"{role}: until another does its work", times)
    waits = [
        longest_wait(crowd.tally.answers, begin, end)
        for role, begin, end in killer.healed
        if role == WORKER
    ]
    figures += spread("longest that a client waited over a worker's death", waits)
    in_hand = sum(len(blow.ports) for blow in killer.blows)
    figures.append(Figure("connections that killed workers had", in_hand))
    promises = (
        nothing_wrong(load),
        Promise(
            "lost is only what a killed worker or app had in hand, one request a connection",
            f"{load.lost} lost, {load.unexplained} of them elsewhere",
            not load.unexplained,
        ),
        Promise("no connection is refused", str(load.refused), not load.refused),
        Promise(
            "every process came back by itself",
            f"{len(killer.healed)} of {len(killer.blows)}",
            len(killer.healed) == len(killer.blows),
        ),
    )
    return Outcome("killing", load, promises, tuple(figures))
