"""How one server is doing, from how it answers and from what checks find.

A value and the functions that give the next one; time comes in as `now`. Two things are
kept apart: answers to requests can put a server aside for a while (passive ejection), and
only checks can say that it is down and that it is up again (active health).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum


@dataclass(frozen=True, slots=True)
class HealthRules:
    """`fail_after` failures in a row eject for `eject_for` seconds; 0 failures never do.

    `healthy_after` good checks in a row bring a server up, `unhealthy_after` bad ones down.
    """

    fail_after: int
    eject_for: float
    healthy_after: int
    unhealthy_after: int


class Standing(Enum):
    """Whether a server may be asked."""

    UP = "up"
    TRIAL = "on trial"  # was ejected, its time is over: one request may try
    EJECTED = "ejected"  # failed requests lately
    DOWN = "down"  # failed its checks


@dataclass(frozen=True, slots=True)
class Health:
    """`failures`: requests failed in a row. `ejected_until`: 0 when it is not ejected.

    `down`: as the checks see it; `checks`: how many in a row said the opposite.
    """

    failures: int = 0
    ejected_until: float = 0.0
    down: bool = False
    checks: int = 0

    def standing(self, now: float) -> Standing:
        if self.down:
            return Standing.DOWN
        if not self.ejected_until:
            return Standing.UP
        return Standing.EJECTED if now < self.ejected_until else Standing.TRIAL


FINE = Health()


def answered(health: Health) -> Health:
    """After a request that was answered, whatever the status."""
    if not health.failures and not health.ejected_until:
        return health
    fine = replace(health, failures=0, ejected_until=0.0)
    return FINE if fine == FINE else fine  # most are, and `is` is quick


def failed(health: Health, rules: HealthRules, now: float) -> Health:
    """After a request that failed. One that fails on trial ejects again at once."""
    failures = health.failures + 1
    on_trial = bool(health.ejected_until)
    if rules.fail_after and (on_trial or failures >= rules.fail_after):
        return replace(health, failures=failures, ejected_until=now + rules.eject_for)
    return replace(health, failures=failures)


def begin_trial(health: Health, rules: HealthRules, now: float) -> Health:
    """When a server on trial is asked: others wait for the outcome, at most a term more."""
    return replace(health, ejected_until=now + rules.eject_for)


def checked(health: Health, good: bool, rules: HealthRules) -> Health:
    """After a check. A server that comes up has its failures forgotten."""
    if good is not health.down:  # what was known already
        return replace(health, checks=0) if health.checks else health
    checks = health.checks + 1
    if checks < (rules.healthy_after if good else rules.unhealthy_after):
        return replace(health, checks=checks)
    return FINE if good else replace(health, down=True, checks=0)
