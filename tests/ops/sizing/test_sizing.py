"""Promises of sizing: whatever the machine tells, nothing is left to decide, and shares add up."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from edgebox.config.checks import check
from edgebox.config.schema import Config, Files, Limits, Route, Server, Site
from edgebox.config.upstreams import Upstream
from edgebox.ops.sizing import sizing
from edgebox.ops.sizing.sizing import share, size, subject, with_ours
from edgebox.plan.facts import Descriptors, Facts, Memory, decode
from edgebox.plan.gathering import Gathering

BOXES = Path(__file__).parents[2] / "plan" / "boxes"
BARE = decode((BOXES / "bare-metal-1g.json").read_bytes())
GIB = 2**30


def test_nothing_is_left_to_decide_on_any_recorded_box() -> None:
    for box in BOXES.glob("*.json"):
        sized = size(Config(), decode(box.read_bytes()))
        for config in (sized.whole, sized.worker):
            plain = msgspec.to_builtins(config)
            decided = ("server", "limits", "files", "compression", "cache", "log")
            assert all(v is not None for table in decided for v in plain[table].values()), box
            assert msgspec.convert(plain, Config) == config
            assert not list(check(config))


def test_the_plan_s_numbers_are_in_force() -> None:
    sized = size(Config(), BARE)
    assert sized.whole.limits.connections == sized.plan.value("limits.connections")
    assert sized.whole.files.working_set == sized.plan.value("files.working_set")
    assert sized.workers == sized.plan.value("server.workers")
    assert sized.reasons["server", "workers"] == sized.plan.number("server.workers").reason


def test_what_the_operator_says_stands_and_has_no_reason() -> None:
    asked = Config(server=Server(workers=3), limits=Limits(connections=30))
    sized = size(asked, BARE)
    assert (sized.workers, sized.whole.limits.connections) == (3, 30)
    assert sized.worker.limits.connections == 10
    assert ("limits", "connections") not in sized.reasons


@given(
    workers=st.integers(1, 200),
    connections=st.integers(1, 10**6),
    working_set=st.integers(0, 2**40),
    open_files=st.integers(0, 10**5),
)
def test_the_shares_of_all_workers_are_not_more_than_the_whole_unless_one_each_is(
    workers: int, connections: int, working_set: int, open_files: int
) -> None:
    asked = Config(
        limits=Limits(connections=connections, server_rate=10**6),
        files=Files(working_set=working_set, open_files=open_files, watches=5),
        upstream={"app": Upstream(servers=("http://a",), connections=7, keep_alive=0)},
    )
    one = share(asked, workers)
    for whole, part in (
        (connections, one.limits.connections),
        (working_set, one.files.working_set),
        (open_files, one.files.open_files),
        (5, one.files.watches),
        (7, one.upstream["app"].connections),
        (10**6, one.limits.server_rate),
    ):
        assert part is not None
        assert part * workers <= max(whole, workers)
        assert bool(part) == bool(whole)
    assert one.upstream["app"].keep_alive == 0


def test_what_is_said_of_one_client_or_of_the_disk_is_not_divided() -> None:
    whole = size(Config(), BARE).whole
    one = share(whole, 4)
    assert one.limits.send_buffer == whole.limits.send_buffer
    assert one.limits.server_rate == 0
    assert (one.cache, one.compression) == (whole.cache, whole.compression)
    assert share(whole, 1) == whole


def test_memory_that_our_own_processes_hold_is_there_for_the_next_plan() -> None:
    memory = Memory(total=8 * GIB, available=3 * GIB, cgroup_limit=4 * GIB, cgroup_used=2 * GIB)
    facts = with_ours(Facts(memory=memory), GIB)
    assert facts.memory.available == 4 * GIB
    assert facts.memory.cgroup_used == GIB
    assert with_ours(Facts(memory=memory), 100 * GIB).memory.available == 8 * GIB
    assert with_ours(Facts(memory=memory), 100 * GIB).memory.cgroup_used == 0
    assert with_ours(Facts(), GIB) == Facts()


def test_the_machine_is_looked_at_for_what_is_served_and_kept() -> None:
    site = Site(root="/srv")
    asked = Config(
        server=Server(listen=("192.0.2.1:80",)), site=(site, replace(site, hosts=("a",)))
    )
    wanted = subject(asked)
    assert (wanted.listen, wanted.roots) == (("192.0.2.1:80",), ("/srv",))
    assert wanted.cache


@pytest.mark.slow
def test_this_machine_is_sized_and_netlink_s_library_stays_out_of_the_process() -> None:
    program = (
        "import sys; from edgebox.config.schema import Config;"
        "from edgebox.ops.sizing.sizing import size;"
        "sized = size(Config());"
        "print('pyroute2' in sys.modules, 'trio' in sys.modules, sized.workers > 0)"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert ran.stdout.split() == ["False", "False", "True"], ran.stderr


def dead(*_: object) -> Gathering:
    raise OSError("no process to be had")


class Stuck:
    """A child that does not tell in time."""

    def __init__(self, _: object) -> None: ...

    def finish(self, seconds: float) -> Facts:
        raise subprocess.TimeoutExpired("gather", seconds)


@pytest.mark.parametrize("child", [dead, Stuck], ids=["dead", "stuck"])
def test_a_server_is_sized_even_where_no_child_can_tell(
    child: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sizing, "Gathering", child)
    sized = size(Config())
    assert sized.whole.limits.connections
    assert sized.facts.memory.total


def test_no_child_is_asked_where_the_file_says_all(monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(_: object) -> Gathering:
        raise AssertionError("a child was started")

    monkeypatch.setattr(sizing, "Gathering", forbidden)
    asked = Config(
        server=Server(workers=1, backlog=10),
        limits=Limits(connections=10, send_buffer=65536),
        files=Files(working_set=GIB, open_files=10),
    )
    assert size(asked).whole.files.working_set == GIB
    with pytest.raises(AssertionError):
        size(replace(asked, server=Server(workers=1)))


def test_descriptors_that_upstreams_need_are_counted() -> None:
    few = replace(BARE, descriptors=Descriptors(soft=1000, hard=1000))
    site = Site(route=(Route(upstream="http://a"),))
    alone, passed_on = (
        size(config, few).whole.limits.connections or 0
        for config in (Config(), Config(site=(site,)))
    )
    assert passed_on <= alone // 2 + 1


def test_one_line_says_what_was_made_of_the_machine() -> None:
    assert size(Config(), BARE).summary() == (
        "planned for eno1 at 1 Gbit/s: 1 worker, 117,685 connections, 14.34 GiB of RAM for"
        " objects; first to run out: the link"
    )
    assert "unknown speed" in size(Config(), Facts()).summary()
