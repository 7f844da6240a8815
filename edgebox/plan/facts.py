"""What the machine is: one frozen record, and its JSON.

Only records here, so that the planner and whoever reads a strange box's facts need no
machine to look at; `gather` and `link` do the looking. None is "unknown": a fact is what
the kernel said, or nothing. Sizes are bytes, speeds bits a second, times seconds.
A saved file is complete (unknowns are written as null) and refuses keys it does not know,
so a mistyped one cannot pass for a fact.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct, field

# 64 bits is what JSON readers agree on, and no machine counts further.
Whole = Annotated[int, Meta(ge=0, le=2**63 - 1)]

LinkKind = Literal[
    "ethernet",  # a card, or a card passed through
    "paravirtual",  # a hypervisor's card: its speed is a promise or a fiction
    "wireless",
    "bond",
    "team",
    "bridge",
    "vlan",
    "macvlan",  # and ipvlan: another name for the card below
    "veth",  # a cable between two namespaces; its 10 Gbit/s is a fiction
    "tunnel",
    "loopback",
    "other",
]
DiskKind = Literal["rotating", "ssd", "nvme", "card", "virtual", "network", "memory"]
Via = Literal["nic.interface", "listen address", "default route"]


class Record(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A table of facts: every field may be unknown."""


class Counters(Record, frozen=True, kw_only=True):
    """What went wrong on an interface since it came up (rtnl_link_stats64)."""

    rx_packets: Whole | None = None
    tx_packets: Whole | None = None
    rx_errors: Whole | None = None
    tx_errors: Whole | None = None
    rx_dropped: Whole | None = None
    tx_dropped: Whole | None = None
    rx_missed: Whole | None = None  # the ring was full: the host was too slow
    collisions: Whole | None = None
    carrier_changes: Whole | None = None


class Link(Record, frozen=True, kw_only=True):
    """One interface. `lower` names those it stands on: bonded ports, bridged ports, the trunk."""

    name: str
    kind: LinkKind | None = None
    driver: str | None = None
    up: bool | None = None  # operational state, so a cable that is out counts as down
    speed: Whole | None = None  # as negotiated, or as a driver claims
    speed_supported: Whole | None = None  # the fastest mode the port could negotiate
    duplex: Literal["full", "half"] | None = None
    shaped: Whole | None = None  # a token bucket at the root (tc-tbf)
    mtu: Whole | None = None
    queue_length: Whole | None = None  # packets a plain queue may hold
    qdisc: str | None = None
    rx_queues: Whole | None = None
    tx_queues: Whole | None = None
    queues_supported: Whole | None = None
    rx_ring: Whole | None = None
    rx_ring_supported: Whole | None = None
    tx_ring: Whole | None = None
    tx_ring_supported: Whole | None = None
    offloads: dict[str, bool] | None = None  # under ethtool -k's names
    offloads_fixed: tuple[str, ...] = ()  # of these, what cannot be switched
    bond_mode: str | None = None
    lower: tuple[str, ...] = ()
    counters: Counters = field(default_factory=Counters)


class Network(Record, frozen=True, kw_only=True):
    """The interface that the plan is for, what lies under it, and the host's TCP."""

    interface: str | None = None
    via: Via | None = None
    links: tuple[Link, ...] = ()  # the interface first, then downwards to the ports
    somaxconn: Whole | None = None
    syn_backlog: Whole | None = None
    tcp_wmem: tuple[Whole, Whole, Whole] | None = None  # bytes: least, default, most
    tcp_rmem: tuple[Whole, Whole, Whole] | None = None
    tcp_mem: tuple[Whole, Whole, Whole] | None = None  # pages: low, pressure, high
    congestion_control: str | None = None
    congestion_controls: tuple[str, ...] | None = None  # those the kernel has ready
    slow_start_after_idle: bool | None = None
    default_qdisc: str | None = None
    port_range: tuple[Whole, Whole] | None = None  # first and last local port


class Memory(Record, frozen=True, kw_only=True):
    """Physical memory, and what a control group leaves of it."""

    total: Whole | None = None
    available: Whole | None = None  # MemAvailable: to be had without swapping
    swap: Whole | None = None
    page_size: Whole | None = None
    cgroup_limit: Whole | None = None  # None also where there is no limit
    cgroup_used: Whole | None = None  # page cache that can be dropped left out


class Processor(Record, frozen=True, kw_only=True):
    """Cores of the machine, those this process may use, and a control group's quota."""

    model: str | None = None
    cores: Whole | None = None
    allowed: Whole | None = None  # cpuset and affinity
    quota: Annotated[float, Meta(ge=0)] | None = None  # cores' worth; None also for no quota


class Descriptors(Record, frozen=True, kw_only=True):
    """RLIMIT_NOFILE and what stands above it."""

    soft: Whole | None = None
    hard: Whole | None = None
    nr_open: Whole | None = None  # fs.nr_open: the most a hard limit may be
    file_max: Whole | None = None  # fs.file-max: the whole system


class Inotify(Record, frozen=True, kw_only=True):
    """fs.inotify.*: limits of one user."""

    watches: Whole | None = None
    instances: Whole | None = None
    queued_events: Whole | None = None


class Disk(Record, frozen=True, kw_only=True):
    """The file system under one path that edgebox reads or writes."""

    path: str
    use: Literal["root", "cache"]
    mount: str | None = None
    file_system: str | None = None
    device: str | None = None
    kind: DiskKind | None = None
    size: Whole | None = None
    free: Whole | None = None


class Content(Record, frozen=True, kw_only=True):
    """What lies under one root, where it could be counted in the time allowed."""

    path: str
    files: Whole | None = None
    directories: Whole | None = None
    size: Whole | None = None


class Facts(Record, frozen=True, kw_only=True):
    """The whole machine as the planner sees it."""

    format: Literal[1] = 1
    kernel: str | None = None
    network: Network = field(default_factory=Network)
    memory: Memory = field(default_factory=Memory)
    processor: Processor = field(default_factory=Processor)
    descriptors: Descriptors = field(default_factory=Descriptors)
    inotify: Inotify = field(default_factory=Inotify)
    disks: tuple[Disk, ...] = ()
    content: tuple[Content, ...] = ()


class FactsError(ValueError):
    """A saved file that does not hold facts; the message names the place in it."""


def encode(facts: Facts) -> bytes:
    """Indented JSON with a final newline; the same facts give the same octets."""
    return msgspec.json.format(msgspec.json.encode(facts), indent=2) + b"\n"


def decode(text: bytes) -> Facts:
    """The facts in a saved file. Raises FactsError."""
    try:
        return msgspec.json.decode(text, type=Facts)
    except msgspec.DecodeError as problem:
        raise FactsError(str(problem)) from problem
