"""One look at everything, and what lies between two of them.

`look` reads; `between` is pure. Counts that only grow are turned into rates by the time that
really passed, so that a look that comes late spoils nothing. What is cheap to read is read
first and together; a list of ten thousand sockets comes after it.

CPU time is that of the server's processes, in user and in kernel mode. What the kernel does
for a packet in a softirq belongs to no process: it is told of the server's core as a whole.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from perf.connections import socket_memory
from perf.gigabit.client import NOBODY, Count, Crowd
from perf.gigabit.network import Network, Wire, sockets, wire
from perf.processes import own_memory
from perf.server import Server

TICK = os.sysconf("SC_CLK_TCK")
PROC = Path("/proc")
CACHED = ("MemFree", "Buffers", "Cached", "SReclaimable")  # memory that nobody holds on to


@dataclass(frozen=True)
class Cpu:
    """Seconds on a CPU since they began."""

    user: float
    kernel: float


@dataclass(frozen=True)
class Core:
    """Seconds of the server's core since the machine began: in softirqs, and doing nothing."""

    softirq: float
    idle: float


@dataclass(frozen=True)
class Look:
    """One moment. Memory in octets: the server's own, its sockets' in the kernel, all in use."""

    at: float  # monotonic
    wire: Wire
    cpu: Cpu
    core: Core
    memory: int
    sockets: int
    connections: int
    system: int
    clients: Count


@dataclass(frozen=True)
class Second:
    """What lies between two looks: rates over it, and levels at its end.

    `clients` is the phase's crowd, 0 in a rest; `steady` once all of it was being answered.
    CPU figures are shares of one core.
    """

    at: float  # seconds since the server's course began
    seconds: float
    clients: int
    steady: bool
    wire: float  # octets a second
    payload: float
    drops: float  # packets a second
    user: float
    kernel: float
    softirq: float
    idle: float
    memory: int
    sockets: int
    connections: int
    system: int
    taking: int
    moving: int
    least: int
    lost: int


@dataclass(frozen=True)
class Watch:
    """What is looked at. `core` None: no core is the server's alone."""

    network: Network
    server: Server
    core: int | None


def look(watch: Watch, crowd: Crowd | None) -> Look:
    """Everything, now."""
    processes = watch.server.processes
    clients = crowd.ask() if crowd is not None else NOBODY
    passed = wire(watch.network)
    at = time.monotonic()
    cpu = cpu_of(processes)
    core = core_now(watch.core)
    text = sockets(watch.network, watch.server.setting.port)
    kernel, connections = socket_memory(text)
    system = read_used((PROC / "meminfo").read_text())
    memory = own_memory(processes)
    return Look(at, passed, cpu, core, memory, kernel, connections, system, clients)


def cpu_of(processes: Iterable[int]) -> Cpu:
    """The processes' time, all threads and ended children included: proc_pid_stat(5)."""
    user = kernel = 0
    for process in processes:
        fields = (PROC / str(process) / "stat").read_text(errors="replace").rpartition(")")[2]
        spent = [int(field) for field in fields.split()[11:15]]  # utime, stime, cutime, cstime
        user += spent[0] + spent[2]
        kernel += spent[1] + spent[3]
    return Cpu(user / TICK, kernel / TICK)


def core_now(core: int | None) -> Core:
    """The core, or all of them together, at this moment."""
    return read_core((PROC / "stat").read_text(), core)


def read_core(text: str, core: int | None) -> Core:
    """The core's line of /proc/stat, or that of all of them: proc_stat(5)."""
    name = "cpu" if core is None else f"cpu{core}"
    found = re.search(rf"^{name} +(.+)$", text, re.M)
    if found is None:
        return Core(0.0, 0.0)
    times = [int(field) / TICK for field in found[1].split()]
    return Core(softirq=times[6], idle=times[3])


def read_used(text: str) -> int:
    """Octets of memory in use, the page cache apart, by /proc/meminfo: proc_meminfo(5)."""
    sizes = dict(re.findall(r"^(\w+): +(\d+) kB$", text, re.M))
    return 1024 * (int(sizes["MemTotal"]) - sum(int(sizes[name]) for name in CACHED))


def read_from_disk(processes: Iterable[int]) -> int:
    """Octets that the processes had a disk read for them: read_bytes of proc_pid_io(5)."""
    total = 0
    for process in processes:
        text = (PROC / str(process) / "io").read_text()
        total += int(dict(line.split(": ") for line in text.splitlines())["read_bytes"])
    return total


def between(before: Look, after: Look, began: float, clients: int, steady: bool) -> Second:
    """The time from one look to the next. `began` is the moment that `Second.at` counts from."""
    passed = after.at - before.at
    come = after.clients
    return Second(
        at=after.at - began,
        seconds=passed,
        clients=clients,
        steady=steady,
        wire=(after.wire.octets - before.wire.octets) / passed,
        payload=(come.octets - before.clients.octets) / passed,
        drops=(after.wire.drops - before.wire.drops) / passed,
        user=(after.cpu.user - before.cpu.user) / passed,
        kernel=(after.cpu.kernel - before.cpu.kernel) / passed,
        softirq=(after.core.softirq - before.core.softirq) / passed,
        idle=(after.core.idle - before.core.idle) / passed,
        memory=after.memory,
        sockets=after.sockets,
        connections=after.connections,
        system=after.system,
        taking=come.taking,
        moving=come.moving,
        least=come.least,
        lost=come.lost,
    )
