"""A course, made up: a rest at 10 MB, ten clients at 20 kB each for six seconds, a rest."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from perf.gigabit.results import Outcome
from perf.gigabit.sample import Second

REST = Second(
    at=1.0,
    seconds=1.0,
    clients=0,
    steady=False,
    wire=0.0,
    payload=0.0,
    drops=0.0,
    user=0.0,
    kernel=0.0,
    softirq=0.0,
    idle=1.0,
    memory=10_000_000,
    sockets=0,
    connections=0,
    system=1_000_000_000,
    taking=0,
    moving=0,
    least=0,
    lost=0,
)
BUSY = replace(
    REST,
    clients=10,
    steady=True,
    wire=125e6,
    payload=118e6,
    user=0.02,
    kernel=0.2,
    softirq=0.1,
    idle=0.6,
    memory=10_050_000,
    sockets=150_000,
    connections=10,
    taking=10,
    moving=10,
    system=1_010_000_000,
)


@pytest.fixture
def rest() -> Second:
    return REST


@pytest.fixture
def busy() -> Second:
    return BUSY


def _course(*, memory: int = BUSY.memory, wire: float = BUSY.wire) -> tuple[Second, ...]:
    ramp = replace(BUSY, steady=False, taking=6, wire=60e6, memory=90_000_000)
    busy = replace(BUSY, memory=memory, wire=wire)
    seconds = [REST, REST, ramp, *[busy] * 6, REST, REST]
    return tuple(replace(second, at=1.0 + at) for at, second in enumerate(seconds))


@pytest.fixture
def course() -> Callable[..., tuple[Second, ...]]:
    return _course


@pytest.fixture
def outcomes() -> dict[str, Outcome]:
    """edgebox as made up, nginx with a slower link and more memory."""
    return {
        "edgebox": Outcome("0.1.0", "[server]", _course(), (10,)),
        "nginx": Outcome("1.22", "sendfile on;", _course(memory=10_300_000, wire=124e6), (10,)),
    }
