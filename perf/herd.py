"""`python -m perf.herd`: a thousand clients ask for one object that is not in the cache yet.

Each round, for each server: one client alone asks for an object, then all at once for another
of the same kind, then all at once for that one again, which is stored by now. The
first is what a client must wait for the upstream in any case; the last is what it takes to
move so many octets; the origin tells how often it was asked. Two kinds: a small page that
an app thinks about for two seconds, and 10 MB that come over two seconds.

herd.json beside this file is replaced by a full run only, or written where --out says; CACHE.md
is made of it.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

from perf import cache_page, machine
from perf.bench import say, stop_on_sigterm
from perf.caches import CACHES
from perf.crowd import Body, ask
from perf.origin import COMPILER, Slow, asked_in_all, running_origin
from perf.peers import Peer, Setting, find, version
from perf.processes import spent, usage
from perf.report import table
from perf.rows import SMALL, Load
from perf.server import Server, ServerFailed, free_port, running

HERE = Path(__file__).parent
SECONDS = 2.0  # that the origin takes
CLIENTS = 1000
ROUNDS = 3
MEDIANS = ("alone", "begun", "together", "again", "cpu")
READY = "/c/small.html"  # asked for to see that a server is there
SERVERS = ("edgebox", "nginx", "varnish")  # HAProxy passes every one of the misses on


@dataclass(frozen=True)
class Kind:
    """What is asked for: below `path`, `size` octets."""

    title: str
    path: str
    size: int


KINDS = (
    Kind(f"{SMALL} B, thought about for {SECONDS:.0f} s", "/think/", SMALL),
    Kind(f"10 MB, sent over {SECONDS:.0f} s", "/drip/", 10_000_000),
)


@dataclass(frozen=True)
class Round:
    """Seconds; requests that the upstream saw of the crowd; seconds of the server's CPU for it."""

    alone: float
    begun: float
    together: float
    again: float
    upstream_requests: int
    cpu: float
    faults: tuple[str, ...] = ()


@dataclass(frozen=True)
class Herd:
    """One server and one kind; medians are over rounds without faults."""

    server: str
    kind: str
    rounds: tuple[Round, ...]
    fault: str = ""  # why there are no rounds

    @property
    def faults(self) -> tuple[str, ...]:
        found = [self.fault, *(fault for round_ in self.rounds for fault in round_.faults)]
        return tuple(dict.fromkeys(filter(None, found)))

    def median(self, name: str) -> float | None:
        """Of the field `name`, over the rounds without faults."""
        clean = [float(getattr(r, name)) for r in self.rounds if not r.faults]
        return median(clean) if clean else None


@dataclass(frozen=True)
class Options:
    """What the command line asked for; `out` None prints only."""

    servers: tuple[str, ...]
    clients: int
    rounds: int
    out: Path | None


def parse(arguments: Sequence[str]) -> Options:
    """The options; exits with a message for unknown servers."""
    parser = argparse.ArgumentParser(prog="python -m perf.herd", description=__doc__)
    parser.add_argument("--peers", default=",".join(SERVERS), help="names, with commas between")
    parser.add_argument("--clients", type=int, default=CLIENTS)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--quick", action="store_true", help="one round of fifty clients")
    parser.add_argument("--out", type=Path, help="the file to write")
    asked = parser.parse_args(arguments)
    names = tuple(name for name in SERVERS if name in asked.peers.split(","))
    for word in set(asked.peers.split(",")) - set(SERVERS):
        parser.error(f"unknown: {word}")
    clients, rounds = (50, 1) if asked.quick else (asked.clients, asked.rounds)
    full = names == SERVERS and clients >= CLIENTS and rounds >= ROUNDS
    return Options(names, clients, rounds, asked.out or (HERE / "herd.json" if full else None))


@dataclass(frozen=True)
class Place:
    """What all servers share: directories on disk and in RAM, a core, descriptors."""

    scratch: Path
    memory: Path
    core: int | None
    descriptors: int

    @property
    def root(self) -> Path:
        return self.scratch / "root"

    @property
    def small(self) -> Path:
        return self.root / READY.lstrip("/")

    @property
    def big(self) -> Path:
        return self.scratch / "big"


def make_answers(place: Place) -> dict[str, Body]:
    """Writes what the origin answers with; the bodies by kind, of random octets."""
    small, big = (os.urandom(kind.size) for kind in KINDS)
    place.small.parent.mkdir(parents=True)
    place.small.write_bytes(small)
    place.big.write_bytes(big)
    return {kind.path: Body(octets) for kind, octets in zip(KINDS, (small, big), strict=True)}


@contextlib.contextmanager
def standing(peer: Peer, tool: str, clients: int, place: Place) -> Iterator[Server]:
    """A server with an empty cache, before an origin."""
    slow = Slow(place.big, SECONDS)
    with (
        tempfile.TemporaryDirectory(prefix=f"edgebox-herd-{peer.name}-", dir=place.memory) as name,
        running_origin(find(COMPILER) or COMPILER, place.scratch, place.small, slow) as upstream,
    ):
        own = Path(name)
        own.chmod(0o755)  # some servers change their user
        setting = Setting(
            directory=own,
            root=place.root,
            port=free_port(),
            log=False,
            load=Load(connections=clients, target=READY),
            descriptors=place.descriptors,
            memory=own,
            upstream=upstream,
        )
        with running(peer, tool, setting, place.core) as server:
            yield server


