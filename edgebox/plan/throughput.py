"""What the link carries, where requests rather than bytes are the limit, and what runs out.

Pure. Every ceiling is put in one measure, payload bytes a second for answers of the mean
size, so that link, processor, disk and connections can be set side by side and the first
two to run out can be named.
"""

from __future__ import annotations

from collections.abc import Mapping

from edgebox.plan.assumptions import DISK_RATE, RESPONSE_HEAD
from edgebox.plan.basis import Basis
from edgebox.plan.figures import Ceiling, Number, Resource
from edgebox.plan.quantity import count, many, rate, seconds, significant, size


def answers(basis: Basis) -> float | None:
    """Answers of the mean size that the link carries in a second."""
    if basis.goodput is None:
        return None
    return basis.goodput / (basis.object_size + RESPONSE_HEAD)


def lane_microseconds(basis: Basis, octets: float) -> float:
    """CPU time of an answer in the express lane."""
    return basis.costs.request + basis.costs.byte / 1000 * octets


def busy_cores(basis: Basis, workers: int) -> float:
    """Cores' worth of time that so many workers can use."""
    return min(float(workers), basis.cores)


def link_numbers(basis: Basis) -> tuple[Number, ...]:
    """Speed, payload and answers a second."""
    link, carried = basis.link, answers(basis)
    return (
        Number(
            key="nic.speed",
            value=link.speed,
            unit="bits/s",
            origin="planned" if link.speed is not None else "assumed",
            reason=link.reason,
            sum=link.sum,
            inputs=basis.cite("nic.speed"),
        ),
        Number(
            key="link.goodput",
            value=None if basis.goodput is None else int(basis.goodput),
            unit="bytes/s",
            reason="what the headers of Ethernet, IP and TCP leave"
            if basis.goodput is not None
            else "the link's speed is unknown; nic.speed can say it",
            sum=basis.goodput_sum,
            inputs=basis.cite("nic.speed", "mtu", "share of Wi-Fi's bit rate"),
        ),
        Number(
            key="link.answers",
            value=None if carried is None else round(carried, 3),
            unit="1/s",
            reason=f"answers of {size(basis.object_size)} that fill the link",
            sum=""
            if basis.goodput is None or carried is None
            else f"{rate(basis.goodput)} ÷ ({size(basis.object_size)} + {RESPONSE_HEAD} B of head)"
            f" = {count(carried)}/s",
            inputs=basis.cite("mean object", "response head"),
        ),
    )


def crossover(basis: Basis, workers: int) -> Number:
    """Object size at which the processor's requests and the link's bytes run out together.

    cores ÷ (a + b·S) = goodput ÷ (S + head), solved for S.
    """
    key = "requests.crossover"
    cited = basis.cite("µs a request", "ns a byte", "nic.speed", "response head", "cpu quota")
    if basis.goodput is None:
        reason = "the link's speed is unknown, so which runs out first is too"
        return Number(key=key, value=None, unit="bytes", origin="assumed", reason=reason)
    fixed, each = basis.costs.request / 1e6, basis.costs.byte / 1e9
    cores = busy_cores(basis, workers)
    need, spare = basis.goodput * fixed - cores * RESPONSE_HEAD, cores - basis.goodput * each
    if spare <= 0:
        return Number(
            key=key,
            value=None,
            unit="bytes",
            reason="the processor is the limit at every size: its work per byte alone exceeds it",
            sum=f"{rate(basis.goodput)} × {significant(basis.costs.byte)} ns a byte"
            f" = {significant(basis.goodput * each)} cores, of {significant(cores)}",
            inputs=cited,
        )
    value = max(0, round(need / spare))
    return Number(
        key=key,
        value=value,
        unit="bytes",
        reason="below this size requests run out before the link does"
        if value
        else "the link runs out first at every size",
        sum=f"({rate(basis.goodput)} × {significant(basis.costs.request)} µs"
        f" − {significant(cores)} × {RESPONSE_HEAD} B)"
        f" ÷ ({significant(cores)} − {rate(basis.goodput)}"
        f" × {significant(basis.costs.byte)} ns) = {size(value)}",
        inputs=cited,
    )


def ceilings(
    basis: Basis, workers: int, slots: Mapping[Resource, int], cached: int | None
) -> tuple[Ceiling, ...]:
    """Every resource's ceiling, the first to be reached first; those unknown at the end.

    `slots` are the connections that each resource allows; `cached` the bytes of content
    that RAM can hold, None where unknown.
    """
    found = [
        _link_ceiling(basis),
        _processor_ceiling(basis, workers),
        _disk_ceiling(basis, cached),
        *(_slot_ceiling(basis, resource, number) for resource, number in slots.items()),
    ]
    return tuple(sorted(found, key=lambda c: (c.rate is None, c.rate or 0.0)))


def _ceiling(
    basis: Basis, resource: Resource, responses: float | None, reason: str, text: str = ""
) -> Ceiling:
    rounded = None if responses is None else round(responses, 3)
    carried = None if responses is None else round(responses * basis.object_size, 3)
    return Ceiling(resource=resource, rate=carried, responses=rounded, reason=reason, sum=text)


def _link_ceiling(basis: Basis) -> Ceiling:
    carried = answers(basis)
    if carried is None or basis.goodput is None:
        return _ceiling(basis, "link", None, basis.link.reason)
    text = f"{rate(basis.goodput)} ÷ {size(basis.object_size + RESPONSE_HEAD)}"
    return _ceiling(basis, "link", carried, basis.link.reason, f"{text} = {count(carried)}/s")


def _processor_ceiling(basis: Basis, workers: int) -> Ceiling:
    cores = busy_cores(basis, workers)
    each = lane_microseconds(basis, basis.object_size)
    carried = cores * 1e6 / each
    text = (
        f"{significant(cores)} × 1 s ÷ ({significant(basis.costs.request)} µs +"
        f" {count(basis.object_size)} × {significant(basis.costs.byte)} ns)"
        f" = {count(carried)}/s"
    )
    return _ceiling(
        basis,
        "processor",
        carried,
        f"{many(workers, 'worker')}, hot answers ({basis.costs.source})",
        text,
    )


def _disk_ceiling(basis: Basis, cached: int | None) -> Ceiling:
    """The disk sees only what RAM does not hold: more RAM is a faster disk."""
    content = basis.content
    if content is None or cached is None:
        reason = "how much is under the roots is unknown, so how often it is read is too"
        return _ceiling(basis, "disk", None, reason)
    if content <= cached:
        reason = f"not needed: all {size(content)} under the roots fit in {size(cached)} of RAM"
        return _ceiling(basis, "disk", None, reason)
    missed = (content - cached) / content
    reason = f"RAM holds {size(cached)} of {size(content)}; the rest is read from disk"
    if basis.disk is None:
        return _ceiling(basis, "disk", None, f"{reason}, whose speed is unknown")
    reading = DISK_RATE[basis.disk]
    carried = reading / missed / basis.object_size
    text = (
        f"{rate(reading)} ({basis.disk}) ÷ (1 − {size(cached)} ÷ {size(content)})"
        f" ÷ {size(basis.object_size)} = {count(carried)}/s"
    )
    return _ceiling(basis, "disk", carried, reason, text)


def _slot_ceiling(basis: Basis, resource: Resource, number: int) -> Ceiling:
    """Little's law: a connection lives two round trips at least, one to open and one to ask."""
    carried = number / (2 * basis.round_trip)
    text = f"{number:,} ÷ (2 × {seconds(basis.round_trip)}) = {count(carried)}/s"
    reason = f"{number:,} connections at once, one answer each"
    return _ceiling(basis, resource, carried, reason, text)
