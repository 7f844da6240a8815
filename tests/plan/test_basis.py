"""Promises of what the planner starts from: who counts when several say something."""

from __future__ import annotations

import pytest

from edgebox.config.schema import Config
from edgebox.plan.assumptions import Overrides
from edgebox.plan.basis import UNTOLD, Basis, settle
from edgebox.plan.facts import (
    Content,
    Descriptors,
    Disk,
    Facts,
    Link,
    Memory,
    Network,
    Processor,
)


def settled(facts: Facts, **said: object) -> Basis:
    return settle(facts, Config(), Overrides(**said))  # type: ignore[arg-type]


def test_the_least_of_free_group_and_granted_memory_counts() -> None:
    memory = Memory(total=1000, available=800, cgroup_limit=700, cgroup_used=100)
    assert settled(Facts(memory=memory)).memory == 600
    assert settled(Facts(memory=memory), memory=50).memory == 50
    assert settled(Facts(memory=Memory(total=1000))).memory == 1000
    assert settled(Facts()).memory is None


def test_a_group_that_is_over_its_limit_leaves_nothing() -> None:
    memory = Memory(cgroup_limit=100, cgroup_used=200)
    assert settled(Facts(memory=memory)).memory == 0


def test_cpuset_and_quota_count_before_the_machine_s_cores() -> None:
    assert settled(Facts(processor=Processor(cores=8, allowed=4))).cores == 4
    half = settled(Facts(processor=Processor(cores=8, allowed=4, quota=0.5)))
    assert (half.cores, half.whole_cores) == (0.5, 1)


def test_the_hard_limit_counts_because_a_worker_may_raise_its_own() -> None:
    assert settled(Facts(descriptors=Descriptors(soft=1024, hard=4096))).descriptors == 4096
    assert settled(Facts(descriptors=Descriptors(soft=512))).descriptors == 512
    assert settled(Facts(descriptors=Descriptors(hard=10**6, nr_open=10**5))).descriptors == 10**5


def test_what_the_machine_does_not_tell_is_cited_as_such() -> None:
    (cited,) = settled(Facts()).cite("descriptors a process")
    assert (cited.value, cited.source) == (1024, UNTOLD)


def test_the_mean_object_is_as_told_as_counted_or_as_assumed() -> None:
    counted = Facts(content=(Content(path="/a", files=10, directories=1, size=1000),))
    assert settled(counted).object_size == 100
    assert settled(counted, object_size=7).object_size == 7
    assert settled(Facts(content=(*counted.content, Content(path="/b")))).object_size == 26_890


def test_content_is_only_known_when_all_of_it_is() -> None:
    known = Content(path="/a", files=10, directories=1, size=1000)
    assert settled(Facts(content=(known, known))).content == 2000
    assert settled(Facts(content=(known, Content(path="/b")))).content is None


def test_the_slowest_disk_under_the_roots_counts_and_the_cache_s_does_not() -> None:
    nvme, slow = (Disk(path="/", use="root", kind=kind) for kind in ("nvme", "rotating"))  # type: ignore[arg-type]
    cache = Disk(path="/c", use="cache", kind="card")
    assert settled(Facts(disks=(nvme, cache))).disk == "nvme"
    assert settled(Facts(disks=(nvme, slow))).disk == "rotating"
    assert settled(Facts(disks=(nvme, Disk(path="/", use="root")))).disk is None


def test_goodput_is_what_headers_leave_and_half_of_it_on_the_air() -> None:
    def goodput(kind: str) -> float | None:
        link = Link(name="x", kind=kind, up=True, speed=10**9, mtu=1500)  # type: ignore[arg-type]
        return settled(Facts(network=Network(interface="x", links=(link,)))).goodput

    wired = goodput("ethernet")
    assert wired == pytest.approx(1e9 / 8 * 1448 / 1538)
    assert goodput("wireless") == pytest.approx((wired or 0) / 2)


def test_citations_come_in_the_order_asked_for_and_leave_out_what_nobody_said() -> None:
    basis = settled(Facts(memory=Memory(total=5)))
    names = [given.name for given in basis.cite("round trip", "memory.available", "memory.total")]
    assert names == ["round trip", "memory.total"]
