"""A generation with processes that are real but do not serve: what it does when, and to whom."""

from __future__ import annotations

import os
import selectors
import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from edgebox.config.schema import Config, Server
from edgebox.listen.listeners import Listeners
from edgebox.observe.pages import Pages
from edgebox.ops.control.wires import Wires
from edgebox.ops.processes.generation import (
    LAST_WORDS,
    SETTLED,
    SPARE,
    START,
    TERM,
    Brief,
    Generation,
    Means,
    NoSlot,
)
from edgebox.ops.processes.process import Stage
from tests.box.conftest import wait_until

PATIENCE = 20.0
HANG, DRAIN = 7.0, 11.0


@dataclass
class Rig:
    """Generations, and the clock that they are told of."""

    pages: Pages
    warm: int
    selector: selectors.BaseSelector
    made: list[Generation] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    taken: set[int] = field(default_factory=set)
    now: float = 0.0

    def make(self, workers: int = 1) -> Generation:
        means = Means(
            self.pages,
            Wires(self.selector, lambda: self.now),
            lambda level, text: self.said.append(text),
            lambda place: self.warm,
            lambda: self.taken,
        )
        config = Config(server=Server(hang=HANG, drain=DRAIN))
        brief = Brief(1, workers, config, None, Listeners({}), Listeners({}))
        self.made.append(Generation(brief, means))
        return self.made[-1]

    def close(self) -> None:
        for generation in self.made:
            for process in list(generation.processes):
                process.popen.kill()
                process.popen.wait()
            generation.stop(self.now)
            generation.reap(self.now)
        self.pages.close()
        self.selector.close()
        os.close(self.warm)

    def serving(self, workers: int = 1) -> Generation:
        generation = self.make(workers)
        self.now = time.monotonic()  # heartbeats are by the machine's clock
        generation.start(self.now)
        for process in generation.processes:
            wait_until(lambda pid=process.pid: Path(f"/proc/{pid}/comm").read_text() == "sleep\n")
            generation.heard_ready(process.slot, self.now)
        assert generation.risen
        return generation


@pytest.fixture
def rig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Rig]:
    """Its workers only sleep, and heed no signal but KILL."""
    program = tmp_path / "worker"
    program.write_text("#!/bin/sh\ntrap '' QUIT TERM USR2\nexec sleep 60\n")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    made = Rig(Pages.create(), os.memfd_create("warm"), selectors.DefaultSelector())
    yield made
    made.close()


def wait_ended(generation: Generation, number: int = 0) -> None:
    list(generation.processes)[number].popen.wait(PATIENCE)


def kill(generation: Generation, number: int = 0) -> None:
    process = list(generation.processes)[number]
    process.popen.kill()
    process.popen.wait(PATIENCE)


def test_it_has_risen_when_all_serve(rig: Rig) -> None:
    generation = rig.make(2)
    generation.start(rig.now)
    one, two = generation.processes
    assert {one.slot, two.slot} == {0, 1}
    generation.heard_ready(one.slot, rig.now)
    generation.heard_ready(one.slot, rig.now)
    assert not generation.risen
    generation.heard_ready(two.slot, rig.now)
    assert generation.risen
    assert not generation.failure


def test_one_that_ends_before_it_serves_fails_all(rig: Rig) -> None:
    generation = rig.make(2)
    generation.start(rig.now)
    one, two = generation.processes
    generation.heard_ready(two.slot, rig.now)
    generation.heard_failed(one.slot, "cannot do it")
    kill(generation)
    generation.reap(rig.now)
    assert generation.failure == "cannot do it"
    assert not generation.risen
    assert rig.pages.slot(one.slot).read() is None


def test_one_that_does_not_get_ready_is_killed(rig: Rig) -> None:
    generation = rig.make()
    generation.start(rig.now)
    generation.tick(rig.now + START - 1)
    assert generation.killed == 0
    generation.tick(rig.now + START)
    wait_ended(generation)
    generation.reap(rig.now)
    assert generation.failure == "does not get ready"


def test_who_dies_is_replaced_at_once_and_then_ever_later(rig: Rig) -> None:
    generation = rig.serving()
    slot = rig.pages.slot(0)
    for pause in (0.0, 1.0, 2.0, 4.0):
        kill(generation)
        generation.reap(rig.now)
        assert generation.gone
        assert slot.read() is None
        if pause:
            generation.tick(rig.now + pause - 0.1)
            assert generation.gone
        rig.now += pause
        generation.tick(rig.now)
        (process,) = generation.processes
        generation.heard_ready(process.slot, rig.now)
        reading = slot.read()
        assert reading is not None
        assert reading.pid == process.pid
    assert "a worker has ended: SIGKILL; the next one in 4 s" in rig.said


