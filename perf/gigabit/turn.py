"""One server's turn: started for each part of the test, measured, ended.

A server's failure ends that part of its turn and is told in its outcome; the run goes on.
"""

from __future__ import annotations

import contextlib
import shlex
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from perf.gigabit import mixed, objects, phases
from perf.gigabit.client import ClientFailed
from perf.gigabit.network import Network, inside
from perf.gigabit.results import Outcome
from perf.gigabit.sample import Watch
from perf.gigabit.servers import BELOW, DEFAULT, FREE, LINK, PORT, lineup
from perf.peers import Peer, Setting, find, version
from perf.rows import PAGE, Load
from perf.server import ServerFailed, running

PARTS = ("downloads", "mixed", "objects", "page")
LIMITED = ("downloads", "mixed")  # the parts in which edgebox has a limit, so that there is another
FILE, SIZE = "big.bin", 10_000_000_000  # octets, all of them holes
LOAD_SECONDS = 3.0  # of a load of small objects

BIG = Load(tool="", target=f"/{FILE}", size=SIZE)
SMALL = Load(target=f"/{objects.object_name(PAGE)}", size=PAGE)

Say = Callable[[str], None]


@dataclass(frozen=True)
class Bench:
    """What all servers of a run share. `core` None: there is none for the server alone."""

    network: Network
    scratch: Path
    root: Path
    plan: phases.Plan
    parts: tuple[str, ...]
    descriptors: int
    core: int | None


def pick(name: str, looks: bool = False, rate: str = LINK) -> Peer:
    """The server called `name`; see `lineup`."""
    return next(peer for peer in lineup(looks, rate) if peer.name == name)


def take(bench: Bench, name: str, say: Say) -> Outcome:
    """The server called `name` through all parts of the test."""
    peer = pick(name)
    outcome = Outcome(version(peer, find(peer.tool) or ""), example(bench, peer))

    def tell(line: str) -> None:
        say(f"{name:15} {line}")

    for part in bench.parts:
        if name == DEFAULT and part not in LIMITED:
            continue
        try:
            if part == "downloads":
                outcome = download(bench, peer, outcome, tell)
            elif part == "mixed":
                alone, beside = ask_beside(bench, pick(name, rate=BELOW), tell)
                outcome = replace(outcome, alone=alone, beside=beside)
            elif part == "objects":
                outcome = bisect(bench, pick(name, rate=FREE), outcome, tell)
            else:
                free, looking = (pick(name, looks, FREE) for looks in (False, True))
                outcome = replace(outcome, page=serve_page(bench, free, tell))
                outcome = replace(outcome, page_looked_at=serve_page(bench, looking, tell))
        except (ServerFailed, ClientFailed, OSError, ValueError) as problem:
            said = " ".join(str(problem).split()) or type(problem).__name__
            outcome = replace(outcome, faults=(*outcome.faults, f"{part}: {said}"))
            tell(f"{part}: {said}")
    return outcome


def download(bench: Bench, peer: Peer, outcome: Outcome, tell: Say) -> Outcome:
    """Crowd after crowd."""
    with started(bench, peer, BIG) as watch:
        course = phases.run(bench.plan, watch, tell)
    faults = (*outcome.faults, *course.faults)
    seconds = tuple(course.seconds)
    return replace(outcome, seconds=seconds, crowds=bench.plan.crowds, faults=faults)


def ask_beside(bench: Bench, peer: Peer, tell: Say) -> tuple[mixed.Latency, mixed.Latency]:
    """A small object, alone and beside bulk downloads."""
    with started(bench, peer, BIG) as watch:
        alone, beside = mixed.measure(watch, bench.plan)
    times = f"{1e3 * alone.p99:.2f} ms alone, {1e3 * beside.p99:.2f} ms beside bulk"
    tell(f"{mixed.SIZE:,} octets: p99 {times} at {beside.wire / 1e6:.1f} MB/s")
    return alone, beside


def bisect(bench: Bench, peer: Peer, outcome: Outcome, tell: Say) -> Outcome:
    """How small an object may be."""
    with started(bench, peer, SMALL) as watch:
        least, probes = objects.find_smallest(watch, LOAD_SECONDS)
    tell(f"{least or 'no number of'} octets fill the link")
    return replace(outcome, smallest=least, probes=tuple(probes))


def serve_page(bench: Bench, peer: Peer, tell: Say) -> objects.Probe:
    """The article's page, for as long as a crowd takes."""
    with started(bench, peer, SMALL) as watch:
        objects.probe(watch, PAGE, 1.0)  # what is used for the first time is not counted
        probe = objects.probe(watch, PAGE, bench.plan.seconds)
    tell(f"{PAGE:,} octets: {probe.wire / 1e6:.1f} MB/s {probe.fault}".rstrip())
    return probe


@contextlib.contextmanager
def started(bench: Bench, peer: Peer, load: Load) -> Iterator[Watch]:
    """The server at work in its namespace, and what it takes to look at it; ServerFailed."""
    directory = Path(tempfile.mkdtemp(prefix=f"{peer.name}-", dir=bench.scratch))
    directory.chmod(0o755)
    setting = make_setting(bench, directory, bench.root, load)
    with contextlib.ExitStack() as stack:
        with inside(bench.network.server):
            server = stack.enter_context(running(peer, find(peer.tool) or "", setting, bench.core))
        yield Watch(bench.network, server, bench.core)


def make_setting(bench: Bench, directory: Path, root: Path, load: Load) -> Setting:
    return Setting(
        directory=directory,
        root=root,
        port=PORT,
        log=True,
        load=load,
        descriptors=bench.descriptors,
        memory=directory,
    )


def example(bench: Bench, peer: Peer) -> str:
    """Command and configuration as they were, but for directories."""
    setting = make_setting(bench, Path("DIRECTORY"), Path("ROOT"), BIG)
    program = "python" if peer.tool == sys.executable else peer.tool
    return f"$ {shlex.join(peer.command(setting, program))}\n\n{peer.config(setting)}"
