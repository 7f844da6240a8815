"""What the planner takes for granted where neither machine nor operator says: each with its source.

Nothing here is a fact. Every number that rests on one of these says so, and each can be
replaced: by an override, by `--calibrate`, or by what the running server measures.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from edgebox.plan.facts import DiskKind, LinkKind, Record, Whole

KIB, MIB = 1024, 1024**2

# A connection all told, kernel buffers included: the French gigabit test saw 28,000 kB more
# at 1000 clients than at none, and called it about 24 kB each.
CONNECTION = 24_000

# The file of the field report on lighttpd 1.5; about a page's image or script.
OBJECT = 26_890

# Status line and fields of a plain 200, as edgebox writes it.
RESPONSE_HEAD = 250

# Round trip to a far client: another continent, or a phone.
ROUND_TRIP = 0.1

# Resident memory on Python 3.11, measured 2026-11-30: a worker with all its rooms takes 36 MiB
# at rest, the supervisor 22. What a worker's lane may remember of heads, their lines and the
# answers of a second is bounded by 36.5 MiB more (ops/worker/worker), and a flood fills that.
WORKER, SUPERVISOR = 72 * MIB, 24 * MIB

# A compression helper at its peak, on a file of 16 MiB (zstd 15; brotli 9 takes 70), same day.
HELPER = 96 * MIB

# Of a worker's descriptors, those that are neither connections nor content: listeners, epoll,
# inotify, logs, the control socket, and cold reads under way.
DESCRIPTORS_KEPT = 64

# The same for answers on disk: 28 reads, writes and purges under way in threads, its directory
# and what its workers share.
DISK_TIER_KEPT = 40

# Where the machine does not tell: what Linux gave before anyone raised it.
DESCRIPTORS, SOMAXCONN, WATCHES = 1024, 128, 8192
TCP_WMEM = 4 * MIB

# Of an answer, the kernel holds at most what a full link sends in this time before it is sent:
# it wakes us when half of that is gone, 800 times a second however many clients share the link.
SENDING_TURN = 0.0025
LEAST_SEND_BUFFER, SEND_BUFFER = 16 * KIB, 256 * KIB  # the latter where the link is unknown
STALLED = 1000  # clients that stopped reading, for whose unsent answers there is to be room

# Where memory is unknown: little enough for any box that can run Python.
WORKING_SET, CONNECTIONS = 64 * MIB, 1000

# Accepting, answering and closing one connection: CPU time on the prototype, `ab -c 1000`, 449 B.
CONNECT_MICROSECONDS = 21.0
BACKLOG = 4096  # with the above, what arrives while the loop is busy for 86 ms

# What a network's headers cost: preamble, frame, check and gap of Ethernet outside the MTU,
# IPv4, TCP and timestamps inside it (IEEE 802.3, RFC 791, 9293, 7323).
FRAME, HEADERS = 38, 52

# Wi-Fi's medium is shared in both directions and acknowledged frame by frame: about half of
# the bit rate is left for TCP.
AIR = 0.5

# Reading what is not in RAM, in bytes a second: 1 MiB at a time from several files.
DISK_RATE: dict[DiskKind, int] = {
    "rotating": 60_000_000,
    "card": 40_000_000,
    "ssd": 450_000_000,
    "nvme": 1_500_000_000,
}

# Kinds of interface whose speed is a driver's invention: veth says 10 Gbit/s of a memory copy.
FICTION: frozenset[LinkKind] = frozenset({"veth", "tunnel", "loopback"})

Microseconds = Annotated[float, Meta(ge=0.01, le=1e6)]


class Costs(Record, frozen=True, kw_only=True):
    """CPU time of one request: a fixed part, and a part for each byte of the answer.

    From the prototype's 7.3 µs at 449 B and 11.6 µs at 26,890 B; `task` is what a request
    costs that is parsed by h11 in a task of its own. Loopback carries no card's driver, so a
    real link costs a little more per byte.
    """

    request: Microseconds = 7.23  # µs, express lane
    byte: Annotated[float, Meta(ge=0, le=1e6)] = 0.163  # ns
    task: Microseconds = 90.0  # µs
    source: str = "measured on a prototype over loopback, 2026-11-30"


class Overrides(Record, frozen=True, kw_only=True):
    """What the operator, or a measurement, says instead of the machine or an assumption."""

    speed: Whole | None = None  # nic.speed, bits a second
    memory: Whole | None = None  # bytes edgebox may use at most
    workers: Annotated[int, Meta(ge=1)] | None = None
    object_size: Annotated[int, Meta(ge=1, le=2**63 - 1)] | None = None  # mean of the answers
    round_trip: Annotated[float, Meta(ge=1e-6, le=3600)] | None = None  # seconds
    connection_size: Annotated[int, Meta(ge=1, le=2**63 - 1)] | None = None  # as measured, running
    costs: Costs | None = None  # as measured by --calibrate
