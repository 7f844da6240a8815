"""What one answer of netlink or ethtool says of an interface, in the words of the facts.

Pure: messages in, facts out. A message is what pyroute2 gives: a dict with `get_attr`. Whatever
it does not hold is None. Knows neither sockets nor sysfs; `link` asks, this reads.
"""

from __future__ import annotations

from typing import Any, Literal

from edgebox.plan.facts import Counters, LinkKind

LOOPBACK = 772  # ARPHRD_LOOPBACK, if_arp.h
MEGABIT = 1_000_000  # ethtool counts in these

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
ON_PARENT = {"vlan", "macvlan"}  # IFLA_LINK is the interface below; for veth it is the peer
ON_PORTS = {"bond", "team", "bridge"}  # IFLA_MASTER of the ports points here

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

# What ethtool -k calls an offload, and the kernel's feature that says whether it can be switched.
OFFLOADS = {
    "scatter-gather": "tx-scatter-gather",
    "tcp-segmentation-offload": "tx-tcp-segmentation",
    "generic-segmentation-offload": "tx-generic-segmentation",
    "generic-receive-offload": "rx-gro",
}

Row = Any  # a netlink message: a dict with get_attr


def name_of(row: Row) -> str:
    return str(row.get_attr("IFLA_IFNAME"))


def info(row: Row, field: str) -> Any:
    info = row.get_attr("IFLA_LINKINFO")
    return info.get_attr(field) if info else None


def kind_of(row: Row) -> LinkKind | None:
    """Kind of an interface made in software; None for one with a device behind it."""
    if row["ifi_type"] == LOOPBACK:
        return "loopback"
    kind = info(row, "IFLA_INFO_KIND")
    return _KINDS.get(kind, "other") if kind else None


def is_up(row: Row) -> bool | None:
    state = row.get_attr("IFLA_OPERSTATE")
    if state in (None, "UNKNOWN"):  # RFC 2863: a driver that does not tell
        carrier = row.get_attr("IFLA_CARRIER")
        return None if carrier is None else bool(carrier) and row.get("state") == "up"
    return bool(state == "UP")


def duplex(text: str | None) -> Literal["full", "half"] | None:
    return "full" if text == "Full" else "half" if text == "Half" else None


def fastest(modes: list[str]) -> int | None:
    """The fastest of ethtool's mode names, such as 1000baseT/Full or 25000baseCR/Full."""
    speeds = [int(mode.split("base")[0]) for mode in modes if mode.split("base")[0].isdigit()]
    return max(speeds) * MEGABIT if speeds else None


def offloads(features: dict[str, Any] | None) -> dict[str, bool] | None:
    if features is None:
        return None
    return {
        name: bool(features[feature].enable)
        for name, feature in OFFLOADS.items()
        if feature in features
    }


def queues(channels: Any, field: str) -> int | None:
    if channels is None:
        return None
    return (getattr(channels, field) + channels.combined_count) or None


def queues_supported(channels: Any) -> int | None:
    if channels is None:
        return None
    return max(channels.max_combined, channels.max_rx, channels.max_tx) or None


def bond_mode(row: Row) -> str | None:
    data = info(row, "IFLA_INFO_DATA") if kind_of(row) == "bond" else None
    mode = data.get_attr("IFLA_BOND_MODE") if data else None
    return _BOND_MODES[mode] if isinstance(mode, int) and mode < len(_BOND_MODES) else None


def shape(row: Row) -> int | None:
    """Bits a second of a token bucket at an interface's root."""
    if row["parent"] != 0xFFFFFFFF or row.get_attr("TCA_KIND") != "tbf":
        return None
    options = row.get_attr("TCA_OPTIONS")
    parameters = options.get_attr("TCA_TBF_PARMS") if options else None
    # The 32-bit field is full from 34 Gbit/s on; the true rate is then elsewhere.
    rate = parameters["rate"] if parameters else 0
    return rate * 8 if 0 < rate < 0xFFFFFFFF else None


def counters(row: Row) -> Counters:
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
