"""What the planner starts from: facts, configuration and overrides settled into plain numbers.

Pure. Wherever several say something, this is where it is decided who counts, and every
number keeps its source, so that the plan can cite it. `Basis.cite` is how sums show theirs.
"""

from __future__ import annotations

import math
from typing import TypeVar

import msgspec

from edgebox.config.schema import Config
from edgebox.plan import assumptions
from edgebox.plan.assumptions import Costs, Overrides
from edgebox.plan.descriptors import Demand, demand
from edgebox.plan.facts import DiskKind, Facts, Record
from edgebox.plan.figures import Input
from edgebox.plan.quantity import Unit, Value, size, written
from edgebox.plan.uplink import Uplink, uplink

N = TypeVar("N", int, float)

MACHINE, OPERATOR, OVERRIDE = "the machine", "edgebox.toml", "override"
ASSUMED, UNTOLD = "assumed", "assumed, for the machine does not tell"
UNLIMITED = 2**40  # fs.file-max and the like: from here on a number stands for no limit


class Basis(Record, frozen=True, kw_only=True):
    """Settled numbers. None is unknown; everything else may be reckoned with."""

    config: Config
    link: Uplink
    goodput: float | None  # payload and response heads, bytes a second
    goodput_sum: str
    memory: int | None  # what edgebox may use
    memory_sum: str
    cores: float  # may be a fraction, under a quota
    descriptors: int  # of one process
    file_max: int | None
    somaxconn: int
    tcp_wmem: int  # the most a send buffer may grow to
    tcp_mem: int | None  # bytes, all sockets together
    watches: int
    ports: int | None
    disk: DiskKind | None  # the slowest under the roots
    content: int | None  # bytes below all roots
    object_size: int
    round_trip: float
    connection_size: int
    costs: Costs
    workers: int | None
    demand: Demand
    given: tuple[Input, ...]

    @property
    def whole_cores(self) -> int:
        return max(1, math.ceil(self.cores))

    def cite(self, *names: str) -> tuple[Input, ...]:
        """The inputs of these names, in this order; one that nobody gave is left out."""
        known = {given.name: given for given in self.given}
        return tuple(known[name] for name in names if name in known)


class _Sources:
    """Collects inputs, each with its source, while they are settled."""

    def __init__(self, overrides: Overrides) -> None:
        self.given: list[Input] = []
        self._overrides = overrides

    def whose(self, key: str) -> str:
        """Who said what is not the machine's: an override, or else the file."""
        return OPERATOR if getattr(self._overrides, key) is None else OVERRIDE

    def cite(self, name: str, value: Value, unit: Unit = "", source: str = MACHINE) -> None:
        if value is not None:
            self.given.append(Input(name=name, value=value, unit=unit, source=source))

    def first(self, name: str, unit: Unit, said: N | None, source: str, assumed: N) -> N:
        """What is said, or else what is assumed."""
        if said is None:
            self.cite(name, assumed, unit, UNTOLD if source == MACHINE else ASSUMED)
            return assumed
        self.cite(name, said, unit, source)
        return said


