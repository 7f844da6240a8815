"""Promises of the calibration: a line through two points, and a child that does not stay."""

from __future__ import annotations

import datetime
import os
import subprocess
import sys

import pytest

from edgebox.plan.assumptions import Costs
from edgebox.plan.calibrate import LARGE, SMALL, calibrate, costs


def test_two_sizes_give_the_fixed_part_and_the_part_a_byte() -> None:
    found = costs(7.3, 11.6, "here")
    assert (found.request, found.byte) == (7.23, 0.163)
    assert found.request + found.byte / 1000 * SMALL == pytest.approx(7.3, abs=0.01)
    assert found.request + found.byte / 1000 * LARGE == pytest.approx(11.6, abs=0.02)


def test_the_prototype_s_points_give_what_is_assumed() -> None:
    assert costs(7.3, 11.6, Costs().source) == Costs()


def test_noise_that_makes_a_large_answer_cheaper_gives_no_negative_cost() -> None:
    found = costs(9.0, 8.0, "noisy")
    assert found.byte == 0
    assert found.request == 9.0
    assert costs(0.0, 100.0, "odd").request > 0


@pytest.mark.slow
def test_a_measurement_gives_costs_of_this_box_and_leaves_nothing_behind() -> None:
    before = set(os.listdir("/proc/self/fd"))
    found = calibrate(datetime.date(2027, 1, 2), seconds=0.05)
    assert found.source == "measured here over loopback, 2027-01-02"
    assert found.request > 0
    assert found.task > found.request
    assert set(os.listdir("/proc/self/fd")) == before


@pytest.mark.slow
def test_the_child_ends_when_its_parent_is_gone() -> None:
    child = subprocess.Popen(
        [sys.executable, "-m", "edgebox.plan.calibrate"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with child:
        assert child.stdout is not None
        assert int(child.stdout.readline()) > 0
        assert child.stdin is not None
        child.stdin.close()
        assert child.wait(10) == 0
