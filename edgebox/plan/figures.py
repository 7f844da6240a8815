"""What a plan is made of: numbers that show their sums, ceilings, and advice.

Frozen records without behaviour beyond looking things up, so that `plan`'s JSON is these
records and nothing else.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from edgebox.plan.facts import Record, Via
from edgebox.plan.quantity import Unit, Value, written

Origin = Literal[
    "planned",  # worked out from facts
    "assumed",  # the facts it needs are unknown: a cautious default
    "configured",  # the operator's own number stands
]
Resource = Literal[
    "link", "processor", "disk", "descriptors", "memory for connections", "connection limit"
]


class Input(Record, frozen=True, kw_only=True):
    """A number that a sum starts from, and who says so."""

    name: str  # "memory.available", "limits.send_rate", "round trip"
    value: Value
    unit: Unit = ""
    source: str  # "the machine", "edgebox.toml", "override", or where an assumption is from


class Number(Record, frozen=True, kw_only=True):
    """One number of the plan. `sum` is the arithmetic, written out; `inputs` what it used."""

    key: str
    value: int | float | None  # None: cannot be known here
    unit: Unit = ""
    origin: Origin = "planned"
    planned: int | float | None = None  # where the operator's number stands: what it would be
    reason: str
    sum: str = ""
    inputs: tuple[Input, ...] = ()


class Ceiling(Record, frozen=True, kw_only=True):
    """How much one resource can carry, all in the same measure: payload bytes a second."""

    resource: Resource
    rate: float | None  # bytes/s; None: no limit, or none that can be known
    responses: float | None  # of the mean object, a second
    reason: str
    sum: str = ""


class Advice(Record, frozen=True, kw_only=True):
    """Something outside edgebox that would help. The commands are for the operator to run."""

    topic: str
    problem: str
    commands: tuple[str, ...] = ()
    gain: str


class Plan(Record, frozen=True, kw_only=True):
    """The whole plan. Ceilings are in the order in which they are reached."""

    numbers: tuple[Number, ...]
    ceilings: tuple[Ceiling, ...]
    bottleneck: Resource | None
    runner_up: Resource | None
    interface: str | None = None  # that the plan is for
    via: Via | None = None  # why this one
    advice: tuple[Advice, ...] = ()
    # As the running server has seen: bytes of RAM for objects, and the share of uses that hit.
    what_if: tuple[tuple[int, float], ...] = ()

    def number(self, key: str) -> Number:
        """Raises KeyError."""
        for number in self.numbers:
            if number.key == key:
                return number
        raise KeyError(key)

    def value(self, key: str) -> int | float | None:
        return self.number(key).value

    def ceiling(self, resource: Resource) -> Ceiling:
        """Raises KeyError."""
        for ceiling in self.ceilings:
            if ceiling.resource == resource:
                return ceiling
        raise KeyError(resource)


def chosen(number: Number, configured: int | float | None) -> Number:
    """The operator's number in place of the planned one, which its reason still tells."""
    if configured is None:
        return number
    planned = written(number.value, number.unit)
    return msgspec.structs.replace(
        number,
        value=configured,
        origin="configured",
        planned=number.value,
        reason=f"set in edgebox.toml; the plan would say {planned}: {number.reason}",
    )


def whole(number: Number) -> int:
    """The value as a count; unknown counts as none."""
    return int(number.value or 0)