def settle(facts: Facts, config: Config, overrides: Overrides) -> Basis:
    """One Basis from all that is said; total on unknowns."""
    sources, overrides = _Sources(overrides), _with_file(overrides, config)
    network, limits, page = facts.network, facts.descriptors, facts.memory.page_size
    link = uplink(network, overrides.speed)
    goodput, goodput_sum = _goodput(link, overrides, sources)
    memory, memory_sum = _memory(facts, overrides, sources)
    hard = _least(limits.hard if limits.hard is not None else limits.soft, limits.nr_open)
    wmem = network.tcp_wmem[2] if network.tcp_wmem else None
    tcp_mem = network.tcp_mem[2] * page if network.tcp_mem and page else None
    ports = network.port_range and max(0, network.port_range[1] - network.port_range[0] + 1)
    file_max = None if (limits.file_max or 0) >= UNLIMITED else limits.file_max
    costs, asked = overrides.costs or Costs(), demand(config)
    settled: tuple[tuple[str, Value, Unit, str], ...] = (
        ("µs a request", costs.request, "µs", costs.source),
        ("ns a byte", costs.byte, "ns", costs.source),
        ("µs a request in a task", costs.task, "µs", costs.source),
        ("limits.send_rate", config.limits.send_rate, "bytes/s", OPERATOR),
        ("limits.keep_alive_idle", config.limits.keep_alive_idle, "s", OPERATOR),
        ("response head", assumptions.RESPONSE_HEAD, "bytes", ASSUMED),
        ("tcp_mem", tcp_mem, "bytes", MACHINE),
        ("fs.file-max", file_max, "", MACHINE),
        ("local ports", ports, "", MACHINE),
        ("connections upstream", asked.upstream or None, "", OPERATOR),
    )
    for given in settled:
        sources.cite(*given)
    return Basis(
        config=config,
        link=link,
        goodput=goodput,
        goodput_sum=goodput_sum,
        memory=memory,
        memory_sum=memory_sum,
        cores=_cores(facts, sources),
        descriptors=sources.first(
            "descriptors a process", "", hard, MACHINE, assumptions.DESCRIPTORS
        ),
        file_max=file_max,
        somaxconn=sources.first("somaxconn", "", network.somaxconn, MACHINE, assumptions.SOMAXCONN),
        tcp_wmem=sources.first("tcp_wmem", "bytes", wmem, MACHINE, assumptions.TCP_WMEM),
        tcp_mem=tcp_mem,
        watches=sources.first(
            "max_user_watches", "", facts.inotify.watches, MACHINE, assumptions.WATCHES
        ),
        ports=ports,
        disk=_disk(facts, sources),
        content=_content(facts, sources),
        object_size=_object_size(facts, overrides, sources),
        round_trip=sources.first(
            "round trip",
            "s",
            overrides.round_trip,
            sources.whose("round_trip"),
            assumptions.ROUND_TRIP,
        ),
        connection_size=sources.first(
            "a connection",
            "bytes",
            overrides.connection_size,
            sources.whose("connection_size"),
            assumptions.CONNECTION,
        ),
        costs=costs,
        workers=overrides.workers,
        demand=asked,
        given=tuple(sources.given),
    )


def _with_file(overrides: Overrides, config: Config) -> Overrides:
    """`overrides`, and what edgebox.toml says where they are silent."""
    nic, said = config.nic, config.plan
    file: dict[str, int | float | None] = {
        "speed": nic.speed and min(nic.speed * 8, 2**63 - 1),
        "memory": said.memory,
        "workers": config.server.workers,
        "object_size": said.object_size,
        "round_trip": said.round_trip,
        "connection_size": said.connection_size,
    }
    silent = {key: value for key, value in file.items() if getattr(overrides, key) is None}
    return msgspec.structs.replace(overrides, **silent)


def _goodput(link: Uplink, overrides: Overrides, sources: _Sources) -> tuple[float | None, str]:
    """What the headers of Ethernet, IP and TCP leave of the link's bits."""
    said = MACHINE if overrides.speed is None else sources.whose("speed")
    sources.cite("nic.speed", link.speed, "bits/s", said)
    sources.cite("mtu", link.mtu)
    if not link.speed:
        return None, ""
    mtu = link.mtu if link.mtu is not None and link.mtu > assumptions.HEADERS else 1500
    share = (mtu - assumptions.HEADERS) / (mtu + assumptions.FRAME)
    text = (
        f"{written(link.speed, 'bits/s')} ÷ 8 × ({mtu:,} − {assumptions.HEADERS})"
        f" ÷ ({mtu:,} + {assumptions.FRAME})"
    )
    rate = link.speed / 8 * share
    if link.wireless:
        sources.cite("share of Wi-Fi's bit rate", assumptions.AIR, "", ASSUMED)
        rate, text = rate * assumptions.AIR, f"{text} × {assumptions.AIR}"
    return rate, f"{text} = {written(rate, 'bytes/s')}"


