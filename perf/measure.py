"""One row, once: start, verify, warm, measure, verify again, stop.

Of rows that count CPU time all servers stand at once and take turns; of others, one after another.

Before and after a load every target is fetched and compared with the file. A sample is
spoilt by a load that saw an error, a server that lost a process, a log with lines missing, or
an upstream that was asked too often or too seldom; that is told, and the number is not used.
Nothing here raises for a peer's failure.
"""

from __future__ import annotations

import contextlib
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from perf import connections, loads, stall
from perf.origin import COMPILER, asked_in_all, judge_hits, judge_misses, running_origin
from perf.peers import Peer, Setting, find
from perf.processes import own_memory, spent, usage
from perf.results import Sample, joined
from perf.rows import Load, Method, Row
from perf.server import Server, ServerFailed, check, free_port, running

PARTS = 4  # of a load, between which servers take turns
SETTLE = 2.5  # seconds: more than the longest turn of a server's clock
LOG_KEPT = 0.95  # of the lines, at least: some are still in a buffer when a server ends
DOWNLOAD_RATE = 110_000  # octets a second: a gigabit shared by a thousand
OWN_DESCRIPTORS = 200  # beside the held connections
TROUBLE = (ServerFailed, OSError, ValueError, subprocess.SubprocessError)


@dataclass(frozen=True)
class Bench:
    """What all samples of a run share. A core is None where there is none to spare."""

    root: Path
    server_core: int | None
    descriptors: int
    scratch: Path  # where servers get their directories, logs included
    memory: Path  # and those that belong into RAM
    cold: tuple[Path, ...] = ()


def measure(row: Row, peer: Peer, tool: str, bench: Bench) -> Sample:
    """One sample; whatever goes wrong with the server or the load becomes its fault."""
    try:
        with _place(row, peer, bench) as setting:
            with running(peer, tool, setting, bench.server_core) as server:
                sample = METHODS[row.method](server, row, bench)
            return _with_log_checked(sample, row, server)
    except TROUBLE as error:
        return _spoilt(error)


def measure_in_turns(
    row: Row, peers: Sequence[tuple[Peer, str]], bench: Bench
) -> dict[str, Sample]:
    """A sample of each by its name: side by side, each in turn at work on a part of the load.

    A load after the other compares minutes, where others have a share of the machine: the floor
    took 9.3, 11.1 and 14.1 µs in the rounds of one run of 2026-11-30.
    """
    taken: dict[str, list[Sample]] = {peer.name: [] for peer, _ in peers}
    standing: dict[str, Server] = {}
    with contextlib.ExitStack() as places, contextlib.ExitStack() as servers:
        for peer, tool in peers:
            try:
                setting = places.enter_context(_place(row, peer, bench))
                server = servers.enter_context(running(peer, tool, setting, bench.server_core))
                warm(server, row)
            except TROUBLE as error:
                taken[peer.name].append(_spoilt(error))
            else:
                standing[peer.name] = server
        part = replace(row, load=row.load.part(PARTS))
        for turn in range(PARTS):
            names = list(standing)
            for name in names[turn % len(names) :] + names[: turn % len(names)] if names else ():
                try:
                    taken[name].append(METHODS[row.method](standing[name], part, bench))
                except TROUBLE as error:
                    taken[name].append(_spoilt(error))
        servers.close()  # so that their logs are written
        samples = {name: joined(parts) for name, parts in taken.items()}
        for name, server in standing.items():
            samples[name] = _with_log_checked(samples[name], row, server)
    return samples


def _spoilt(error: Exception) -> Sample:
    return Sample(None, fault=" ".join(str(error).split()) or type(error).__name__)


