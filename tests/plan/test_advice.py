"""Promises of the advice: exact commands, a gain that the planner itself bears out, no noise."""

from __future__ import annotations

import re
from collections.abc import Callable

from edgebox.config.schema import Config, Files, Limits, Server
from edgebox.plan.facts import Facts
from edgebox.plan.figures import Advice, Plan
from edgebox.plan.planner import plan

Box = Callable[[str], Facts]
Changed = Callable[..., Facts]


def about(found: Plan, topic: str) -> Advice | None:
    return next((advice for advice in found.advice if advice.topic == topic), None)


def test_raising_descriptors_as_advised_gives_the_connections_it_promises(
    box: Box, changed: Changed
) -> None:
    facts = box("board-100m")
    advice = about(plan(facts, Config()), "descriptors")
    assert advice is not None
    need = int(advice.commands[1].removeprefix("systemd: LimitNOFILE="))
    then = plan(changed(facts, "descriptors", hard=need), Config())
    assert advice.gain == f"limits.connections from 3,520 to {then.value('limits.connections'):,}"
    assert about(then, "descriptors") is None


def test_descriptors_that_memory_could_not_use_are_not_asked_for(box: Box) -> None:
    assert about(plan(box("container-512m"), Config()), "descriptors") is None


def test_the_send_buffer_line_removes_its_own_reason(box: Box, changed: Changed) -> None:
    facts = box("bare-metal-1g")
    advice = about(plan(facts, Config()), "send buffer")
    assert advice is not None
    line = re.fullmatch(r'sysctl -w net\.ipv4\.tcp_wmem="(\d+) (\d+) (\d+)"', advice.commands[0])
    assert line is not None
    wmem = tuple(int(number) for number in line.groups())
    then = plan(changed(facts, "network", tcp_wmem=wmem), Config())
    assert about(then, "send buffer") is None


def test_a_rate_just_below_the_link_is_advised_where_one_worker_has_all_of_it(box: Box) -> None:
    facts = box("bare-metal-1g")
    found = plan(facts, Config())
    advice = about(found, "a full link")
    assert advice is not None
    assert advice.commands == ('edgebox.toml: [limits] server_rate = "117.1 MB/s"',)
    assert 0.99 * (found.value("link.goodput") or 0) < 117_100_000 < 117_685_305
    taken = Config(limits=Limits(server_rate=117_100_000))
    assert about(plan(facts, taken), "a full link") is None
    assert about(plan(box("ten-gigabit-8-queues"), Config()), "a full link") is None
    assert about(plan(box("virtio-without-speed"), Config()), "a full link") is None


def test_a_short_accept_queue_is_told_with_the_time_it_stands_for(box: Box) -> None:
    advice = about(plan(box("board-100m"), Config()), "accept queue")
    assert advice is not None
    assert advice.commands == ("sysctl -w net.core.somaxconn=4096",)
    assert "2.69 ms" in advice.gain


def test_watches_are_asked_for_when_there_are_more_directories(box: Box, changed: Changed) -> None:
    facts = box("board-100m")
    advice = about(plan(facts, Config()), "inotify watches")
    assert advice is not None
    enough = int(advice.commands[0].rpartition("=")[2])
    then = changed(facts, "inotify", watches=enough)
    assert about(plan(then, Config()), "inotify watches") is None
    by_time = Config(files=Files(stat_cache="ttl"))
    assert about(plan(facts, by_time), "inotify watches") is None


def test_a_worker_without_an_inotify_instance_is_told(box: Box, changed: Changed) -> None:
    facts = changed(box("ten-gigabit-8-queues"), "inotify", instances=2)
    advice = about(plan(facts, Config()), "inotify instances")
    assert advice is not None
    assert advice.gain.startswith("3 workers more")


def test_a_link_that_could_be_faster_is_told(box: Box) -> None:
    advice = about(plan(box("bad-cable"), Config()), "link speed")
    assert advice is not None
    assert "could at 1 Gbit/s" in advice.problem
    assert advice.gain == "10 times the link"


def test_an_unknown_link_is_to_be_told(box: Box) -> None:
    advice = about(plan(box("virtio-without-speed"), Config()), "link speed")
    assert advice is not None
    assert "edgebox plan --nic 1G" in advice.commands


def test_numbers_set_beyond_what_the_machine_bears_are_told(box: Box) -> None:
    asked = Config(
        limits=Limits(connections=10**6),
        files=Files(working_set=2**40, open_files=10**6, watches=10**6),
        server=Server(backlog=10**6),
    )
    found = plan(box("container-512m"), asked)
    for key in ("limits.connections", "files.working_set", "files.open_files", "files.watches",
                "server.backlog"):  # fmt: skip
        advice = about(found, key)
        assert advice is not None, key
        assert advice.commands == (f"edgebox.toml: leave {key} out",)


def test_numbers_set_within_what_the_machine_bears_are_not(box: Box) -> None:
    asked = Config(limits=Limits(connections=10), files=Files(working_set=10))
    topics = {advice.topic for advice in plan(box("container-512m"), asked).advice}
    assert not topics & {"limits.connections", "files.working_set"}


def test_a_machine_too_small_for_edgebox_is_told(box: Box, changed: Changed) -> None:
    facts = changed(box("container-512m"), "memory", cgroup_limit=32 * 1024**2)
    advice = about(plan(facts, Config()), "memory")
    assert advice is not None
    assert "96 MiB" in advice.gain


def test_sockets_short_of_memory_are_told(box: Box, changed: Changed) -> None:
    facts = changed(box("bare-metal-1g"), "network", tcp_mem=(100, 200, 300))
    advice = about(plan(facts, Config()), "TCP memory")
    assert advice is not None
    assert re.fullmatch(r'sysctl -w net\.ipv4\.tcp_mem="\d+ \d+ \d+"', advice.commands[0])


def test_slow_start_is_only_worth_a_word_where_it_costs_a_visible_part(
    box: Box, changed: Changed
) -> None:
    assert about(plan(box("bare-metal-1g"), Config()), "slow start") is not None
    assert about(plan(box("bonded-pair"), Config()), "slow start") is None
    off = changed(box("bare-metal-1g"), "network", slow_start_after_idle=False)
    assert about(plan(off, Config()), "slow start") is None
