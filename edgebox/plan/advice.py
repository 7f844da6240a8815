"""What would help that edgebox does not do by itself: sysctl, ulimit and ethtool lines.

Pure. Each piece of advice names the trouble, the exact commands, and the gain; where the
gain is a number of the plan it is got by planning again for the machine as it would then
be. What cannot be put in numbers before it is tried is not advised. Nothing is run.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from edgebox.plan import assumptions
from edgebox.plan.assumptions import FICTION
from edgebox.plan.basis import Basis
from edgebox.plan.facts import Facts, Link
from edgebox.plan.figures import Advice, Plan, whole
from edgebox.plan.quantity import bits, count, many, rate, seconds, significant, size, written
from edgebox.plan.shares import LEAST

SEGMENT = 1448  # an Ethernet packet's payload under TCP with timestamps
INITIAL_WINDOW = 10  # segments, RFC 6928
MOST_DESCRIPTORS = 1_048_576  # fs.nr_open as Linux ships it
TROUBLE = 1e-4  # share of packets lost or broken from which it is worth a word
LONG_WAIT = 0.005  # seconds in a queue that a person in front of a page may come to notice

FEW_TRIPS = 5  # beyond, an answer takes so long that its slow start no longer matters

# What it saves to leave the choice to the plan, where the operator's number is higher.
HARM = {
    "files.working_set": "no swapping, and no kill at the memory limit",
    "limits.connections": "refusals with 503 instead of failures to accept or to find memory",
    "files.open_files": "descriptors stay free for clients",
    "files.watches": "other programs of this user get watches too",
    "server.backlog": "none: the kernel cuts it to somaxconn anyway",
}

Again = Callable[[Facts], Plan]


def advise(facts: Facts, basis: Basis, plan: Plan, again: Again) -> tuple[Advice, ...]:
    """All that would help, what matters most first."""
    running = whole(plan.number("server.workers"))
    return (
        *_link(facts, basis),
        *_memory(basis),
        *_set_too_high(plan),
        *_descriptors(facts, basis, plan, again),
        *_accepting(facts, basis),
        *_sending(facts, basis),
        *_watching(facts, basis, plan),
        *(advice for port in basis.link.ports for advice in _port(port, running)),
    )


def _changed(facts: Facts, table: str, **to: Any) -> Facts:
    record = msgspec.structs.replace(getattr(facts, table), **to)
    return msgspec.structs.replace(facts, **{table: record})


def _link(facts: Facts, basis: Basis) -> Iterator[Advice]:
    if basis.link.speed is None:
        yield Advice(
            topic="link speed",
            problem=f"unknown: {basis.link.reason}",
            commands=("edgebox plan --nic 1G", 'edgebox.toml: [nic] speed = "1 Gbit/s"'),
            gain="workers, buffers and the bottleneck are then reckoned from the link",
        )
    for port in basis.link.ports:
        if port.speed and port.speed_supported and port.speed < port.speed_supported:
            times = port.speed_supported / port.speed
            yield Advice(
                topic="link speed",
                problem=f"{port.name} runs at {bits(port.speed)} and could at"
                f" {bits(port.speed_supported)}: the other end or the cable keeps it down",
                commands=(f"ethtool {port.name}",),
                gain=f"{significant(times)} times the link",
            )
        if port.duplex == "half":
            yield Advice(
                topic="duplex",
                problem=f"{port.name} runs half duplex: acknowledgements collide with answers",
                commands=(f"ethtool -s {port.name} autoneg on",),
                gain="both directions at once, each at full speed",
            )


def _memory(basis: Basis) -> Iterator[Advice]:
    if basis.memory is None:
        return
    if basis.memory < LEAST:
        yield Advice(
            topic="memory",
            problem=f"{size(basis.memory)} is less than one worker and the supervisor take",
            gain=f"edgebox runs without being killed from {size(LEAST)} on",
        )


def _set_too_high(plan: Plan) -> Iterator[Advice]:
    """Numbers of the operator's that the machine does not bear out."""
    for number in plan.numbers:
        harm = HARM.get(number.key)
        if harm is None or number.planned is None or (number.value or 0) <= number.planned:
            continue
        value, planned = (written(n, number.unit) for n in (number.value, number.planned))
        yield Advice(
            topic=number.key,
            problem=f"{value} is set, and {planned} is what this machine bears",
            commands=(f"edgebox.toml: leave {number.key} out",),
            gain=harm,
        )


