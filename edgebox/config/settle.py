"""What "auto" stands for where no plan says it.

A server is sized by its plan (`ops/sizing/sizing`), and what is left here are directories and the
welcome site; a part that runs by itself, as in a test, gets its numbers here, too.
`look_at_machine` reads a few facts; `settle` turns them into values and is pure: equal facts
and configuration give an equal result, with nothing left to decide. [nic] and [plan] are what
a plan starts from, so that "auto" stays there.
"""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from msgspec.structs import replace

from edgebox.config.schema import Config, Site

MIB = 1024 * 1024

RESERVE = 64  # descriptors for listeners, logs, epoll, inotify, and Python itself
SEND_BUFFER = 256 * 1024  # octets of an answer that the kernel holds unsent
PER_CONNECTION = 16 * 1024  # octets of RAM a client may cost us on average, mostly as a task

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Machine:
    """What is known of the machine."""

    memory: int  # octets of RAM that we may use: the machine's, or less by our cgroup
    descriptors: int  # RLIMIT_NOFILE, the soft limit: raise it before looking
    somaxconn: int  # longest accept queue, net.core.somaxconn
    watches: int  # fs.inotify.max_user_watches, shared with whoever runs as the same user
    cache: str  # where cached files go: absolute, perhaps not there yet
    number: str = "0"  # for whoever has to tell this box from all others


def settle(config: Config, machine: Machine) -> Config:
    """`config` with a value for each "auto", and the welcome site where a site has nothing.

    A route's `default_freshness` stays None: the cache guesses it anew for each answer.
    """
    limits, files = config.limits, config.files

    # An eighth for large files, the rest for clients: each has a socket, and now and then a
    # file of its own that is just being opened, for which the read threads stand.
    spare = max(machine.descriptors - RESERVE - files.read_threads, 2)
    open_files = _or(files.open_files, min(spare // 8, 1024))
    # An eighth of RAM for clients: a flood of them must not push out what we serve.
    affordable = machine.memory // 8 // PER_CONNECTION
    connections = max(min(spare - open_files, affordable), 1)

    return replace(
        config,
        server=replace(
            config.server,
            # 4096 is the kernel's own default; beyond, a client has given up before its turn.
            backlog=_or(config.server.backlog, max(min(machine.somaxconn, 4096), 1)),
            workers=_or(config.server.workers, 1),
        ),
        limits=replace(
            limits,
            connections=_or(limits.connections, connections),
            send_buffer=_or(limits.send_buffer, SEND_BUFFER),
        ),
        files=replace(
            files,
            # The kernel's page cache is the second copy of a hot file: leave it room.
            working_set=_or(files.working_set, min(256 * MIB, machine.memory // 4)),
            open_files=open_files,
            watches=_or(files.watches, machine.watches // 4),
        ),
        compression=replace(
            config.compression, dir=_or(config.compression.dir, f"{machine.cache}/compressed")
        ),
        cache=replace(
            config.cache,
            dir=_or(config.cache.dir, f"{machine.cache}/responses"),
            via=_or(config.cache.via, f"{config.cache.name}-{machine.number}"),
        ),
        site=tuple(
            site if site.root or site.is_proxied else _welcome(site) for site in config.site
        ),
    )


def _or(value: T | None, otherwise: T) -> T:
    return otherwise if value is None else value


def _welcome(site: Site) -> Site:
    pages = {"404": "/404.html"} | site.error_pages
    return replace(site, root=str(welcome_root()), error_pages=pages)


def welcome_root() -> Path:
    """The packaged site: served where neither files nor an upstream are configured."""
    return Path(__file__).parent.parent / "welcome"


def look_at_machine(environment: Mapping[str, str] = os.environ) -> Machine:
    """The facts as they are now; what cannot be read counts as the kernel's default."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        soft = _number(Path("/proc/sys/fs/nr_open"), 1024 * 1024)
    ram = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return Machine(
        memory=min([ram, *_memory_limits()]),
        descriptors=soft,
        somaxconn=_number(Path("/proc/sys/net/core/somaxconn"), 4096),
        watches=_number(Path("/proc/sys/fs/inotify/max_user_watches"), 8192),
        cache=_cache_directory(environment),
        # Drawn: two boxes may share a machine, a host name and a configuration.
        number=os.urandom(4).hex(),
    )


def _memory_limits(root: Path = Path("/sys/fs/cgroup")) -> Iterator[int]:
    """memory.max of our cgroup and those around it (cgroup v2)."""
    try:
        ours = Path("/proc/self/cgroup").read_text().rpartition("0::/")[2].strip()
    except OSError:
        return
    group = root / ours
    while group != root.parent:
        if limit := _number(group / "memory.max", 0):  # "max" is none
            yield limit
        group = group.parent


def _number(path: Path, otherwise: int) -> int:
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return otherwise


def _cache_directory(environment: Mapping[str, str]) -> str:
    """systemd's CacheDirectory, else the system's place if we may write there, else ours."""
    if given := environment.get("CACHE_DIRECTORY"):
        return given.split(":")[0]  # systemd.exec(5): a list
    system = Path("/var/cache/edgebox")
    if os.access(system if system.exists() else system.parent, os.W_OK):
        return str(system)
    base = environment.get("XDG_CACHE_HOME", "")
    # The XDG specification has relative paths ignored.
    home = Path(base) if base.startswith("/") else Path(environment.get("HOME", "/")) / ".cache"
    return str(home / "edgebox")
