"""What /proc and /sys say of the network interfaces, where netlink cannot be asked.

The same questions as `link` answers, and the same caution: sysfs shows the namespace of
whoever mounted it, so an interface is believed only where index and hardware address there
are those that ioctls give for our own namespace (netdevice(7)). What only netlink and ethtool
tell (shapers, rings, offloads, counters) stays unknown. Needs no pyroute2 and some 5 ms.
"""

from __future__ import annotations

import fcntl
import os
import socket
import struct
from collections.abc import Iterator
from contextlib import suppress
from ipaddress import ip_address
from pathlib import Path

from edgebox.plan.facts import Link, LinkKind

SYSFS = Path("/sys/class/net")
PROC = Path("/proc/net")

# linux/sockios.h
_SIOCGIFADDR, _SIOCGIFHWADDR = 0x8915, 0x8927

# DEVTYPE in an interface's uevent, by the kernel's SET_NETDEV_DEVTYPE.
_KINDS: dict[str, LinkKind] = {
    "bond": "bond",
    "bridge": "bridge",
    "vlan": "vlan",
    "macvlan": "macvlan",
    "wlan": "wireless",
    "wwan": "wireless",
    "vxlan": "tunnel",
    "wireguard": "tunnel",
    "geneve": "tunnel",
}
_ON_OTHERS = {"bond", "bridge", "vlan", "macvlan"}
_LOOPBACK = 772  # ARPHRD_LOOPBACK, if_arp.h
_UP, _REJECT = 0x1, 0x200  # flags of a route, linux/route.h
MEGABIT = 1_000_000

# Cards that a hypervisor paints: what they say of speed is its word, not a wire's.
PARAVIRTUAL = {"virtio_net", "vmxnet3", "hv_netvsc", "vif", "xen_netfront", "netfront", "gve"}


class SystemInterfaces:
    """One look at the interfaces. Raises OSError where not even /proc tells of any."""

    def __init__(self) -> None:
        lines = (PROC / "dev").read_text().splitlines()[2:]
        names = [line.partition(":")[0].strip() for line in lines]
        self._names = {index: name for name in names if (index := _index(name)) is not None}

    def named(self, name: str) -> int | None:
        """Index of the interface of that name."""
        return next((index for index, held in self._names.items() if held == name), None)

    def holding(self, address: str) -> int | None:
        """Index of the interface that has an IP address: of IPv4, as its first."""
        wanted = ip_address(address)
        if wanted.version == 6:
            for words in _rows(PROC / "if_inet6"):
                if words[0] == wanted.packed.hex():
                    return self.named(words[-1])
            return None
        return next((i for i, name in self._names.items() if _ipv4(name) == wanted.packed), None)

    def default(self) -> int | None:
        """Index of the interface of the best default route: IPv4 first, then the lowest metric."""
        routes = [
            (int(words[6]), words[0])
            for words in _rows(PROC / "route")
            if words[1] == words[7] == "00000000" and int(words[3], 16) & _UP
        ] or [
            (int(words[5], 16), words[9])
            for words in _rows(PROC / "ipv6_route")
            if words[:2] == ["0" * 32, "00"] and int(words[8], 16) & (_UP | _REJECT) == _UP
        ]
        return self.named(min(routes)[1]) if routes else None

    def chain(self, index: int) -> tuple[Link, ...]:
        """The interface, and what it stands on down to the ports; breadth first, each once."""
        waiting, seen, links = [self._names[index]], {self._names[index]}, []
        while waiting:
            link = _link(waiting.pop(0), seen)
            links.append(link)
            seen.update(link.lower)
            waiting += link.lower
        return tuple(links)


def _link(name: str, seen: set[str]) -> Link:
    path = SYSFS / name
    if not _is_ours(name, path):
        return Link(name=name)
    kind = _kind(path)
    real = (path / "device").exists() or kind == "bond"
    speed = _number(path / "speed") if real else None
    lower = sorted(found.name.removeprefix("lower_") for found in path.glob("lower_*"))
    duplex = _text(path / "duplex")
    return Link(
        name=name,
        kind=kind,
        driver=_driver(path),
        up=_is_up(path),
        speed=speed * MEGABIT if speed else None,
        duplex="full" if duplex == "full" else "half" if duplex == "half" else None,
        mtu=_number(path / "mtu"),
        queue_length=_number(path / "tx_queue_len"),
        rx_queues=len(list(path.glob("queues/rx-*"))) or None,
        tx_queues=len(list(path.glob("queues/tx-*"))) or None,
        bond_mode=_text(path / "bonding" / "mode").partition(" ")[0] or None,
        lower=tuple(n for n in lower if n not in seen) if kind in _ON_OTHERS else (),
    )


def _is_up(path: Path) -> bool | None:
    state = _text(path / "operstate")
    if state == "unknown":  # a driver that does not say, and lo; carrier is EINVAL while down
        return _number(path / "carrier") == 1
    return state == "up" if state else None


def _kind(path: Path) -> LinkKind:
    if _number(path / "type") == _LOOPBACK:
        return "loopback"
    told = dict(line.partition("=")[::2] for line in _text(path / "uevent").splitlines())
    if kind := _KINDS.get(told.get("DEVTYPE", "")):
        return kind
    if (path / "wireless").exists() or (path / "phy80211").exists():
        return "wireless"
    if (path / "tun_flags").exists():
        return "tunnel"
    if not (path / "device").exists():
        # Made in software. A veth's other end has another index, in whatever namespace.
        return "veth" if _number(path / "iflink") != _number(path / "ifindex") else "other"
    return "paravirtual" if (_driver(path) or "") in PARAVIRTUAL else "ethernet"


def _driver(path: Path) -> str | None:
    try:
        return Path(os.readlink(path / "device" / "driver")).name
    except OSError:
        return None


def _is_ours(name: str, path: Path) -> bool:
    """Whether what sysfs shows under this name is the interface of our namespace."""
    address = _ioctl(name, _SIOCGIFHWADDR)
    told = _text(path / "address").replace(":", "")
    return _number(path / "ifindex") == _index(name) and address is not None and (
        address[18 : 18 + len(told) // 2].hex() == told
    )  # fmt: skip


def _index(name: str) -> int | None:
    try:
        return socket.if_nametoindex(name)
    except OSError:  # gone meanwhile
        return None


def _ipv4(name: str) -> bytes | None:
    """The first address of an interface: struct ifreq holds a sockaddr_in behind 16 octets."""
    answer = _ioctl(name, _SIOCGIFADDR)
    return None if answer is None else answer[20:24]


def _ioctl(name: str, request: int) -> bytes | None:
    with suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        return fcntl.ioctl(sock, request, struct.pack("16s24x", os.fsencode(name)))
    return None


def _rows(path: Path) -> Iterator[list[str]]:
    """Lines of a table in /proc/net, as words; a header that is no row never matches."""
    for line in _text(path).splitlines():
        words = line.split()
        if words and words[0] != "Iface":
            yield words


def _number(path: Path) -> int | None:
    try:
        number = int(_text(path))
    except ValueError:
        return None
    return number if number >= 0 else None


def _text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:  # EINVAL too: this kind of interface has no such thing
        return ""
