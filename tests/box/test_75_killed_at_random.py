"""A short turn of `make faults`: processes die at random, and what that costs is bounded."""

from __future__ import annotations

from pathlib import Path

import pytest

from perf.faults.box import make_place, running_app, running_box, targets_of
from perf.faults.killing import kill_at_random
from perf.faults.report import broken

pytestmark = pytest.mark.slow


def test_deaths_at_random_cost_only_what_was_in_hand_and_all_comes_back(tmp_path: Path) -> None:
    place = make_place(tmp_path / "box")
    with running_app() as app, running_box(place, app) as box:
        outcome = kill_at_random(box, app, targets_of(place.root), seconds=8)
    assert broken([outcome]) == []
    assert outcome.load is not None
    assert outcome.load.right > 100
