"""What netlink, ethtool and sysfs say of the network interfaces.

The one place that speaks pyroute2. Its import costs a quarter of a second and 24 MiB, and
its calls block for some milliseconds, so it is imported when interfaces are really looked
at, and that happens in the supervisor or a short-lived child, never in a worker.

`Interfaces` is one look at all interfaces. Which lies on which comes from netlink, which
answers for the namespace we are in. sysfs shows the namespace of whoever mounted it,
so it is believed only where it has the same index and hardware address under the name.
Nothing below knows what the facts are for.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from ipaddress import ip_address
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, TypeVar

from edgebox.plan.facts import Counters, Link, LinkKind

SYSFS = Path("/sys/class/net")

LOOPBACK = 772  # ARPHRD_LOOPBACK, if_arp.h
MEGABIT = 1_000_000

# What an interface is, by the kind that netlink gives those made in software.
_KINDS: dict[str, LinkKind] = {
    "bond": "bond",
    "team": "team",
    "bridge": "bridge",
    "vrf": "bridge",  # like a bridge, it is only as fast as what is enslaved to it
    "vlan": "vlan",
    "macvlan": "macvlan",
    "macvtap": "macvlan",
    "ipvlan": "macvlan",
    "macsec": "macvlan",
    "veth": "veth",
    "netkit": "veth",
    "tun": "tunnel",
    "wireguard": "tunnel",
    "vxlan": "tunnel",
    "geneve": "tunnel",
    "gre": "tunnel",
    "ipip": "tunnel",
    "sit": "tunnel",
}
_ON_PARENT = {"vlan", "macvlan"}  # IFLA_LINK is the interface below; for veth it is the peer
_ON_PORTS = {"bond", "team", "bridge"}  # IFLA_MASTER of the ports points here

# Cards that a hypervisor paints: what they say of speed is its word, not a wire's.
PARAVIRTUAL = {"virtio_net", "vmxnet3", "hv_netvsc", "vif", "xen_netfront", "netfront", "gve"}

# What ethtool -k calls an offload, and the kernel's feature that says whether it can be switched.
OFFLOADS = {
    "scatter-gather": "tx-scatter-gather",
    "tcp-segmentation-offload": "tx-tcp-segmentation",
    "generic-segmentation-offload": "tx-generic-segmentation",
    "generic-receive-offload": "rx-gro",
}

# linux/if_bonding.h
_BOND_MODES = (
    "balance-rr",
    "active-backup",
    "balance-xor",
    "broadcast",
    "802.3ad",
    "balance-tlb",
    "balance-alb",
)

_Row = Any  # a netlink message: a dict with get_attr
_Answer = TypeVar("_Answer")


class Interfaces:
    """One look at the interfaces, addresses and routes of this network namespace.

    A context manager: pyroute2's sockets leak four descriptors each if they are not closed.
    Raises OSError where netlink itself cannot be had.
    """

    def __init__(self) -> None:
        # Deferred: `edgebox plan --facts F` and everything else live without it.
        from pyroute2 import IPRoute, NetlinkError
        from pyroute2.ethtool.ethtool import Ethtool

        with ExitStack() as opened:
            try:
                self._route = opened.enter_context(IPRoute())
                self._ethtool = opened.enter_context(Ethtool())
                self._rows: dict[int, _Row] = {r["index"]: r for r in self._route.get_links()}
                shapes = ((r["index"], _shape(r)) for r in self._route.get_qdiscs())
                self._shapes = {index: rate for index, rate in shapes if rate}
                self._addresses = list(self._route.get_addr())
                self._defaults = list(self._route.get_default_routes())
            except NetlinkError as problem:
                raise OSError(problem.code, str(problem)) from problem
            self._close = opened.pop_all().close

    def __enter__(self) -> Interfaces:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._close()

    # which interface

    def named(self, name: str) -> int | None:
        """Index of the interface of that name."""
        return next((i for i, row in self._rows.items() if _name(row) == name), None)

    def holding(self, address: str) -> int | None:
        """Index of the interface that has an IP address."""
        wanted = ip_address(address)
        for row in self._addresses:
            for field in ("IFA_LOCAL", "IFA_ADDRESS"):
                held = row.get_attr(field)
                if held and ip_address(held) == wanted:
                    return int(row["index"])
        return None

    def default(self) -> int | None:
        """Index of the interface of the best default route: IPv4 first, then the lowest metric."""
        best: tuple[bool, int, int] | None = None
        for row in self._defaults:
            hops = row.get_attr("RTA_MULTIPATH") or []
            out = row.get_attr("RTA_OIF") or next((hop["oif"] for hop in hops), None)
            if out in self._rows:
                found = (row["family"] != 2, row.get_attr("RTA_PRIORITY") or 0, int(out))
                best = found if best is None else min(best, found)
        return best[2] if best else None

    # what it is

    def chain(self, index: int) -> tuple[Link, ...]:
        """The interface, and what it stands on down to the ports; breadth first, each once."""
        waiting, seen, links = [index], {index}, []
        while waiting:
            row = self._rows[waiting.pop(0)]
            lower = [i for i in self._below(row) if i not in seen]
            links.append(self._link(row, tuple(_name(self._rows[i]) for i in lower)))
            seen.update(lower)
            waiting += lower
        return tuple(links)

    def _below(self, row: _Row) -> Iterator[int]:
        kind = _kind(row)
        if kind in _ON_PARENT:
            parent = row.get_attr("IFLA_LINK")
            # A parent in another namespace has an index there, which means nothing here.
            if row.get_attr("IFLA_LINK_NETNSID") is None and parent in self._rows:
                yield parent
        elif kind in _ON_PORTS:
            for index, other in self._rows.items():
                if other.get_attr("IFLA_MASTER") == row["index"]:
                    yield index

    def _link(self, row: _Row, lower: tuple[str, ...]) -> Link:
        name = _name(row)
        mode = _asked(lambda: self._ethtool.get_link_mode(name))
        rings = _asked(lambda: self._ethtool.get_rings(name))
        channels = _asked(lambda: self._ethtool.get_channels(name))
        features = _asked(lambda: self._ethtool.get_features(name).features)
        sysfs = _sysfs(row)
        driver = _driver(sysfs)
        return Link(
            name=name,
            kind=_kind(row) or _card_kind(sysfs, driver),
            driver=driver,
            up=_up(row),
            speed=mode.speed * MEGABIT if mode and mode.speed else None,
            speed_supported=_fastest(mode.supported_modes) if mode else None,
            duplex=_duplex(mode.duplex) if mode else None,
            shaped=self._shapes.get(row["index"]),
            mtu=row.get_attr("IFLA_MTU"),
            queue_length=row.get_attr("IFLA_TXQLEN"),
            qdisc=row.get_attr("IFLA_QDISC"),
            rx_queues=_queues(channels, "rx_count") or row.get_attr("IFLA_NUM_RX_QUEUES"),
            tx_queues=_queues(channels, "tx_count") or row.get_attr("IFLA_NUM_TX_QUEUES"),
            queues_supported=_queues_supported(channels),
            rx_ring=rings.rx if rings else None,
            rx_ring_supported=rings.rx_max if rings else None,
            tx_ring=rings.tx if rings else None,
            tx_ring_supported=rings.tx_max if rings else None,
            offloads=_offloads(features),
            offloads_fixed=tuple(
                name
                for name, feature in OFFLOADS.items()
                if features and feature in features and not features[feature].available
            ),
            bond_mode=_bond_mode(row),
            lower=lower,
            counters=_counters(row),
        )


def _asked(question: Callable[[], _Answer]) -> _Answer | None:
    """What ethtool answers, or None where driver, kernel or pyroute2 does not know.

    pyroute2 raises its own NotSupportedError (lo, bridges), OSError from the ioctl, KeyError
    and its kin for link modes newer than its tables, and AttributeError or TypeError where a
    reply lacks what it looks for. None of them says more than "not known here".
    """
    from pyroute2.ethtool.ioctl import EthtoolError

    try:
        return question()
    except (EthtoolError, OSError, LookupError, AttributeError, TypeError, ValueError):
        return None


def _name(row: _Row) -> str:
    return str(row.get_attr("IFLA_IFNAME"))


def _info(row: _Row, field: str) -> Any:
    info = row.get_attr("IFLA_LINKINFO")
    return info.get_attr(field) if info else None


def _kind(row: _Row) -> LinkKind | None:
    """Kind of an interface made in software; None for one with a device behind it."""
    if row["ifi_type"] == LOOPBACK:
        return "loopback"
    kind = _info(row, "IFLA_INFO_KIND")
    return _KINDS.get(kind, "other") if kind else None


def _card_kind(sysfs: Path | None, driver: str | None) -> LinkKind | None:
    if sysfs is None:
        return None
    if (sysfs / "phy80211").exists() or (sysfs / "wireless").exists():
        return "wireless"
    if driver in PARAVIRTUAL:
        return "paravirtual"
    return "ethernet" if (sysfs / "device").exists() else "other"


def _sysfs(row: _Row) -> Path | None:
    """The interface's directory, if the sysfs we see is that of our namespace."""
    path = SYSFS / _name(row)
    try:
        index = int((path / "ifindex").read_text())
        address = (path / "address").read_text().strip()
    except (OSError, ValueError):
        return None
    same = index == row["index"] and address == (row.get_attr("IFLA_ADDRESS") or "")
    return path if same else None


