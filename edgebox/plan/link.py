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
from typing import Any, TypeVar

from edgebox.plan import rows
from edgebox.plan.facts import Link, LinkKind
from edgebox.plan.sysfs import PARAVIRTUAL, SYSFS

_Answer = TypeVar("_Answer")


class Interfaces:
    """One look at the interfaces, addresses and routes of this network namespace.

    A context manager: pyroute2's sockets leak four descriptors each if they are not closed.
    Raises OSError where netlink itself cannot be had.
    """

    def __init__(self) -> None:
        # Deferred: `edgebox plan --facts F` and everything else live without it.
        from pyroute2.ethtool.ethtool import Ethtool
        from pyroute2.iproute.linux import IPRoute
        from pyroute2.netlink.exceptions import NetlinkError

        with ExitStack() as opened:
            try:
                self._route = opened.enter_context(IPRoute())
                self._ethtool = opened.enter_context(Ethtool())
                self._rows: dict[int, rows.Row] = {r["index"]: r for r in self._route.get_links()}
                shapes = ((r["index"], rows.shape(r)) for r in self._route.get_qdiscs())
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
        return next((i for i, row in self._rows.items() if rows.name_of(row) == name), None)

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
            links.append(self._link(row, tuple(rows.name_of(self._rows[i]) for i in lower)))
            seen.update(lower)
            waiting += lower
        return tuple(links)

    def _below(self, row: rows.Row) -> Iterator[int]:
        kind = rows.kind_of(row)
        if kind in rows.ON_PARENT:
            parent = row.get_attr("IFLA_LINK")
            # A parent in another namespace has an index there, which means nothing here.
            if row.get_attr("IFLA_LINK_NETNSID") is None and parent in self._rows:
                yield parent
        elif kind in rows.ON_PORTS:
            for index, other in self._rows.items():
                if other.get_attr("IFLA_MASTER") == row["index"]:
                    yield index

    def _link(self, row: rows.Row, lower: tuple[str, ...]) -> Link:
        name = rows.name_of(row)
        mode = _asked(lambda: self._ethtool.get_link_mode(name))
        rings = _asked(lambda: self._ethtool.get_rings(name))
        channels = _asked(lambda: self._ethtool.get_channels(name))
        features = _asked(lambda: self._ethtool.get_features(name).features)
        sysfs = _sysfs(row)
        driver = _driver(sysfs)
        return Link(
            name=name,
            kind=rows.kind_of(row) or _card_kind(sysfs, driver),
            driver=driver,
            up=rows.is_up(row),
            speed=_speed(mode, sysfs),
            speed_supported=rows.fastest(mode.supported_modes) if mode else None,
            duplex=rows.duplex(mode.duplex) if mode else None,
            shaped=self._shapes.get(row["index"]),
            mtu=row.get_attr("IFLA_MTU"),
            queue_length=row.get_attr("IFLA_TXQLEN"),
            qdisc=row.get_attr("IFLA_QDISC"),
            rx_queues=rows.queues(channels, "rx_count") or row.get_attr("IFLA_NUM_RX_QUEUES"),
            tx_queues=rows.queues(channels, "tx_count") or row.get_attr("IFLA_NUM_TX_QUEUES"),
            queues_supported=rows.queues_supported(channels),
            rx_ring=rings.rx if rings else None,
            rx_ring_supported=rings.rx_max if rings else None,
            tx_ring=rings.tx if rings else None,
            tx_ring_supported=rings.tx_max if rings else None,
            offloads=rows.offloads(features),
            offloads_fixed=tuple(
                name
                for name, feature in rows.OFFLOADS.items()
                if features and feature in features and not features[feature].available
            ),
            bond_mode=rows.bond_mode(row),
            lower=lower,
            counters=rows.counters(row),
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


def _speed(mode: Any, sysfs: Path | None) -> int | None:
    """From ethtool, or, where pyroute2 stumbles over a link mode it does not know, from sysfs."""
    if mode is not None:
        return mode.speed * rows.MEGABIT if mode.speed else None
    try:
        told = int((sysfs / "speed").read_text()) if sysfs else 0
    except (OSError, ValueError):  # EINVAL: this kind of interface has none
        return None
    return told * rows.MEGABIT if told > 0 else None


def _card_kind(sysfs: Path | None, driver: str | None) -> LinkKind | None:
    if sysfs is None:
        return None
    if (sysfs / "phy80211").exists() or (sysfs / "wireless").exists():
        return "wireless"
    if driver in PARAVIRTUAL:
        return "paravirtual"
    return "ethernet" if (sysfs / "device").exists() else "other"


def _sysfs(row: rows.Row) -> Path | None:
    """The interface's directory, if the sysfs we see is that of our namespace."""
    path = SYSFS / rows.name_of(row)
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