def _descriptors(facts: Facts, basis: Basis, plan: Plan, again: Again) -> Iterator[Advice]:
    """Worth raising only as far as something else does not stop connections first."""
    most = MOST_DESCRIPTORS if facts.descriptors.nr_open is None else facts.descriptors.nr_open
    if facts.descriptors.hard is None or basis.descriptors >= most:
        return
    raised = again(_changed(facts, "descriptors", hard=most))
    before, after = (
        whole(plan.number("limits.connections")),
        whole(raised.number("limits.connections")),
    )
    if after > before:
        need = whole(raised.number("server.descriptors"))
        yield Advice(
            topic="descriptors",
            problem=f"{basis.descriptors:,} a process are fewer than memory and link could use",
            commands=(f"ulimit -Hn {need}", f"systemd: LimitNOFILE={need}"),
            gain=f"limits.connections from {before:,} to {after:,}",
        )


def _accepting(facts: Facts, basis: Basis) -> Iterator[Advice]:
    somaxconn, wanted = facts.network.somaxconn, assumptions.BACKLOG
    if somaxconn is not None and somaxconn < wanted:
        before = somaxconn * assumptions.CONNECT_MICROSECONDS / 1e6
        after = wanted * assumptions.CONNECT_MICROSECONDS / 1e6
        yield Advice(
            topic="accept queue",
            problem=f"somaxconn cuts it to {somaxconn:,}",
            commands=(f"sysctl -w net.core.somaxconn={wanted}",),
            gain=f"a worker may be busy for {seconds(after)} instead of {seconds(before)} before"
            " the kernel drops newcomers",
        )


def _sending(facts: Facts, basis: Basis) -> Iterator[Advice]:
    if basis.goodput is None:
        return
    network, pipe = facts.network, math.ceil(basis.goodput * basis.round_trip)
    if network.tcp_wmem is not None and network.tcp_wmem[2] < pipe:
        least, usual, most = network.tcp_wmem
        yield Advice(
            topic="send buffer",
            problem=f"tcp_wmem stops at {size(most)}; the link holds {size(pipe)} on its way to"
            f" a client {seconds(basis.round_trip)} away",
            commands=(f'sysctl -w net.ipv4.tcp_wmem="{least} {usual} {pipe}"',),
            gain=f"one such client may get {rate(basis.goodput)} instead of"
            f" {rate(most / basis.round_trip)}",
        )
    if basis.tcp_mem is not None and basis.tcp_mem < 2 * pipe and facts.memory.page_size:
        pages = math.ceil(2 * pipe / facts.memory.page_size)
        line = f"{pages // 2} {pages * 2 // 3} {pages}"
        yield Advice(
            topic="TCP memory",
            problem=f"tcp_mem allows all sockets {size(basis.tcp_mem)}, and twice the link's pipe"
            f" is {size(2 * pipe)}",
            commands=(f'sysctl -w net.ipv4.tcp_mem="{line}"',),
            gain=f"{size(2 * pipe)} in flight, so the link stays full to clients"
            f" {seconds(basis.round_trip)} away",
        )
    trips = _round_trips(basis.object_size)
    if network.slow_start_after_idle and 1 < trips <= FEW_TRIPS:
        saved = (trips - 1) * basis.round_trip
        yield Advice(
            topic="slow start",
            problem="a keep-alive connection that paused starts again with ten segments",
            commands=("sysctl -w net.ipv4.tcp_slow_start_after_idle=0",),
            gain=f"up to {seconds(saved)} less for the next {size(basis.object_size)} to a client"
            f" {seconds(basis.round_trip)} away ({trips} round trips become 1)",
        )


def _round_trips(octets: int) -> int:
    """Rounds that an initial window needs, doubling with each."""
    segments = max(1, math.ceil(octets / SEGMENT))
    return math.ceil(math.log2(segments / INITIAL_WINDOW + 1))


