"""Facts and configuration in, a plan out: every limit of edgebox with the sum behind it.

Pure and total: equal facts give an equal plan, unknown facts give cautious numbers that say
so, and nothing is looked up, timed or tried. The order is that of dependence: what there is
(`basis`), how memory is shared out (`shares`), how many workers and connections
(`connections`), what all of it carries (`throughput`), and what would help (`advice`).
`apply` puts the numbers where the configuration says "auto".
"""

from __future__ import annotations

import msgspec

from edgebox.config.schema import Config
from edgebox.plan import connections
from edgebox.plan.advice import advise
from edgebox.plan.assumptions import Overrides
from edgebox.plan.basis import ASSUMED, OPERATOR, OVERRIDE, UNTOLD, Basis, settle
from edgebox.plan.facts import Facts
from edgebox.plan.figures import Number, Origin, Plan, whole
from edgebox.plan.quantity import Unit
from edgebox.plan.shares import memory_numbers, share
from edgebox.plan.throughput import ceilings, crossover, link_numbers

NO_OVERRIDES = Overrides()

# Where a number has another name than the key of the file that would set it.
OTHER_NAMES = {"memory.budget": "plan.memory"}

WHAT = {
    "object_size": "mean size of an answer",
    "round_trip": "to a far client and back, another continent or a phone",
    "connection_size": "RAM of a connection all told, the kernel's part included",
}

# What the schema of the file does not allow to be less.
LEAST_ALLOWED = {"limits.send_buffer": 4096, "memory.budget": 1, "plan.round_trip": 0.001}


def plan(facts: Facts, config: Config, overrides: Overrides = NO_OVERRIDES) -> Plan:
    """The whole plan. Never raises on what the schemas of its arguments allow."""

    def again(other: Facts) -> Plan:
        """What the plan would be on a machine changed by some advice."""
        return _plan(settle(other, config, overrides))

    basis = settle(facts, config, overrides)
    found = _plan(basis)
    return msgspec.structs.replace(found, advice=advise(facts, basis, found, again))


def apply(plan: Plan, config: Config) -> Config:
    """The configuration with every "auto" (None) replaced that the plan has an answer to.

    Numbers of the plan that are no key of the file change nothing.
    """
    tables: dict[str, msgspec.Struct] = {}
    for (table, key), (value, _) in _answers(plan, config).items():
        record = tables.get(table, getattr(config, table))
        tables[table] = msgspec.structs.replace(record, **{key: value})
    return msgspec.structs.replace(config, **tables)


def reasons(plan: Plan, config: Config) -> dict[tuple[str, str], str]:
    """Why each key that `apply` fills in gets its value, by (TABLE, KEY)."""
    return {path: reason for path, (_, reason) in _answers(plan, config).items()}


def _answers(plan: Plan, config: Config) -> dict[tuple[str, str], tuple[int | float | str, str]]:
    """(TABLE, KEY) → value and reason, for what is "auto" and is known."""
    found: dict[tuple[str, str], tuple[int | float | str, str]] = {}
    for number in plan.numbers:
        table, _, key = OTHER_NAMES.get(number.key, number.key).partition(".")
        record = getattr(config, table, None)
        auto = isinstance(record, msgspec.Struct) and getattr(record, key, "no key") is None
        if auto and number.value is not None:
            found[table, key] = _as_written(number), number.reason
    if config.nic.interface is None and plan.interface is not None:
        found["nic", "interface"] = plan.interface, f"the interface of the {plan.via}"
    return found


def _as_written(number: Number) -> int | float:
    """As the file counts (rates in bytes), and within what it allows."""
    value = number.value or 0
    if number.unit == "bits/s":
        return max(1, int(value) // 8)
    return max(LEAST_ALLOWED.get(number.key, 0), value)


def _plan(basis: Basis) -> Plan:
    shares = share(basis)
    workers = connections.workers(basis, shares)
    helpers = connections.helpers(basis, shares, workers)
    open_files = connections.open_files(basis, workers)
    slots = connections.slots(basis, shares, workers, open_files)
    most = connections.connections(basis, shares, workers, slots)
    memory = memory_numbers(basis, shares, workers, helpers, most)
    running = max(1, whole(workers))
    reached = ceilings(
        basis, running, connections.slot_ceilings(basis, slots), _cached(memory, running)
    )
    known = [ceiling.resource for ceiling in reached if ceiling.rate is not None]
    return Plan(
        numbers=_marked(
            *link_numbers(basis),
            crossover(basis, running),
            *memory,
            workers,
            helpers,
            most,
            open_files,
            *connections.dependents(basis, shares, workers, most, slots),
            *premises(basis),
        ),
        ceilings=reached,
        bottleneck=known[0],  # the processor's ceiling is always known
        runner_up=known[1] if len(known) > 1 else None,
        interface=basis.link.interface,
        via=basis.link.via,
    )


def premises(basis: Basis) -> tuple[Number, ...]:
    """What the sums start from besides the machine: the keys of [plan]."""
    named: tuple[tuple[str, float, Unit, str], ...] = (
        ("object_size", basis.object_size, "bytes", "mean object"),
        ("round_trip", basis.round_trip, "s", "round trip"),
        ("connection_size", basis.connection_size, "bytes", "a connection"),
    )
    return tuple(_premise(basis, *row) for row in named)


def _premise(basis: Basis, key: str, value: float, unit: Unit, name: str) -> Number:
    (given,) = basis.cite(name)
    origin: Origin = (
        "configured" if given.source in (OPERATOR, OVERRIDE)
        else "assumed" if given.source.startswith("assumed") else "planned"
    )  # fmt: skip
    return Number(
        key=f"plan.{key}",
        value=value,
        unit=unit,
        origin=origin,
        reason=WHAT[key] if given.source == ASSUMED else f"{WHAT[key]} ({given.source})",
        inputs=(given,),
    )


def _marked(*numbers: Number) -> tuple[Number, ...]:
    """A number that rests on a fact which the machine does not tell is marked as assumed."""
    return tuple(
        msgspec.structs.replace(number, origin="assumed")
        if number.origin == "planned" and any(given.source == UNTOLD for given in number.inputs)
        else number
        for number in numbers
    )


def _cached(memory: tuple[Number, ...], workers: int) -> int | None:
    """Bytes of content that RAM holds: page cache, and one worker's part of the working set.

    Workers hold the same hot files each, so their parts do not add up.
    """
    found = {number.key: number.value for number in memory}
    page_cache, working_set = found.get("memory.page_cache"), found["files.working_set"]
    return None if page_cache is None else int(page_cache) + int(working_set or 0) // workers
