"""An outcome, made up: 100 requests, one of them lost by a killed worker and one without reason."""

from __future__ import annotations

import pytest

from perf.faults.outcome import Figure, Outcome, Promise, load_of, nothing_lost, nothing_wrong
from perf.faults.tally import Blow, Mishap, Tally


@pytest.fixture
def tally() -> Tally:
    made = Tally(sent=100, right=95)
    made.named[503] = 3
    made.answers = [(float(at), 0.01 * at) for at in range(1, 99)]
    made.lost = [
        Mishap(10.5, 4001, "/a", "reset"),
        Mishap(20.0, 4002, "/b", "closed, 0.01 s after", first=False),
    ]
    return made


@pytest.fixture
def outcome(tally: Tally) -> Outcome:
    load = load_of(tally, 8, [Blow(10.0, frozenset({4001}))])
    promises = (nothing_wrong(load), nothing_lost(load), Promise("it recovers", "it did", True))
    figures = (Figure("killed", 3), Figure("until another one works, worst", 1.5, "s"))
    return Outcome("killing", load, promises, figures)
