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
from edgebox.plan.basis import UNTOLD, Basis, settle
from edgebox.plan.facts import Facts
from edgebox.plan.figures import Number, Plan, whole
from edgebox.plan.shares import memory_numbers, share
from edgebox.plan.throughput import ceilings, crossover, link_numbers

NO_OVERRIDES = Overrides()


def plan(facts: Facts, config: Config, overrides: Overrides = NO_OVERRIDES) -> Plan:
    """The whole plan. Never raises on what the schemas of its arguments allow."""

    def again(other: Facts) -> Plan:
        """What the plan would be on a machine changed by some advice."""
        return _plan(settle(other, config, overrides))

    basis = settle(facts, config, overrides)
    found = _plan(basis)
    return msgspec.structs.replace(found, advice=advise(facts, basis, found, again))


def apply(plan: Plan, config: Config) -> Config:
    """The configuration with every "auto" (None) replaced that the plan has a number for.

    Keys are TABLE.KEY; numbers of the plan that are no key of the file change nothing.
    """
    tables: dict[str, msgspec.Struct] = {}
    for number in plan.numbers:
        table, _, key = number.key.partition(".")
        record = tables.get(table, getattr(config, table, None))
        if isinstance(record, msgspec.Struct) and getattr(record, key, "no key") is None:
            tables[table] = msgspec.structs.replace(record, **{key: number.value})
    return msgspec.structs.replace(config, **tables)


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
        ),
        ceilings=reached,
        bottleneck=known[0],  # the processor's ceiling is always known
        runner_up=known[1] if len(known) > 1 else None,
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
