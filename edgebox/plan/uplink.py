"""How fast the box can reach the world: the speed of an interface followed down to its ports.

Pure: facts in, a speed and the reason out. Where an interface stands on others, its speed
is theirs: a bond adds its active ports up or keeps to one, a VLAN has its trunk's, a bridge
its one real port's. A speed that is a fiction (veth) or not told (most virtio) is unknown.
"""

from __future__ import annotations

from edgebox.plan import quantity
from edgebox.plan.assumptions import FICTION
from edgebox.plan.facts import Link, LinkKind, Network, Record, Via

# Bond modes in which several ports carry traffic at once (the kernel's bonding.rst).
_ADDING = {"balance-rr", "balance-xor", "802.3ad", "balance-tlb", "balance-alb"}
_REAL: frozenset[LinkKind] = frozenset({"ethernet", "paravirtual", "wireless", "bond", "team"})


class Uplink(Record, frozen=True, kw_only=True):
    """What the interface carries. `speed` is bits a second; `ports` those it ends at."""

    interface: str | None = None
    via: Via | None = None
    speed: int | None = None
    reason: str
    sum: str = ""
    mtu: int | None = None
    wireless: bool = False
    ports: tuple[Link, ...] = ()


class _Speed(Record, frozen=True, kw_only=True):
    speed: int | None
    reason: str
    sum: str = ""
    ports: tuple[Link, ...]


def uplink(network: Network, override: int | None = None) -> Uplink:
    """The link to plan for; an operator's word (`nic.speed`) goes before the card's."""
    links = {link.name: link for link in network.links}
    top = links.get(network.interface or "")
    if top is None:
        reason = "no interface is known" if override is None else "set by nic.speed"
        return Uplink(interface=network.interface, via=network.via, speed=override, reason=reason)
    found = _speed(top, links, {top.name})
    if override is not None:
        told = f"; {top.name} itself says {quantity.bits(found.speed)}" if found.speed else ""
        found = _Speed(speed=override, reason=f"set by nic.speed{told}", ports=found.ports)
    return Uplink(
        interface=top.name,
        via=network.via,
        speed=found.speed,
        reason=found.reason,
        sum=found.sum,
        mtu=top.mtu,
        wireless=any(port.kind == "wireless" for port in found.ports),
        ports=found.ports,
    )


def _speed(link: Link, links: dict[str, Link], seen: set[str]) -> _Speed:
    """Each interface counts once, so that no table of facts can send this in circles."""
    lower = []
    for name in link.lower:
        if name in links and name not in seen:
            seen.add(name)
            lower.append(_speed(links[name], links, seen))
    found = _resolve(link, lower)
    if link.shaped is not None and (found.speed is None or link.shaped < found.speed):
        reason = f"{link.name} is shaped by a token bucket"
        return _Speed(speed=link.shaped, reason=reason, ports=found.ports)
    return found


def _resolve(link: Link, lower: list[_Speed]) -> _Speed:
    if link.kind in ("bond", "team"):
        return _bonded(link, lower)
    if link.kind == "bridge":
        return _bridged(link, lower)
    if link.kind in ("vlan", "macvlan"):
        if not lower:
            return _unknown(link, f"{link.name} lies on an interface that cannot be seen from here")
        below = lower[0]
        reason = f"{link.name} lies on {link.lower[0]}; {below.reason}"
        return _Speed(speed=below.speed, reason=reason, sum=below.sum, ports=below.ports)
    return _port(link)


def _port(link: Link) -> _Speed:
    if link.kind in FICTION:
        return _unknown(link, f"{link.name} is a {link.kind} interface, whose speed is a fiction")
    if link.up is False:
        return _unknown(link, f"{link.name} is down")
    if link.speed is None:
        return _unknown(link, f"{link.name} ({link.driver or link.kind or 'no driver known'}) "
                        "does not tell its speed")  # fmt: skip
    how = "as its hypervisor promises" if link.kind == "paravirtual" else "as negotiated"
    duplex = f", {link.duplex} duplex" if link.duplex else ""
    reason = f"{link.name} at {quantity.bits(link.speed)}{duplex}, {how}"
    return _Speed(speed=link.speed, reason=reason, ports=(link,))


def _bonded(link: Link, lower: list[_Speed]) -> _Speed:
    ports = tuple(port for below in lower for port in below.ports)
    speeds = [below.speed for below in lower if below.speed]
    if not speeds:
        return _unknown(link, f"no port of {link.name} is up with a known speed", ports)
    mode = link.bond_mode or "a mode that is not known"
    if link.bond_mode in _ADDING:
        reason = f"{link.name} adds its active ports up ({mode}); one client still gets one port"
        total = sum(speeds)
        written = f"{' + '.join(map(quantity.bits, speeds))} = {quantity.bits(total)}"
        return _Speed(speed=total, reason=reason, sum=written, ports=ports)
    reason = f"{link.name} sends through one port at a time ({mode}): the slowest counts"
    written = f"min({', '.join(map(quantity.bits, speeds))}) = {quantity.bits(min(speeds))}"
    return _Speed(speed=min(speeds), reason=reason, sum=written, ports=ports)


def _bridged(link: Link, lower: list[_Speed]) -> _Speed:
    """A bridge's guests hang on veth and tap; the way out is a port with a wire."""
    real = [below for below in lower if any(port.kind in _REAL for port in below.ports)]
    known = [below for below in real if below.speed]
    ports = tuple(port for below in real for port in below.ports)
    if not known:
        return _unknown(link, f"no port of the bridge {link.name} has a known speed", ports)
    slowest = min(known, key=lambda below: below.speed or 0)
    which = "leads out through" if len(real) == 1 else "has several ways out; the slowest is"
    reason = f"{link.name} {which} {_names(slowest.ports)}; {slowest.reason}"
    return _Speed(speed=slowest.speed, reason=reason, sum=slowest.sum, ports=ports)


def _unknown(link: Link, reason: str, ports: tuple[Link, ...] | None = None) -> _Speed:
    return _Speed(speed=None, reason=reason, ports=(link,) if ports is None else ports)


def _names(ports: tuple[Link, ...]) -> str:
    return ", ".join(port.name for port in ports) or "nothing"