@contextlib.contextmanager
def _place(row: Row, peer: Peer, bench: Bench) -> Iterator[Setting]:
    """What one server is to work with: directories, a port, an upstream where it has one."""
    with (
        _directory(peer, bench.scratch) as directory,
        _directory(peer, bench.memory) as memory,
        _upstream(row, bench, directory) as upstream,
    ):
        yield Setting(
            directory=directory,
            root=bench.root,
            port=free_port(),
            log=row.log,
            load=row.load,
            descriptors=bench.descriptors,
            memory=memory,
            upstream=upstream,
        )


@contextlib.contextmanager
def _directory(peer: Peer, where: Path) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix=f"edgebox-bench-{peer.name}-", dir=where) as name:
        directory = Path(name)
        directory.chmod(0o755)  # some servers change their user
        yield directory


@contextlib.contextmanager
def _upstream(row: Row, bench: Bench, directory: Path) -> Iterator[int]:
    """The port of what the servers of this row stand before; 0 where they serve files."""
    if not row.is_proxied:
        yield 0
        return
    answer = bench.root / row.load.target.lstrip("/")
    with running_origin(find(COMPILER) or COMPILER, directory, answer) as port:
        yield port


def _with_log_checked(sample: Sample, row: Row, server: Server) -> Sample:
    if not row.log or not server.peer.logs or sample.fault:
        return sample
    lines = 0
    with server.setting.access_log.open("rb") as log:
        while block := log.read(1 << 20):
            lines += block.count(b"\n")
    sample = replace(sample, details={**sample.details, "log_lines": lines})
    if lines < sample.requests * LOG_KEPT:
        return replace(sample, fault=f"{lines} log lines for {sample.requests} requests")
    return sample


def run(load: Load, server: Server) -> loads.Outcome:
    """The load tool, once, on whatever core this process may use; ValueError if it failed."""
    salt = str(time.time_ns())
    finished = subprocess.run(
        loads.command(load, server.origin, salt),
        capture_output=True,
        text=True,
        timeout=60 + 5 * load.seconds + load.requests / 1000,
        check=False,
    )
    if finished.returncode:
        raise ValueError(f"{load.tool} failed: {(finished.stderr or finished.stdout)[-300:]}")
    return loads.read(load, finished.stdout)


def measure_cpu(server: Server, row: Row, bench: Bench) -> Sample:
    """Nanoseconds on a CPU over a load, by its requests, in µs."""
    return take_load(server, row)


def measure_cached(server: Server, row: Row, bench: Bench) -> Sample:
    """The same of a load that must not reach the upstream at all."""
    before = asked_in_all(server.setting.upstream)
    sample = take_load(server, row)
    reached = asked_in_all(server.setting.upstream) - before
    return with_reach(sample, reached, judge_hits(reached))


def measure_relayed(server: Server, row: Row, bench: Bench) -> Sample:
    """The same of a load that must reach the upstream with every request."""
    before = asked_in_all(server.setting.upstream)
    sample = take_load(server, row)
    reached = asked_in_all(server.setting.upstream) - before - 1  # the check after the load
    return with_reach(sample, reached, judge_misses(reached, sample.requests, row.load.connections))


def with_reach(sample: Sample, reached: int, fault: str) -> Sample:
    """The sample, with the requests that went on to the upstream and what is wrong with that."""
    return replace(
        sample,
        fault="; ".join(filter(None, (sample.fault, fault))),
        details={**sample.details, "upstream_requests": reached},
    )