@pytest.mark.parametrize(
    ("start", "served", "pause"), [(1, SETTLED + 1, "0"), (SETTLED + 1, 1, "1")]
)
def test_after_some_time_of_service_a_death_is_a_first_one_again(
    rig: Rig, start: float, served: float, pause: str
) -> None:
    generation = rig.serving()
    kill(generation)
    generation.reap(rig.now)
    generation.tick(rig.now)
    rig.now += start  # which is no service
    generation.heard_ready(0, rig.now)
    rig.now += served
    kill(generation)
    generation.reap(rig.now)
    assert rig.said[-1].endswith(f"in {pause} s")


def test_who_shows_no_sign_of_life_says_where_he_hangs_and_is_killed(rig: Rig) -> None:
    generation = rig.serving()
    (process,) = generation.processes
    rig.pages.slot(0).beat(rig.now + 1)
    generation.tick(rig.now + HANG)
    assert process.stage is Stage.READY
    generation.tick(rig.now + 1 + HANG)
    assert process.stage is Stage.HANGING
    assert process.popen.poll() is None  # to write down where
    generation.tick(rig.now + 1 + HANG + LAST_WORDS)
    assert process.popen.wait(PATIENCE) == -signal.SIGKILL
    generation.reap(rig.now)
    generation.tick(rig.now)
    assert not generation.gone


def test_who_took_long_to_start_does_not_hang_before_he_could_beat(rig: Rig) -> None:
    generation = rig.make()
    rig.now = time.monotonic()  # as those by which the slot is claimed
    generation.start(rig.now)
    (process,) = generation.processes
    late = rig.now + 5 * HANG
    generation.heard_ready(process.slot, late)
    generation.tick(late + 1)
    assert process.stage is Stage.READY
    generation.tick(late + HANG)
    assert process.stage is Stage.HANGING


def test_in_a_time_of_grace_nobody_hangs(rig: Rig) -> None:
    generation = rig.serving()
    generation.tick(rig.now + 100, grace=True)
    assert next(generation.processes).stage is Stage.READY


def test_who_drains_for_too_long_is_cut_off_and_not_replaced(rig: Rig) -> None:
    generation = rig.serving()
    generation.drain(rig.now)
    process = next(generation.processes)
    for moment in (1.0, DRAIN + SPARE - 0.1):
        rig.pages.slot(0).beat(rig.now + moment)
        generation.tick(rig.now + moment)
    assert process.popen.poll() is None
    generation.tick(rig.now + DRAIN + SPARE)
    assert process.popen.wait(PATIENCE) == -signal.SIGKILL
    generation.reap(rig.now)
    generation.tick(rig.now + 100)
    assert generation.gone


def test_who_does_not_end_is_ended(rig: Rig) -> None:
    generation = rig.make()
    generation.start(rig.now)  # it does not serve yet
    generation.stop(rig.now)
    generation.tick(rig.now + TERM)
    wait_ended(generation)
    generation.reap(rig.now)
    assert generation.gone
    assert not generation.failure  # nobody waits for it


def test_slots_that_others_have_are_left_alone(rig: Rig) -> None:
    rig.taken = {0, 2}
    rig.pages.slot(1).claim(1, 1)  # as by another supervisor
    assert [process.slot for process in rig.serving(2).processes] == [3, 4]
    rig.taken = set(range(64))
    with pytest.raises(NoSlot):
        rig.make().start(rig.now)


def test_a_generation_is_healthy_while_somebody_serves_and_nobody_hangs(rig: Rig) -> None:
    generation = rig.serving(2)
    assert generation.healthy(rig.now + 1)
    rig.pages.slot(0).beat(rig.now + HANG)
    assert not generation.healthy(rig.now + HANG + 1)
    kill(generation, 1)
    generation.reap(rig.now)
    assert generation.healthy(rig.now + HANG + 1)
    kill(generation)
    generation.reap(rig.now)
    assert not generation.healthy(rig.now)


def test_new_sizes_are_for_who_comes_later_too(rig: Rig) -> None:
    generation = rig.serving()
    generation.resize(Config(server=Server(hang=1.0)), {"connections": 5})
    assert generation.brief.config.server.hang == 1.0
    assert generation.brief.number == 1
