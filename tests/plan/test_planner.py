"""Promises of the planner: total, never negative, within the machine, monotone, and readable."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from edgebox.config.schema import Config, Files, Limits, Nic, Planning, Server
from edgebox.plan.assumptions import Overrides
from edgebox.plan.facts import Facts, decode
from edgebox.plan.figures import Plan, whole
from edgebox.plan.planner import apply, plan, reasons
from edgebox.plan.report import text
from edgebox.plan.shares import LEAST

BOXES = sorted((Path(__file__).parent / "boxes").glob("*.json"))
DEFAULT = Config()
Anything = Callable[[Any], st.SearchStrategy[Any]]


def many(test: Callable[..., None]) -> Callable[..., None]:
    """Over many machines, which takes its time."""
    health = [HealthCheck.too_slow]
    return pytest.mark.slow(
        settings(max_examples=40, deadline=None, suppress_health_check=health)(test)
    )


def values(found: Plan) -> dict[str, int | float | None]:
    return {number.key: number.value for number in found.numbers}


@pytest.mark.parametrize("box", BOXES, ids=lambda path: path.stem)
def test_the_plan_of_a_recorded_box_is_the_one_that_was_read_and_found_right(box: Path) -> None:
    expected = box.with_suffix(".txt").read_text()
    found = text(plan(decode(box.read_bytes()), DEFAULT))
    assert found == expected, "if meant: python tests/plan/boxes/regenerate.py, and read the diff"


def test_every_recorded_box_names_what_runs_out_first_and_next() -> None:
    for box in BOXES:
        found = plan(decode(box.read_bytes()), DEFAULT)
        assert found.bottleneck is not None
        assert found.runner_up is not None
        assert found.bottleneck != found.runner_up


@many
@given(data=st.data())
def test_any_facts_configuration_and_overrides_give_a_plan_without_a_negative_number(
    data: st.DataObject, anything: Anything
) -> None:
    found = plan(
        data.draw(anything(Facts)), data.draw(anything(Config)), data.draw(anything(Overrides))
    )
    for number in found.numbers:
        assert number.value is None or (math.isfinite(number.value) and number.value >= 0), number
    for ceiling in found.ceilings:
        assert ceiling.rate is None or (math.isfinite(ceiling.rate) and ceiling.rate >= 0), ceiling
    assert text(found)
    assert msgspec.json.decode(msgspec.json.encode(found), type=Plan) == found


@many
@given(data=st.data())
def test_equal_facts_give_an_equal_plan_after_a_trip_through_a_file(
    data: st.DataObject, anything: Anything
) -> None:
    facts = data.draw(anything(Facts))
    again = decode(msgspec.json.encode(facts))
    assert plan(facts, DEFAULT) == plan(again, DEFAULT)


@many
@given(data=st.data())
def test_memory_is_never_promised_twice(data: st.DataObject, anything: Anything) -> None:
    facts = data.draw(anything(Facts))
    size = data.draw(st.integers(1, 10**7))
    found = values(plan(facts, DEFAULT, Overrides(connection_size=size)))
    budget = found["memory.budget"]
    if budget is None:
        return
    told = (facts.memory.total, facts.memory.available, facts.memory.cgroup_limit)
    assert all(budget <= limit for limit in told if limit is not None)
    parts = sum(
        found[key] or 0
        for key in ("memory.processes", "files.working_set", "memory.kernel_buffers",
                    "memory.page_cache")
    )  # fmt: skip
    # One connection there must be, and less than a worker and the supervisor there cannot be.
    connections = found["memory.connections"] or 0
    assert parts + (connections if connections > size else 0) <= max(budget, LEAST)


@many
@given(data=st.data())
def test_descriptors_suffice_for_what_is_planned(data: st.DataObject, anything: Anything) -> None:
    facts = data.draw(anything(Facts))
    found = plan(facts, DEFAULT)
    workers = whole(found.number("server.workers"))
    connections = whole(found.number("limits.connections"))
    each = whole(found.number("files.open_files")) / workers + connections / workers
    hard = facts.descriptors.hard
    if hard is not None and connections > 1:
        assert each + min(64, hard // 4) <= hard
        assert whole(found.number("server.descriptors")) <= hard
    system = facts.descriptors.file_max
    assert system is None or connections <= max(1, system)


GROWING_WITH_MEMORY = (
    "memory.budget", "memory.objects", "files.working_set", "limits.connections",
    "memory.kernel_buffers", "limits.send_buffer", "server.workers", "files.open_files",
    "server.backlog", "server.descriptors",
)  # fmt: skip


@many
@given(data=st.data(), more=st.integers(0, 2**40))
def test_more_memory_never_makes_a_share_or_a_limit_smaller(
    data: st.DataObject, more: int, anything: Anything
) -> None:
    facts = data.draw(anything(Facts))
    memory = facts.memory
    grown = replace(
        memory,
        **{
            key: None if value is None else min(value + more, 2**63 - 1)
            for key in ("total", "available", "cgroup_limit")
            for value in [getattr(memory, key)]
        },
    )
    before, after = (values(plan(f, DEFAULT)) for f in (facts, replace(facts, memory=grown)))
    for key in GROWING_WITH_MEMORY:
        if before.get(key) is not None:
            assert (after[key] or 0) >= (before[key] or 0), key


GROWING_WITH_SPEED = (
    "link.goodput", "link.answers", "memory.kernel_buffers", "limits.connections",
    "limits.send_buffer", "server.workers", "files.open_files", "server.backlog",
    "server.descriptors", "memory.objects", "files.working_set",
)  # fmt: skip


@many
@given(data=st.data(), speed=st.integers(1, 10**12), more=st.integers(0, 10**12))
def test_a_faster_link_never_makes_a_limit_or_the_working_set_smaller(
    data: st.DataObject, speed: int, more: int, anything: Anything
) -> None:
    facts = data.draw(anything(Facts))
    before, after = (
        values(plan(facts, DEFAULT, Overrides(speed=s))) for s in (speed, speed + more)
    )
    for key in GROWING_WITH_SPEED:
        if key in before:
            assert (after[key] or 0) >= (before[key] or 0), key


@many
@given(data=st.data(), more=st.integers(0, 2**40))
def test_more_memory_and_a_faster_link_never_lower_what_is_carried(
    data: st.DataObject, more: int, anything: Anything
) -> None:
    facts = data.draw(anything(Facts))
    # The disk is left out: a second worker, for which there is then room, holds a second copy.
    facts = replace(facts, content=())
    memory = replace(facts.memory, total=2**30, available=None, cgroup_limit=None)
    slow = plan(replace(facts, memory=memory), DEFAULT, Overrides(speed=10**8))
    memory = replace(memory, total=2**30 + more)
    fast = plan(replace(facts, memory=memory), DEFAULT, Overrides(speed=10**9))
    assert (fast.ceilings[0].rate or 0) >= (slow.ceilings[0].rate or 0)


def test_apply_fills_every_auto_that_the_plan_knows_and_nothing_else(
    box: Callable[[str], Facts],
) -> None:
    found = plan(box("bare-metal-1g"), DEFAULT)
    filled = apply(found, DEFAULT)
    before, after = msgspec.to_builtins(DEFAULT), msgspec.to_builtins(filled)
    changed = {
        f"{table}.{key}": value
        for table, record in after.items()
        if isinstance(record, dict)
        for key, value in record.items()
        if value != before[table][key]
    }
    assert changed == {
        key: found.value(key)
        for key in ("server.backlog", "server.workers", "limits.connections",
                    "limits.send_buffer", "files.working_set", "files.open_files",
                    "files.watches", "plan.object_size", "plan.round_trip",
                    "plan.connection_size")
    } | {
        "nic.speed": 125_000_000,  # bytes: the file's unit
        "nic.interface": "eno1",
        "plan.memory": found.value("memory.budget"),
    }  # fmt: skip
    assert reasons(found, DEFAULT).keys() == {tuple(key.split(".")) for key in changed}


def test_what_was_planned_and_written_down_is_planned_again(box: Callable[[str], Facts]) -> None:
    for name in ("bare-metal-1g", "container-512m", "ten-gigabit-8-queues"):
        facts = box(name)
        filled = apply(plan(facts, DEFAULT), DEFAULT)
        assert apply(plan(facts, filled), filled) == filled
        again = plan(facts, filled)
        for number in plan(facts, DEFAULT).numbers:
            assert again.value(number.key) == number.value


def test_what_the_file_says_of_the_link_and_of_memory_counts(box: Callable[[str], Facts]) -> None:
    facts = box("virtio-without-speed")
    said = Config(
        nic=Nic(speed=125_000_000),
        plan=Planning(memory=2**29, object_size=5000, round_trip=0.02, connection_size=30_000),
        server=Server(workers=3),
    )
    by_file, by_hand = (
        values(found)
        for found in (
            plan(facts, said),
            plan(
                facts,
                DEFAULT,
                Overrides(speed=10**9, memory=2**29, workers=3, object_size=5000,
                          round_trip=0.02, connection_size=30_000),
            ),
        )
    )  # fmt: skip
    assert by_file == by_hand
    over = plan(facts, said, Overrides(speed=10**8))
    assert over.value("nic.speed") == 10**8
    assert over.number("nic.speed").inputs[0].source == "override"
    assert plan(facts, said).number("nic.speed").inputs[0].source == "edgebox.toml"


def test_apply_leaves_the_operator_s_numbers_alone(box: Callable[[str], Facts]) -> None:
    asked = Config(
        server=Server(backlog=7), limits=Limits(connections=8), files=Files(working_set=9)
    )
    filled = apply(plan(box("bare-metal-1g"), asked), asked)
    assert (filled.server.backlog, filled.limits.connections) == (7, 8)
    assert filled.files.working_set == 9
    assert filled.files.watches is not None


@many
@given(data=st.data())
def test_what_apply_fills_in_is_what_the_schema_allows(
    data: st.DataObject, anything: Anything
) -> None:
    filled = apply(plan(data.draw(anything(Facts)), DEFAULT), DEFAULT)
    assert msgspec.convert(msgspec.to_builtins(filled), Config) == filled


def test_the_operator_s_number_stands_and_the_plan_s_is_told_beside_it(
    box: Callable[[str], Facts],
) -> None:
    asked = Config(limits=Limits(connections=12))
    number = plan(box("container-512m"), asked).number("limits.connections")
    assert (number.value, number.origin) == (12, "configured")
    assert number.planned == plan(box("container-512m"), DEFAULT).value("limits.connections")
    assert "12" not in number.reason
    assert f"{number.planned:,}" in number.reason


def test_a_number_that_rests_on_an_unknown_fact_is_marked_as_assumed() -> None:
    found = plan(Facts(), DEFAULT)
    for key in ("server.workers", "limits.connections", "files.watches", "server.backlog"):
        assert found.number(key).origin == "assumed", key


def test_every_number_shows_a_sum_or_says_that_it_is_unknown(box: Callable[[str], Facts]) -> None:
    for number in plan(box("ten-gigabit-8-queues"), DEFAULT).numbers:
        assert number.reason
        assert number.sum or number.inputs, number.key


def test_a_plan_looks_up_its_numbers_and_ceilings_by_name(box: Callable[[str], Facts]) -> None:
    found = plan(box("wifi"), DEFAULT)
    assert found.value("server.workers") == found.number("server.workers").value
    assert found.ceiling("processor").rate
    with pytest.raises(KeyError):
        found.number("no.such")
    with pytest.raises(KeyError):
        found.ceiling("connection limit")
