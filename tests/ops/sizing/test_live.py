"""Promises of the live plan: what changes is planned for, what flaps is waited out."""

from __future__ import annotations

import json
import os
import selectors
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from edgebox.config.schema import Config, Limits
from edgebox.observe.pages import Pages
from edgebox.ops.sizing import live
from edgebox.ops.sizing.live import FLAPPING, POLL, QUIET, SETTLE, Live, differences, measure
from edgebox.ops.sizing.sizing import Sized, size
from edgebox.plan import cgroup
from edgebox.plan.facts import Facts, decode
from edgebox.plan.gather import Subject
from edgebox.plan.measured import Running

BARE = decode((Path(__file__).parents[2] / "plan/boxes/bare-metal-1g.json").read_bytes())
GIB, MIB = 2**30, 2**20


class Child:
    """In place of one that looks at the machine: it tells what the test says."""

    facts: Facts = BARE
    stuck = False
    started = 0

    def __init__(self, _: object) -> None:
        type(self).started += 1
        self.end, self._begin = os.pipe()
        if not self.stuck:
            os.write(self._begin, b"told")

    def fileno(self) -> int:
        return self.end

    def finish(self, seconds: float) -> Facts:
        self.abandon()
        return self.facts

    def abandon(self) -> None:
        os.close(self.end)
        os.close(self._begin)


class Rig:
    """A Live whose clock and machine are the test's."""

    def __init__(self, config: Config) -> None:
        self.now = 1000.0
        self.running: Running | None = None
        self.plans: list[tuple[Sized, str]] = []
        self.selector = selectors.DefaultSelector()
        self.live = Live(
            self.selector, BARE, config,
            lambda sized, line: self.plans.append((sized, line)),
            lambda: self.running, lambda: self.now,
        )  # fmt: skip

    def run(self, seconds: float) -> list[str]:
        """So many seconds, a turn each; the lines that came of it."""
        before = len(self.plans)
        for _ in range(int(seconds)):
            self.now += 1
            self.live.turn()
            for key, mask in self.selector.select(0):
                key.data(mask)
        return [line for _, line in self.plans[before:]]


@pytest.fixture
def make(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Rig]]:
    monkeypatch.setattr(live, "Gathering", Child)
    monkeypatch.setattr(live, "resident", lambda _: 0)
    monkeypatch.setattr(cgroup, "limits", lambda: cgroup.Limits(memory=None))
    monkeypatch.setattr(cgroup, "pressure", lambda: Path("/nowhere"))
    Child.facts, Child.stuck, Child.started = BARE, False, 0
    rigs: list[Rig] = []

    def start(config: Config | None = None) -> Rig:
        rigs.append(Rig(config or Config()))
        return rigs[-1]

    yield start
    for rig in rigs:
        rig.live.close()
        assert not rig.selector.get_map()
        rig.selector.close()


@pytest.fixture
def rig(make: Callable[..., Rig]) -> Rig:
    return make()


def at_speed(speed: int | None, up: bool = True) -> Facts:
    (link,) = BARE.network.links
    links = (replace(link, speed=speed, up=up),)
    return replace(BARE, network=replace(BARE.network, links=links))


def with_memory(available: int) -> Facts:
    return replace(BARE, memory=replace(BARE.memory, available=available))


def test_a_slower_link_is_planned_for_and_told_in_one_line(rig: Rig) -> None:
    Child.facts = at_speed(100_000_000)
    rig.live._link_changed("eno1")
    (line,) = rig.run(SETTLE + 2)
    assert line == "re-planned: link eno1 now 100 Mbit/s: connections 117,685 → 11,768"
    sized, _ = rig.plans[-1]
    assert sized.whole.limits.connections == 11_768
    assert not rig.run(20)


def test_what_changes_nothing_is_not_told(rig: Rig) -> None:
    rig.live._link_changed("eno1")
    assert not rig.run(20)
    assert Child.started == 1


def test_another_interface_is_not_ours(rig: Rig) -> None:
    rig.live._link_changed("docker0")
    assert not rig.run(20)
    assert Child.started == 0


def test_flaps_are_waited_out_but_not_for_ever(rig: Rig) -> None:
    for _ in range(int(FLAPPING) - 2):
        rig.live._link_changed("eno1")
        rig.run(1)
    assert Child.started == 0
    for _ in range(4):
        rig.live._link_changed("eno1")
        rig.run(1)
    assert Child.started == 1


def test_a_cable_that_is_out_says_nothing_of_the_speed_but_memory_still_counts(rig: Rig) -> None:
    Child.facts = at_speed(None, up=False)
    rig.live._link_changed("eno1")
    assert not rig.run(10)
    Child.facts = replace(Child.facts, memory=with_memory(2 * GIB).memory)
    rig.live._pressed()
    (line,) = rig.run(3)
    assert "memory pressure: connections" in line
    assert rig.plans[-1][0].plan.value("nic.speed") == 10**9


def test_pressure_shrinks_at_once_and_quiet_lets_it_grow_again(rig: Rig) -> None:
    before = size(Config(), BARE).whole.files.working_set
    Child.facts = with_memory(4 * GIB)
    rig.live._pressed()
    (line,) = rig.run(2)
    assert "working set" in line
    assert rig.plans[-1][0].whole.files.working_set < 2 * GIB  # type: ignore[operator]
    Child.facts = BARE
    assert not rig.run(QUIET - 10)
    (line,) = rig.run(QUIET)
    assert line.startswith("re-planned: available memory: ")
    assert rig.plans[-1][0].whole.files.working_set == before