def _watching(facts: Facts, basis: Basis, plan: Plan) -> Iterator[Advice]:
    """Every worker watches every directory that it serves from."""
    if basis.config.files.stat_cache != "inotify":
        return
    directories = sum(content.directories or 0 for content in facts.content)
    running, watches = whole(plan.number("server.workers")), whole(plan.number("files.watches"))
    need = directories * running
    if facts.inotify.watches is not None and need > watches:
        yield Advice(
            topic="inotify watches",
            problem=f"{many(directories, 'directory', 'directories')} under the roots, watched by"
            f" {many(running, 'worker')}, and {watches:,} watches for them",
            commands=(f"sysctl -w fs.inotify.max_user_watches={need * 4}",),
            gain=f"{need - watches:,} watches more: changes there are seen at once, and not after"
            " files.stale_bound",
        )
    instances = facts.inotify.instances
    if instances is not None and instances < running:
        yield Advice(
            topic="inotify instances",
            problem=f"{instances:,} for {many(running, 'worker')}, which take one each",
            commands=(f"sysctl -w fs.inotify.max_user_instances={max(128, running * 2)}",),
            gain=f"{many(running - instances, 'worker')} more see changes at once",
        )


def _port(port: Link, running: int) -> Iterator[Advice]:
    if port.kind in FICTION:
        return
    yield from _queue(port)
    yield from _offloads(port)
    yield from _rings(port)
    yield from _queues(port, running)
    yield from _errors(port)


def _queues(port: Link, running: int) -> Iterator[Advice]:
    queues, most = max(port.tx_queues or 0, port.rx_queues or 0), port.queues_supported or 0
    wanted = min(most, running)
    if 0 < queues < wanted:
        yield Advice(
            topic="queues",
            problem=f"{port.name} has {many(queues, 'queue')} for {many(running, 'worker')}"
            f" and could have {most}",
            commands=(f"ethtool -L {port.name} combined {wanted}",),
            gain=f"{wanted} cores handle packets instead of {queues}",
        )


def _errors(port: Link) -> Iterator[Advice]:
    counters = port.counters
    broken = (counters.rx_errors or 0) + (counters.tx_errors or 0)
    packets = (counters.rx_packets or 0) + (counters.tx_packets or 0)
    if broken > packets * TROUBLE:
        yield Advice(
            topic="errors",
            problem=f"{port.name} counted {broken:,} broken packets of {packets:,}",
            commands=(f"ethtool -S {port.name}",),
            gain="TCP takes each for congestion and slows down; look at cable, plug and port",
        )


def _queue(port: Link) -> Iterator[Advice]:
    """In a plain queue a small answer waits behind all that bulk downloads put there."""
    if port.qdisc != "pfifo_fast" or not port.speed or not port.queue_length:
        return
    packet = (port.mtu or 1500) + assumptions.FRAME
    wait = port.queue_length * packet * 8 / port.speed
    if wait > LONG_WAIT:
        yield Advice(
            topic="queue",
            problem=f"{port.name} has one plain queue: a small answer may wait behind"
            f" {port.queue_length:,} packets of bulk",
            commands=(f"tc qdisc replace dev {port.name} root fq",
                      "sysctl -w net.core.default_qdisc=fq"),
            gain=f"up to {seconds(wait)} less for small answers beside full downloads",
        )  # fmt: skip


def _offloads(port: Link) -> Iterator[Advice]:
    offloads = port.offloads or {}
    flags = {"tcp-segmentation-offload": "tso", "generic-segmentation-offload": "gso",
             "scatter-gather": "sg"}  # fmt: skip
    off = [
        short
        for name, short in flags.items()
        if offloads.get(name) is False and name not in port.offloads_fixed
    ]
    if off and port.speed:
        packets = port.speed / 8 / ((port.mtu or 1500) + assumptions.FRAME)
        large = port.speed / 8 / 65536
        yield Advice(
            topic="offloads",
            problem=f"{port.name} has {', '.join(off)} switched off",
            commands=(f"ethtool -K {port.name} {' '.join(f'{short} on' for short in off)}",),
            gain=f"the kernel hands over {count(large)} large packets a second at full speed"
            f" instead of {count(packets)}",
        )


def _rings(port: Link) -> Iterator[Advice]:
    missed, most = port.counters.rx_missed or 0, port.rx_ring_supported or 0
    if missed > (port.counters.rx_packets or 0) * TROUBLE and (port.rx_ring or most) < most:
        yield Advice(
            topic="ring",
            problem=f"{port.name} missed {missed:,} packets with a ring of {port.rx_ring:,}",
            commands=(f"ethtool -G {port.name} rx {most}",),
            gain=f"bursts {significant(most / max(1, port.rx_ring or 1))} times as long fit",
        )