def one_round(server: Server, kind: Kind, number: int, clients: int, body: Body) -> Round:
    """Alone, together, and together again."""
    port, upstream = server.setting.port, server.setting.upstream
    target = f"{kind.path}{number}"
    alone = ask(port, f"{target}-alone", 1, body)
    counted, before = asked_in_all(upstream), usage(server.processes)
    together = ask(port, target, clients, body)
    difference = spent(before, usage(server.processes))
    requests = asked_in_all(upstream) - counted
    again = ask(port, target, clients, body)
    faults = [*alone.faults, *together.faults, *again.faults]
    if difference.lost_processes:
        faults.append(f"processes ended: {difference.lost_processes}")
    return Round(
        alone.ended,
        together.begun,
        together.ended,
        again.ended,
        requests,
        difference.nanoseconds / 1e9,
        tuple(faults),
    )


def measure(peer: Peer, kind: Kind, body: Body, options: Options, place: Place) -> Herd:
    """All rounds of one server with one kind; whatever goes wrong becomes a fault."""
    tool = find(peer.tool)
    if tool is None:
        return Herd(peer.name, kind.title, (), f"{peer.tool} is not installed")
    rounds: list[Round] = []
    try:
        with standing(peer, tool, options.clients, place) as server:
            for number in range(options.rounds):
                rounds.append(one_round(server, kind, number, options.clients, body))
                say(f"{kind.title}  {peer.name}  {rounds[-1]}")
    except (ServerFailed, OSError, subprocess.SubprocessError) as error:
        return Herd(peer.name, kind.title, tuple(rounds), " ".join(str(error).split()))
    return Herd(peer.name, kind.title, tuple(rounds))


def markdown(herds: Sequence[Herd]) -> str:
    """The table, and below it what went wrong."""
    rows = []
    for herd in herds:
        alone, together = herd.median("alone"), herd.median("together")
        ratio = f"{together / alone:.2f}" if alone and together else "–"
        most = max((r.upstream_requests for r in herd.rounds), default=None)
        cells = [_seconds(herd.median(name)) for name in ("alone", "begun", "together")]
        cells += [ratio, _seconds(herd.median("again"))]
        cells += ["–" if most is None else str(most), _seconds(herd.median("cpu"))]
        rows.append([herd.kind, herd.server, *cells])
    heads = ["object", "server", "one alone, s", "all begun, s", "all finished, s"]
    heads += ["÷ alone", "again, stored, s", "upstream requests", "CPU, s"]
    told = table(heads, rows, "llrrrrrrr")
    faults = [f"- {h.kind}, {h.server}: {fault}" for h in herds for fault in h.faults]
    return "\n\n".join(filter(None, (told, "\n".join(faults)))) + "\n"


def _seconds(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"


def as_json(herds: Sequence[Herd], options: Options, facts: dict[str, str]) -> str:
    """herd.json: the table's numbers, every round, and what they were measured on."""
    peers = [peer for peer in CACHES if peer.name in options.servers]
    told = [
        {**asdict(herd), "medians": {name: herd.median(name) for name in MEDIANS}} for herd in herds
    ]
    whole = {
        "generated": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "commit": machine.commit(),
        "clients": options.clients,
        "machine": facts,
        "versions": {p.name: version(p, path) for p in peers if (path := find(p.tool))},
        "table": markdown(herds),
        "herds": told,
    }
    return json.dumps(whole, indent=1, ensure_ascii=False) + "\n"


def main(arguments: Sequence[str]) -> int:
    """Measures, prints the table, writes it; 1 if nothing could be measured."""
    options = parse(arguments)
    if find(COMPILER) is None:
        say(f"missing: {COMPILER} is not installed, and the origin has to be compiled")
        return 1
    facts = machine.facts()
    server_core, client_core = machine.choose_cores()
    if client_core is not None:
        os.sched_setaffinity(0, {client_core})  # the origin inherits it
    descriptors = machine.raise_descriptor_limit()
    with tempfile.TemporaryDirectory(prefix="edgebox-herd-") as name:
        scratch = Path(name)
        scratch.chmod(0o755)
        place = Place(scratch, machine.ram_directory() or scratch, server_core, descriptors)
        bodies = make_answers(place)
        herds = [
            measure(peer, kind, bodies[kind.path], options, place)
            for kind in KINDS
            for peer in CACHES
            if peer.name in options.servers
        ]
    print(f"{options.clients} clients ask at once for what is not stored yet.\n")
    print(markdown(herds))
    if options.out is not None:
        options.out.write_text(as_json(herds, options, facts))
        if options.out.parent == HERE:
            cache_page.write(HERE)
        say("written:", options.out)
    return 0 if any(herd.median("together") for herd in herds) else 1


if __name__ == "__main__":
    stop_on_sigterm()
    sys.exit(main(sys.argv[1:]))
