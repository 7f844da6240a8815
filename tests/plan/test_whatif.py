"""Promises of what-if: a purchase changes what it would change, and a slip is explained."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from edgebox.config.schema import Config
from edgebox.plan.assumptions import Overrides
from edgebox.plan.facts import Facts, Memory
from edgebox.plan.planner import plan
from edgebox.plan.whatif import CHANGES, WhatIfError, change, parse_memory, parse_speed

NONE = Overrides()
GIB = 1024**3


def test_a_faster_card_and_more_memory_are_planned_for(box: Callable[[str], Facts]) -> None:
    facts = box("bare-metal-1g")
    found = plan(*_planned("nic=10G,ram=64G", facts))
    now = plan(facts, Config())
    assert found.value("nic.speed") == 10**10
    assert (found.value("memory.budget") or 0) > (now.value("memory.budget") or 0)


def test_what_others_use_stays_in_use() -> None:
    facts = Facts(memory=Memory(total=8 * GIB, available=5 * GIB))
    changed, _ = change("ram=16G", facts, NONE)
    assert (changed.memory.total, changed.memory.available) == (16 * GIB, 13 * GIB)


def test_less_memory_than_is_in_use_leaves_none() -> None:
    facts = Facts(memory=Memory(total=8 * GIB, available=2 * GIB))
    assert change("ram=4G", facts, NONE)[0].memory.available == 0


def test_a_control_group_s_limit_holds_unless_it_is_named(box: Callable[[str], Facts]) -> None:
    facts = box("container-512m")
    same = plan(*_planned("ram=1T", facts)).value("memory.budget")
    assert same == plan(facts, Config()).value("memory.budget")
    assert (plan(*_planned("limit=2G", facts)).value("memory.budget") or 0) > (same or 0)


def test_every_change_takes_its_own_example(box: Callable[[str], Facts]) -> None:
    facts = box("bonded-pair")
    for key, known in CHANGES.items():
        assert change(f"{key}={known.example}", facts, NONE) != (facts, NONE), key


def test_cores_lift_the_cpuset_and_the_quota_with_them(box: Callable[[str], Facts]) -> None:
    changed, _ = change("cores=8", box("container-512m"), NONE)
    assert (changed.processor.cores, changed.processor.quota) == (8, None)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("nik=10G", "did you mean nic?"),
        ("zzz=1", "there are nic, ram"),
        ("nic", "as nic=10G"),
        ("nic=", "as nic=10G"),
        ("", "cannot change ''"),
        ("nic=fast", "nic=fast"),
        ("nic=10 Mb/s", "unknown unit"),
        ("nic=0", "between 1"),
        ("ram=99999999T", "between 1"),
        ("disk=tape", "nvme"),
        ("cores=two", "a number is wanted"),
        ("rtt=0s", "from 1ms"),
        ("rtt=2h", "to an hour"),
        ("object=0", "between 1"),
    ],
)
def test_a_slip_is_told_with_what_could_be_meant(text: str, says: str) -> None:
    with pytest.raises(WhatIfError) as told:
        change(text, Facts(), NONE)
    assert says in str(told.value)


@pytest.mark.parametrize(
    ("text", "bits"),
    [("1G", 10**9), ("2.5G", 2_500_000_000), ("100M", 10**8), ("10 Gbit/s", 10**10),
     ("125 MB/s", 10**9)],
)  # fmt: skip
def test_speeds_are_read_as_on_a_price_list(text: str, bits: int) -> None:
    assert parse_speed(text) == bits


@pytest.mark.parametrize(
    ("text", "octets"),
    [("64G", 64 * GIB), ("512M", 512 * 1024**2), ("64 GiB", 64 * GIB), ("64 GB", 64 * 10**9)],
)
def test_memory_is_read_as_it_is_sold(text: str, octets: int) -> None:
    assert parse_memory(text) == octets


def _planned(text: str, facts: Facts) -> tuple[Facts, Config, Overrides]:
    changed, overrides = change(text, facts, NONE)
    return changed, Config(), overrides
