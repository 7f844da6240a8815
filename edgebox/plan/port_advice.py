"""What would help at one port, from its queue to its cable: the ethtool and tc lines.

Pure. A port that does its work gets no word, and neither does one made in software; a share
of trouble so small that nobody would notice is no trouble.
"""

from __future__ import annotations

from collections.abc import Iterator

from edgebox.plan.assumptions import FICTION, FRAME
from edgebox.plan.facts import Link
from edgebox.plan.figures import Advice
from edgebox.plan.quantity import bits, count, many, seconds, significant

TROUBLE = 1e-4  # share of packets lost or broken from which it is worth a word
LONG_WAIT = 0.005  # seconds in a queue that a person in front of a page may come to notice


def about_wire(port: Link) -> Iterator[Advice]:
    """What keeps the wire itself below its speed."""
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


def about_port(port: Link, running: int) -> Iterator[Advice]:
    """What would help on the way to the wire; `running` is the number of workers."""
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
    packet = (port.mtu or 1500) + FRAME
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
        packets = port.speed / 8 / ((port.mtu or 1500) + FRAME)
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
