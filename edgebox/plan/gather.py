"""Looks at the machine and writes down what it says: `gather`, or `python -m` this module.

It reads /proc, /sys and limits itself, and asks `link` for interfaces, `cgroup` for control
groups and `disk` for file systems. Nothing is changed and nothing is guessed: whatever cannot
be read stays None. It blocks for some tens of milliseconds and loads pyroute2, so a long-lived
process has a child do it: see `gathering`. Where netlink is refused, `sysfs` tells less. It must
not know what the planner makes of the facts.
"""

from __future__ import annotations

import importlib.util
import os
import platform
import resource
import sys
from collections.abc import Sequence
from ipaddress import ip_address
from pathlib import Path

import msgspec

from edgebox.plan import cgroup, disk
from edgebox.plan.facts import (
    Descriptors,
    Facts,
    Inotify,
    Link,
    Memory,
    Network,
    Processor,
    Record,
    Via,
    encode,
)
from edgebox.plan.link import Interfaces
from edgebox.plan.sysfs import SystemInterfaces

SYSCTL = Path("/proc/sys")
COUNTING = 0.1  # seconds for counting what lies below the roots, all told: a start waits for it


class Subject(Record, frozen=True, kw_only=True):
    """What the machine is looked at for."""

    listen: tuple[str, ...] = ()  # as [server] listen writes it
    roots: tuple[str, ...] = ()
    cache: str | None = None
    interface: str | None = None  # nic.interface: look at this one, whatever routes say


def gather(subject: Subject, *, netlink: bool = True) -> Facts:
    """The facts of the machine, seen from this process; without `netlink`, without pyroute2."""
    grouped = cgroup.limits()
    disks = [disk.disk(root, "root") for root in subject.roots]
    if subject.cache:
        disks.append(disk.disk(subject.cache, "cache"))
    share = COUNTING / max(1, len(subject.roots))
    return Facts(
        kernel=platform.release() or None,
        network=_network(subject, netlink),
        memory=_memory(grouped),
        processor=_processor(grouped),
        descriptors=_descriptors(),
        inotify=Inotify(
            watches=_whole("fs/inotify/max_user_watches"),
            instances=_whole("fs/inotify/max_user_instances"),
            queued_events=_whole("fs/inotify/max_queued_events"),
        ),
        disks=tuple(disks),
        content=tuple(disk.content(root, share) for root in subject.roots),
    )


def _network(subject: Subject, netlink: bool) -> Network:
    network = Network(
        somaxconn=_whole("net/core/somaxconn"),
        syn_backlog=_whole("net/ipv4/tcp_max_syn_backlog"),
        tcp_wmem=_three("net/ipv4/tcp_wmem"),
        tcp_rmem=_three("net/ipv4/tcp_rmem"),
        tcp_mem=_three("net/ipv4/tcp_mem"),
        congestion_control=_sysctl("net/ipv4/tcp_congestion_control"),
        congestion_controls=_words("net/ipv4/tcp_available_congestion_control"),
        slow_start_after_idle=_flag("net/ipv4/tcp_slow_start_after_idle"),
        default_qdisc=_sysctl("net/core/default_qdisc"),
        port_range=_two("net/ipv4/ip_local_port_range"),
    )
    found = _found_by_netlink(subject) if netlink else None
    try:
        found = found or _found(SystemInterfaces(), subject)
    except OSError:  # a sandbox that shows none
        return network
    if found is None:
        return network
    via, links = found
    return msgspec.structs.replace(network, interface=links[0].name, via=via, links=links)


def _found_by_netlink(subject: Subject) -> tuple[Via, tuple[Link, ...]] | None:
    try:
        with Interfaces() as interfaces:
            return _found(interfaces, subject)
    except OSError:  # some sandboxes have no netlink
        return None


def _found(
    interfaces: Interfaces | SystemInterfaces, subject: Subject
) -> tuple[Via, tuple[Link, ...]] | None:
    found = _interface(interfaces, subject)
    return found and (found[1], interfaces.chain(found[0]))