def warm(server: Server, row: Row) -> None:
    """A short load of the same kind, uncounted."""
    load = row.load
    run(replace(load, seconds=1.0, requests=max(load.connections, load.requests // 20)), server)


def take_load(server: Server, row: Row) -> Sample:
    """The row's load: CPU time by request, and what went wrong."""
    processes = server.processes
    before = usage(processes)
    outcome = run(row.load, server)
    difference = spent(before, usage(server.processes))
    faults = [*outcome.faults]
    if difference.lost_processes:
        faults.append(f"processes ended during the load: {difference.lost_processes}")
    if (wrong := check(server)) is not None:
        faults.append(f"after the load: {wrong}")
    requests = outcome.requests
    if not requests:
        return Sample(None, "; ".join(faults))
    return Sample(
        difference.nanoseconds / requests / 1000,
        "; ".join(faults),
        requests,
        outcome.seconds,
        outcome.p99,
        (difference.voluntary + difference.involuntary) / requests,
        {
            "voluntary_switches": difference.voluntary,
            "involuntary_switches": difference.involuntary,
            "ended_threads": difference.ended_threads,
        },
    )


def measure_idle(server: Server, row: Row, bench: Bench) -> Sample:
    """Octets of the server's memory for each connection that was answered and stays open."""
    load, port = row.load, server.setting.port
    count = min(load.connections, bench.descriptors - OWN_DESCRIPTORS)
    head = connections.request(port, load.target)
    # First uses of code paths and pools must not be charged to the connections.
    with connections.opened(port, 64) as clients:
        for client in clients:
            connections.exchange(client, head, load.size)
    time.sleep(SETTLE)
    before = own_memory(server.processes)
    with connections.opened(port, count) as clients:
        for client in clients:
            connections.exchange(client, head, load.size)
        time.sleep(SETTLE)
        after = own_memory(server.processes)
        for client in clients:  # each one was really held
            connections.exchange(client, head, load.size)
    short = f"{count} held, not {load.connections}" if count < load.connections else ""
    details = {"held": count, "before": before, "after": after}
    return Sample((after - before) / count, short, requests=2 * count, details=details)


def measure_downloads(server: Server, row: Row, bench: Bench) -> Sample:
    """Octets of the server's memory and of its sockets' for each slow download under way."""
    load, port = row.load, server.setting.port
    count = min(load.connections, bench.descriptors - OWN_DESCRIPTORS)
    head = connections.request(port, load.target)
    before = own_memory(server.processes)
    with connections.opened(port, count, connections.ETHERNET) as clients:
        for client in clients:
            client.sendall(head)
        octets = connections.read_slowly(clients, DOWNLOAD_RATE, load.seconds)
        after = own_memory(server.processes)
        kernel, sockets = connections.server_sockets_memory(port)
    user = (after - before) / count
    details = {"user": user, "kernel": kernel / count, "sockets": sockets, "octets": octets}
    fault = f"{sockets} of {count} connections left" if sockets < count else ""
    return Sample(user + kernel / count, fault, seconds=load.seconds, details=details)


def measure_stall(server: Server, row: Row, bench: Bench) -> Sample:
    """The hot p99 beside clients that read from the disk, by that beside clients that do not."""
    port = server.setting.port
    run(replace(row.load, seconds=1.0), server)
    with stall.fetching(port, bench.cold, cold=False) as warm:
        alone = run(row.load, server)
    stall.drop(bench.cold[0])
    left = stall.resident(bench.cold[0])
    with stall.fetching(port, bench.cold, cold=True) as cold:
        beside = run(row.load, server)
    faults = [*alone.faults, *beside.faults, *warm.faults, *cold.faults]
    if left > 0.1:
        faults.append(f"{left:.0%} of a file stays in the page cache: no disk to wait for")
    if not alone.p99 or not beside.p99:
        return Sample(None, "; ".join(faults) or "no p99")
    details = {"p99_alone": alone.p99, "p99_beside": beside.p99}
    details |= {"warm_fetches": warm.done, "cold_fetches": cold.done}
    return Sample(
        beside.p99 / alone.p99,
        "; ".join(faults),
        alone.requests + beside.requests,
        alone.seconds + beside.seconds,
        beside.p99,
        details=details,
    )


METHODS: dict[Method, Callable[[Server, Row, Bench], Sample]] = {
    Method.CPU: measure_cpu,
    Method.IDLE: measure_idle,
    Method.DOWNLOADS: measure_downloads,
    Method.STALL: measure_stall,
    Method.CACHED: measure_cached,
    Method.RELAYED: measure_relayed,
}
