"""A worker tells of itself: once an epoch it gathers what its parts count into its slot.

Nothing is counted here and nothing decided. Numbers and histograms go out every second, the
sheet of tables every other one, and with it goes the heartbeat that the supervisor watches.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import msgspec

from edgebox.epoch import Epoch
from edgebox.files.store import FileStore
from edgebox.listen.admission import Admission
from edgebox.memory.workingset import WorkingSet
from edgebox.observe.counters import Counters
from edgebox.observe.error_log import ErrorLog
from edgebox.observe.histogram import Histogram
from edgebox.observe.pages import SHEET, Slot
from edgebox.observe.sink import Sink
from edgebox.ops.worker.caching import Caching
from edgebox.session.cycle import Service
from edgebox.session.tasks import TaskPerConnection

HOT = 20  # URLs
MOST_SORTS = 40  # of what lies in RAM; the smaller ones are told as one
SHEET_EVERY = 2  # turns
OTHERS = ("(others)", "other")


class Front(Protocol):
    """Who accepts connections: the express lane, or a task for each."""

    def statistics(self) -> dict[str, int]: ...


@dataclass(frozen=True, slots=True)
class Parts:
    """What a worker is made of, as far as it has something to tell.

    `what_if` gives octets of RAM and the hit ratio with so much, for more and less than there is.
    """

    epoch: Epoch
    counters: Counters
    service: Service
    admission: Admission
    front: Front
    working_set: WorkingSet
    store: FileStore
    caching: Caching
    errors: ErrorLog
    sinks: Sequence[Sink]
    what_if: Callable[[], Sequence[tuple[int, float]]]


class Publisher:
    """Publishes `parts` to `slot` at each `turn`."""

    def __init__(self, slot: Slot, parts: Parts) -> None:
        self._slot = slot
        self._parts = parts
        self._started = int(time.time())
        self._turns = 0
        self._sheet = b"{}"

    def turn(self) -> None:
        """The epoch has turned. Raises nothing for what a part tells."""
        parts = self._parts
        # The epoch turns when a second of the wall clock begins, or as late as the loop is.
        lag = time.time() % 1
        parts.counters.fold()
        if self._turns % SHEET_EVERY == 0:
            self._sheet = self.sheet()
        self._turns += 1
        numbers = self.numbers()
        numbers["lag_us"] = int(lag * 1e6)
        self._slot.publish(numbers, self.histograms(), self._sheet)
        self._slot.beat(time.monotonic())

    def numbers(self) -> dict[str, int]:
        """All of NUMBERS and GAUGES that this version counts."""
        parts, counters = self._parts, self._parts.counters
        numbers = counters.statistics()
        numbers["requests"] += numbers["express"]
        for kind, (answers, octets) in counters.kinds.items():
            numbers[kind] = answers
            numbers[f"{kind}_octets"] = octets
        for level, count in parts.errors.counts.items():
            numbers[f"{level}s"] = count
        numbers["log_lines_dropped"] = sum(sink.dropped for sink in parts.sinks)
        statistics = parts.front.statistics()
        idle, tasks = statistics["idle"], parts.admission.tasks
        tasks += statistics.get("waiting", 0)
        if isinstance(parts.front, TaskPerConnection):  # there, who is idle has a task as well
            tasks -= idle
        numbers |= {"connections": idle + tasks, "idle": idle, "tasks": tasks}
        numbers |= {
            "connections_limit": parts.admission.limit,
            "started": self._started,
            "draining": int(parts.service.draining),
        }
        return numbers | self._memory() | self._cache() | self._upstreams()

    def histograms(self) -> dict[str, Histogram]:
        counters = self._parts.counters
        first = {f"{kind}_first": histogram for kind, histogram in counters.first.items()}
        return first | {f"{kind}_total": histogram for kind, histogram in counters.total.items()}

    def sheet(self) -> bytes:
        """The tables, as JSON; without the longest ones where they do not fit."""
        parts = self._parts
        tables: dict[str, object] = {
            "ledger": dict(parts.working_set.ledger.statistics().accounts),
            "upstreams": list(self._servers()),
            "what_if": parts.what_if(),
            "ram": _largest(parts.working_set),
            "errors": [[int(at), level, text] for at, level, text in parts.errors.recent],
            "hot": parts.counters.hottest.most(HOT),
        }
        while len(octets := msgspec.json.encode(tables)) > SHEET:
            tables.popitem()
        return octets

    def _memory(self) -> dict[str, int]:
        held = self._parts.working_set.statistics()
        ledger = self._parts.working_set.ledger
        return {
            "ram_held": ledger.held,
            "ram_budget": ledger.budget,
            "ram_capacity": held.capacity,
            "ram_objects": held.objects,
            "ram_evicted": held.evicted,
            "ram_refused": held.refused,
        }

    def _cache(self) -> dict[str, int]:
        told = self._parts.caching.statistics()
        cache, disk = told["cache"], told["disk"]
        assert isinstance(cache, dict)
        numbers = {
            "cache_collapsed": cache.get("collapsed", 0),
            "cache_renewed": cache.get("renewed", 0),
            "cache_stored": cache.get("shared", 0),
            "cache_passed": cache.get("passed", 0) + cache.get("forwarded", 0),
        }
        store = disk["store"] if isinstance(disk, dict) else None
        if store is not None:
            numbers["disk_hits"] = store["found"]
            numbers["disk_misses"] = store["finds"] - store["found"]
            numbers["disk_written"] = store["outcomes"].get("stored", 0)
            numbers["disk_held"], numbers["disk_limit"] = store["kept"], store["limit"]
        return numbers

    def _upstreams(self) -> dict[str, int]:
        servers = list(self._servers())
        sums = {
            "upstream_requests": "answered",
            "upstream_failures": "failed",
            "upstream_connections": "connections",
            "upstream_reused": "reused",
            "upstream_active": "active",
            "upstream_idle": "idle",
        }
        return {name: sum(int(s[key]) for s in servers) for name, key in sums.items()}

    def _servers(self) -> Iterator[dict[str, str | int]]:
        groups = self._parts.caching.statistics()["upstreams"]
        assert isinstance(groups, dict)
        for pool, group in groups.items():
            for name, server in group["servers"].items():
                yield {"pool": pool, "server": name, **server}


def _largest(working_set: WorkingSet) -> list[dict[str, object]]:
    """Objects and octets by site and type, the largest first."""
    sorts = sorted(working_set.sorts.items(), key=lambda item: -item[1][1])
    rows: list[dict[str, object]] = []
    for sort, (objects, octets) in sorts[:MOST_SORTS]:
        site, kind = sort if isinstance(sort, tuple) else OTHERS
        rows.append({"site": site, "type": kind, "objects": objects, "octets": octets})
    if rest := [counted for _, counted in sorts[MOST_SORTS:]]:
        objects, octets = (sum(column) for column in zip(*rest, strict=True))
        rows.append({"site": OTHERS[0], "type": OTHERS[1], "objects": objects, "octets": octets})
    return rows