def _driver(sysfs: Path | None) -> str | None:
    if sysfs is None:
        return None
    try:
        return Path(os.readlink(sysfs / "device" / "driver")).name
    except OSError:
        return None


def _up(row: _Row) -> bool | None:
    state = row.get_attr("IFLA_OPERSTATE")
    if state in (None, "UNKNOWN"):  # RFC 2863: a driver that does not tell
        carrier = row.get_attr("IFLA_CARRIER")
        return None if carrier is None else bool(carrier) and row.get("state") == "up"
    return bool(state == "UP")


def _duplex(text: str | None) -> Literal["full", "half"] | None:
    return "full" if text == "Full" else "half" if text == "Half" else None


def _fastest(modes: list[str]) -> int | None:
    """The fastest of ethtool's mode names, such as 1000baseT/Full or 25000baseCR/Full."""
    speeds = [int(mode.split("base")[0]) for mode in modes if mode.split("base")[0].isdigit()]
    return max(speeds) * MEGABIT if speeds else None


def _offloads(features: dict[str, Any] | None) -> dict[str, bool] | None:
    if features is None:
        return None
    return {
        name: bool(features[feature].enable)
        for name, feature in OFFLOADS.items()
        if feature in features
    }


def _queues(channels: Any, field: str) -> int | None:
    if channels is None:
        return None
    return (getattr(channels, field) + channels.combined_count) or None