def test_memory_that_was_short_at_the_start_is_looked_at_once_more(rig: Rig) -> None:
    rig.live.adopt(with_memory(4 * GIB), Config())
    (line,) = rig.run(QUIET + POLL + 2)
    assert line.startswith("re-planned: available memory: ")
    assert not rig.run(3 * QUIET)
    assert Child.started == 1


def test_lasting_pressure_is_looked_at_ever_less_often_while_that_changes_nothing(
    rig: Rig,
) -> None:
    looks = []
    for _ in range(600):
        rig.live._pressed()
        assert not rig.run(1)
        looks.append(Child.started)
    assert looks[8] == 1
    assert looks[20] == 2
    assert 4 <= looks[-1] <= 8
    Child.facts = with_memory(4 * GIB)
    for _ in range(int(QUIET) + 2):
        rig.live._pressed()
        rig.run(1)
    assert len(rig.plans) == 1


def test_a_moved_memory_limit_is_seen(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cgroup, "limits", lambda: cgroup.Limits(memory=GIB))
    Child.facts = replace(BARE, memory=replace(BARE.memory, cgroup_limit=GIB, cgroup_used=0))
    (line,) = rig.run(POLL + SETTLE + 3)
    assert line.startswith("re-planned: memory limit now 1 GiB: connections ")
    assert not rig.run(20)


def test_connections_that_take_more_than_was_thought_are_planned_with(rig: Rig) -> None:
    Child.facts = with_memory(4 * GIB)
    rig.live.adopt(Child.facts, Config())
    rig.running = Running(connections=1, resident=50 * MIB, held=0, sockets=0)
    rig.run(POLL + 1)
    rig.running = Running(connections=5001, resident=290 * MIB, held=0, sockets=0)
    (line,) = rig.run(2 * POLL + SETTLE + 3)
    assert line.startswith("re-planned: a connection takes 50,331 B: ")
    assert rig.plans[-1][0].plan.value("plan.connection_size") == 50_331
    assert not rig.run(60)
    assert Child.started == 1


def test_their_number_stays_and_what_a_reload_would_have_is_told(rig: Rig) -> None:
    Child.facts = replace(
        at_speed(10**11),
        memory=with_memory(4 * GIB).memory,
        processor=replace(BARE.processor, cores=16, allowed=None, quota=None),
    )
    rig.live._link_changed("eno1")
    (line,) = rig.run(SETTLE + 2)
    assert line.endswith("; a reload would have 16 workers")
    assert rig.plans[-1][0].workers == 1


def test_the_operator_s_own_numbers_do_not_move(make: Callable[..., Rig]) -> None:
    rig = make(Config(limits=Limits(connections=100)))
    Child.facts = at_speed(100_000_000)
    rig.live._link_changed("eno1")
    assert not rig.run(10)


def test_a_child_that_is_stuck_is_given_up_for_what_the_system_says(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[bool] = []

    def gather(subject: Subject, *, netlink: bool) -> Facts:
        asked.append(netlink)
        return at_speed(100_000_000)

    monkeypatch.setattr(live, "gather", gather)
    Child.stuck = True
    rig.live._link_changed("eno1")
    (line,) = rig.run(SETTLE + live.PATIENCE + 3)
    assert "100 Mbit/s" in line
    assert asked == [False]


def test_a_reload_is_what_the_next_change_is_measured_by(rig: Rig) -> None:
    rig.live.adopt(at_speed(100_000_000), Config())
    Child.facts = at_speed(100_000_000)
    rig.live._link_changed("eno1")
    assert not rig.run(10)


def test_small_differences_are_no_news() -> None:
    sized = size(Config(), BARE)
    (available,) = {BARE.memory.available}
    assert available is not None
    assert differences(sized, size(Config(), with_memory(int(available * 0.97)))) == []
    assert differences(sized, size(Config(), with_memory(available // 2)))


def test_what_runs_is_read_from_the_pages() -> None:
    pages = Pages.create()
    try:
        slot = pages.slot(3)
        slot.claim(os.getpid(), 1)
        slot.publish({"connections": 7, "ram_held": 1000}, {}, b"{}")
        running = measure(pages)
        assert (running.connections, running.held) == (7, 1000)
        assert running.resident > MIB
    finally:
        pages.close()


@pytest.mark.slow
def test_real_links_are_followed_and_flaps_looked_at_once() -> None:
    if os.geteuid() or shutil.which("ip") is None or shutil.which("tc") is None:
        pytest.skip("needs root, ip and tc: apt-get install iproute2")
    name = f"edgebox-live-{os.getpid()}"
    subprocess.run(["ip", "netns", "add", name], check=True)
    try:
        done = subprocess.run(
            ["ip", "netns", "exec", name, sys.executable, Path(__file__).parent / "relink.py"],
            capture_output=True, timeout=120,
        )  # fmt: skip
    finally:
        subprocess.run(["ip", "netns", "delete", name], check=True)
    assert done.returncode == 0, done.stderr.decode()
    told = json.loads(done.stdout)
    (slower,), (faster,) = told["slower"], told["faster"]
    assert slower.startswith("re-planned: link va now 100 Mbit/s: connections ")
    assert faster.startswith("re-planned: link va now 1 Gbit/s: connections ")
    assert (told["flaps"], told["speed gone"]) == ([], [])
    assert (told["looks at flaps"], told["looks at others"]) == (1, 0)
    assert told["left in the selector"] == 0