def _memory(facts: Facts, overrides: Overrides, sources: _Sources) -> tuple[int | None, str]:
    """The least of what is free, what the control group leaves, and what the operator grants."""
    seen = facts.memory
    rooms: list[tuple[str, int]] = []
    if seen.available is not None:
        sources.cite("memory.available", seen.available, "bytes")
        rooms.append((f"available {size(seen.available)}", seen.available))
    if seen.total is not None:
        sources.cite("memory.total", seen.total, "bytes")
        rooms.append((f"total {size(seen.total)}", seen.total))
    if seen.cgroup_limit is not None:
        used = seen.cgroup_used or 0
        sources.cite("cgroup limit", seen.cgroup_limit, "bytes")
        sources.cite("cgroup used", used, "bytes")
        left = max(0, seen.cgroup_limit - used)
        rooms.append((f"control group {size(seen.cgroup_limit)} − {size(used)} used", left))
    if overrides.memory is not None:
        sources.cite("plan.memory", overrides.memory, "bytes", sources.whose("memory"))
        rooms.append((f"granted {size(overrides.memory)}", overrides.memory))
    if not rooms:
        return None, ""
    least = min(room for _, room in rooms)
    return least, f"min({'; '.join(text for text, _ in rooms)}) = {size(least)}"


def _cores(facts: Facts, sources: _Sources) -> float:
    seen = facts.processor
    for name, value in (
        ("cores", seen.cores), ("cores allowed", seen.allowed), ("cpu quota", seen.quota),
    ):  # fmt: skip
        sources.cite(name, value)
    known = [float(n) for n in (seen.cores, seen.allowed, seen.quota) if n is not None]
    if not known:
        sources.cite("cores", 1, "", UNTOLD)
    # Below a hundredth of a core nothing runs; it also keeps every quotient finite.
    return max(0.01, min(known, default=1.0))


def _disk(facts: Facts, sources: _Sources) -> DiskKind | None:
    """The slowest kind under the roots; unknown if one of them is."""
    kinds = [disk.kind for disk in facts.disks if disk.use == "root"]
    rated = [kind for kind in kinds if kind in assumptions.DISK_RATE]
    if not rated or len(rated) < len(kinds):
        return None
    slowest = min(rated, key=lambda kind: assumptions.DISK_RATE[kind])
    sources.cite("disk", slowest)
    sources.cite("reading from it", assumptions.DISK_RATE[slowest], "bytes/s", ASSUMED)
    return slowest


def _content(facts: Facts, sources: _Sources) -> int | None:
    sizes = [content.size for content in facts.content if content.size is not None]
    if not sizes or len(sizes) < len(facts.content):
        return None
    sources.cite("content", sum(sizes), "bytes")
    return sum(sizes)


def _object_size(facts: Facts, overrides: Overrides, sources: _Sources) -> int:
    """Mean size of what is answered: as told, as it lies on disk, or as it was in the field."""
    if overrides.object_size is not None:
        sources.cite("mean object", overrides.object_size, "bytes", sources.whose("object_size"))
        return overrides.object_size
    counted = [(c.size, c.files) for c in facts.content if c.size and c.files]
    total, files = sum(s for s, _ in counted), sum(f for _, f in counted)
    if files and len(counted) == len(facts.content):
        mean = max(1, total // files)
        source = f"{size(total)} in {files:,} files below the roots"
        sources.cite("mean object", mean, "bytes", source)
        return mean
    sources.cite("mean object", assumptions.OBJECT, "bytes", "assumed: a field report's file")
    return assumptions.OBJECT


def _least(*values: int | None) -> int | None:
    return min((value for value in values if value is not None), default=None)
