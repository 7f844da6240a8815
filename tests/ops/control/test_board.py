from __future__ import annotations

import msgspec

from edgebox.config.schema import Config
from edgebox.ops.control.board import plan_sheet
from edgebox.plan.facts import Facts, Link, Network
from edgebox.plan.planner import plan


def test_the_plan_is_told_with_what_runs_out_first() -> None:
    link = Link(name="eno1", kind="ethernet", speed=10**9, mtu=1500)
    found = plan(Facts(network=Network(interface="eno1", links=(link,))), Config())
    sheet = plan_sheet(found)
    assert sheet["interface"] == "eno1"
    assert sheet["speed"] == 10**9
    goodput = sheet["goodput"]
    assert isinstance(goodput, int)
    assert 115_000_000 < goodput < 120_000_000
    ceilings = sheet["ceilings"]
    assert isinstance(ceilings, list)
    assert ceilings[0][0] == sheet["bottleneck"]
    msgspec.json.encode(sheet)


def test_a_machine_that_tells_nothing_has_a_sheet_too() -> None:
    sheet = plan_sheet(plan(Facts(), Config()))
    assert sheet["goodput"] is None
    assert sheet["ceilings"]
