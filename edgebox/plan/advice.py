"""What would help that edgebox does not do by itself: sysctl and ulimit lines.

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
from edgebox.plan.basis import Basis
from edgebox.plan.facts import Facts
from edgebox.plan.figures import Advice, Plan, whole
from edgebox.plan.port_advice import about_port, about_wire
from edgebox.plan.quantity import many, rate, seconds, size, written
from edgebox.plan.shares import LEAST

SEGMENT = 1448  # an Ethernet packet's payload under TCP with timestamps
INITIAL_WINDOW = 10  # segments, RFC 6928
MOST_DESCRIPTORS = 1_048_576  # fs.nr_open as Linux ships it
FEW_TRIPS = 5  # beyond, an answer takes so long that its slow start no longer matters

PACED = 0.995  # of the link: a little less, and its queue stands in edgebox
GAIN_OF_PACING = (
    "small answers pass downloads: on a shaped gigabit with 100 of them, p99 of 10 kB was"
    " 3.2 ms instead of 273 (2026-11-30)"
)

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
        *_link(basis),
        *(advice for port in basis.link.ports for advice in about_wire(port)),
        *_memory(basis),
        *_set_too_high(plan),
        *_descriptors(facts, basis, plan, again),
        *_accepting(facts, basis),
        *_sending(facts, basis),
        *_queueing(basis, running),
        *_watching(facts, basis, plan),
        *(advice for port in basis.link.ports for advice in about_port(port, running)),
    )


def _changed(facts: Facts, table: str, **to: Any) -> Facts:
    record = msgspec.structs.replace(getattr(facts, table), **to)
    return msgspec.structs.replace(facts, **{table: record})


def _link(basis: Basis) -> Iterator[Advice]:
    if basis.link.speed is None:
        yield Advice(
            topic="link speed",
            problem=f"unknown: {basis.link.reason}",
            commands=("edgebox plan --nic 1G", 'edgebox.toml: [nic] speed = "1 Gbit/s"'),
            gain="workers, buffers and the bottleneck are then reckoned from the link",
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


def _queueing(basis: Basis, running: int) -> Iterator[Advice]:
    """Not for several workers: each gets its part of the rate, whether or not it has use for it."""
    if basis.goodput is None or basis.config.limits.server_rate or running > 1:
        return
    if any(found for port in basis.link.ports for found in about_wire(port)):
        return  # the link is first to be mended, and then faster
    yield Advice(
        topic="a full link",
        problem="its queue is the card's, where small answers wait behind downloads",
        commands=(f'edgebox.toml: [limits] server_rate = "{rate(PACED * basis.goodput)}"',),
        gain=GAIN_OF_PACING,
    )


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