def _queues_supported(channels: Any) -> int | None:
    if channels is None:
        return None
    return max(channels.max_combined, channels.max_rx, channels.max_tx) or None


def _bond_mode(row: _Row) -> str | None:
    data = _info(row, "IFLA_INFO_DATA") if _kind(row) == "bond" else None
    mode = data.get_attr("IFLA_BOND_MODE") if data else None
    return _BOND_MODES[mode] if isinstance(mode, int) and mode < len(_BOND_MODES) else None


def _shape(row: _Row) -> int | None:
    """Bits a second of a token bucket at an interface's root."""
    if row["parent"] != 0xFFFFFFFF or row.get_attr("TCA_KIND") != "tbf":
        return None
    options = row.get_attr("TCA_OPTIONS")
    parameters = options.get_attr("TCA_TBF_PARMS") if options else None
    # The 32-bit field is full from 34 Gbit/s on; the true rate is then elsewhere.
    rate = parameters["rate"] if parameters else 0
    return rate * 8 if 0 < rate < 0xFFFFFFFF else None


def _counters(row: _Row) -> Counters:
    stats = row.get_attr("IFLA_STATS64") or {}
    return Counters(
        rx_packets=stats.get("rx_packets"),
        tx_packets=stats.get("tx_packets"),
        rx_errors=stats.get("rx_errors"),
        tx_errors=stats.get("tx_errors"),
        rx_dropped=stats.get("rx_dropped"),
        tx_dropped=stats.get("tx_dropped"),
        rx_missed=stats.get("rx_missed_errors"),
        collisions=stats.get("collisions"),
        carrier_changes=row.get_attr("IFLA_CARRIER_CHANGES"),
    )
