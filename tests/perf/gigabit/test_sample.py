"""What /proc says is read right, and two looks become rates by the time between them."""

from __future__ import annotations

import os

import pytest

from perf.gigabit.client import Count
from perf.gigabit.network import Wire
from perf.gigabit.sample import (
    TICK,
    Core,
    Cpu,
    Look,
    between,
    cpu_of,
    read_core,
    read_from_disk,
    read_used,
)

STAT = """\
cpu  100 0 200 3000 5 0 60 7 0 0
cpu0 10 0 20 300 1 0 6 0 0 0
cpu1 90 0 180 2700 4 0 54 7 0 0
intr 1 2 3
"""
MEMINFO = """\
MemTotal:       1000 kB
MemFree:         300 kB
MemAvailable:    700 kB
Buffers:          50 kB
Cached:          250 kB
SReclaimable:    100 kB
HugePages_Total:       0
"""


def test_a_core_is_told_from_the_sum_of_all() -> None:
    assert read_core(STAT, 0) == Core(softirq=6 / TICK, idle=300 / TICK)
    assert read_core(STAT, None) == Core(softirq=60 / TICK, idle=3000 / TICK)
    assert read_core(STAT, 7) == Core(0.0, 0.0)


def test_memory_in_use_leaves_out_what_is_only_cached() -> None:
    assert read_used(MEMINFO) == 300 * 1024


def test_user_and_kernel_time_grow_with_work() -> None:
    before = cpu_of([os.getpid()])
    deadline = os.times().user + 0.05
    while os.times().user < deadline:
        sum(range(10_000))
    after = cpu_of([os.getpid()])
    assert after.user > before.user
    assert after.kernel >= before.kernel


def test_what_a_process_read_from_disk_is_a_number_that_only_grows() -> None:
    assert 0 <= read_from_disk([os.getpid()]) <= read_from_disk([os.getpid()])


def test_between_two_looks_lie_rates_and_the_later_levels() -> None:
    before = Look(
        at=10.0,
        wire=Wire(1000, 1),
        cpu=Cpu(1.0, 2.0),
        core=Core(3.0, 4.0),
        memory=50,
        sockets=60,
        connections=7,
        system=80,
        clients=Count(9, 500, 9, 1, 9, 0),
    )
    after = Look(
        at=12.0,
        wire=Wire(3000, 5),
        cpu=Cpu(1.1, 2.4),
        core=Core(3.2, 5.0),
        memory=51,
        sockets=61,
        connections=8,
        system=81,
        clients=Count(10, 2300, 8, 2, 10, 1),
    )
    second = between(before, after, began=2.0, clients=10, steady=True)
    assert (second.at, second.seconds, second.clients, second.steady) == (10.0, 2.0, 10, True)
    assert (second.wire, second.payload, second.drops) == (1000.0, 900.0, 2.0)
    rates = (second.user, second.kernel, second.softirq, second.idle)
    assert rates == pytest.approx((0.05, 0.2, 0.1, 0.5))
    assert (second.memory, second.sockets, second.connections, second.system) == (51, 61, 8, 81)
    assert (second.taking, second.moving, second.least, second.lost) == (10, 8, 2, 1)