def _interface(
    interfaces: Interfaces | SystemInterfaces, subject: Subject
) -> tuple[int, Via] | None:
    """What the traffic goes through.

    A loopback address says that another process on this box hands us the traffic; it
    still comes over the default route's card, which is then what to plan for.
    """
    if subject.interface is not None:
        index = interfaces.named(subject.interface)
        return None if index is None else (index, "nic.interface")
    for address in subject.listen:
        host = _specific(address)
        index = interfaces.holding(host) if host else None
        if index is not None:
            return index, "listen address"
    index = interfaces.default()
    return None if index is None else (index, "default route")


def _specific(address: str) -> str | None:
    """The IP address in HOST:PORT, unless it is every address, loopback, a name or a path."""
    host = address.rpartition(":")[0].removeprefix("[").removesuffix("]")
    try:
        parsed = ip_address(host)
    except ValueError:
        return None
    return None if parsed.is_unspecified or parsed.is_loopback else str(parsed)


def _memory(grouped: cgroup.Limits) -> Memory:
    info: dict[str, int] = {}
    for line in _text(Path("/proc/meminfo")).splitlines():
        name, _, amount = line.partition(":")
        words = amount.split()
        if words and words[0].isdecimal():
            info[name] = int(words[0]) * 1024  # proc(5): in KiB whatever the unit is called
    return Memory(
        total=info.get("MemTotal"),
        available=info.get("MemAvailable"),
        swap=info.get("SwapTotal"),
        page_size=resource.getpagesize(),
        cgroup_limit=grouped.memory,
        cgroup_used=grouped.memory_used,
    )


def _processor(grouped: cgroup.Limits) -> Processor:
    lines = _text(Path("/proc/cpuinfo")).splitlines()
    models = [text.strip() for key, _, text in (line.partition(":") for line in lines)
              if key.strip() in ("model name", "Model")]  # fmt: skip
    return Processor(
        model=models[0] if models else None,
        cores=os.cpu_count(),
        allowed=len(os.sched_getaffinity(0)),
        quota=grouped.quota,
    )


def _descriptors() -> Descriptors:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    return Descriptors(
        soft=soft if soft >= 0 else None,
        hard=hard if hard >= 0 else None,
        nr_open=_whole("fs/nr_open"),
        file_max=_whole("fs/file-max"),
    )


def _sysctl(name: str) -> str | None:
    return _text(SYSCTL / name).strip() or None


def _words(name: str) -> tuple[str, ...] | None:
    text = _sysctl(name)
    return tuple(text.split()) if text else None


def _numbers(name: str, count: int) -> tuple[int, ...] | None:
    words = _words(name) or ()
    if len(words) != count or not all(word.isdecimal() for word in words):
        return None
    # "No limit" is written as a number that does not fit in 63 bits (fs.file-max).
    return tuple(min(int(word), 2**63 - 1) for word in words)


def _whole(name: str) -> int | None:
    found = _numbers(name, 1)
    return found[0] if found else None


def _two(name: str) -> tuple[int, int] | None:
    found = _numbers(name, 2)
    return (found[0], found[1]) if found else None


def _three(name: str) -> tuple[int, int, int] | None:
    found = _numbers(name, 3)
    return (found[0], found[1], found[2]) if found else None


def _flag(name: str) -> bool | None:
    found = _whole(name)
    return None if found is None else bool(found)


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


def enter_by_the_side(package: str) -> None:
    """Let modules of `package` be imported without what its `__init__` imports.

    That of pyroute2 loads twenty protocols for our two, which is 0.12 s of 0.45 on the CPU
    that a start would wait for (2026-11-30). Only for a process that does nothing else.
    """
    spec = importlib.util.find_spec(package)
    if spec is not None:
        sys.modules[package] = importlib.util.module_from_spec(spec)


def main(arguments: Sequence[str]) -> int:
    """Print the facts as JSON; the only argument is a Subject as JSON."""
    enter_by_the_side("pyroute2")
    subject = msgspec.json.decode(arguments[0], type=Subject) if arguments else Subject()
    sys.stdout.buffer.write(encode(gather(subject)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
