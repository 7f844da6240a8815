"""`python -m perf.gigabit --phase 15`: the whole test, with whichever of the servers are here.

GIGABIT.md, gigabit.json and gigabit.svg in perf/ are replaced by a full run only; a part of
it prints its tables, and writes where --out says. Whatever ends the run, SIGTERM and an
interrupt included, namespaces, servers and files are gone after it; of a run that was killed
outright, the next one removes them.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NoReturn

from perf import machine
from perf.gigabit import network as net
from perf.gigabit import objects, report, turn
from perf.gigabit.client import COMPILER, ClientFailed, build
from perf.gigabit.network import ENDINGS, NAME, TOOLS, Network, NoNetwork, network, steer
from perf.gigabit.phases import Plan
from perf.gigabit.plot import plot
from perf.gigabit.servers import NAMES, lineup
from perf.gigabit.turn import Bench, take
from perf.peers import find
from perf.rows import PAGE

HERE = Path(__file__).parent.parent
CROWDS = (10, 100, 1000, 10_000)
PHASE = 15.0  # seconds
SPARE = 1000  # descriptors of the client's process that are no connections


@dataclass(frozen=True)
class Options:
    """What the command line asked for; `out` None prints only."""

    seconds: float
    crowds: tuple[int, ...]
    servers: tuple[str, ...]
    parts: tuple[str, ...]
    out: Path | None
    name: str


def parse(arguments: Sequence[str]) -> Options:
    """The options; exits with a message for what it does not know."""
    parser = argparse.ArgumentParser(prog="python -m perf.gigabit", description=__doc__)
    told = f"seconds a crowd, {PHASE:g} unless told otherwise"
    parser.add_argument("--phase", type=float, default=PHASE, help=told)
    crowds = ",".join(map(str, CROWDS))
    parser.add_argument("--clients", default=crowds, help=f"sizes of the crowds: {crowds}")
    parser.add_argument("--servers", default="", help=f"of {', '.join(NAMES)}")
    parser.add_argument("--parts", default="", help=f"of {', '.join(turn.PARTS)}")
    parser.add_argument("--out", type=Path, help="where to write the results")
    parser.add_argument("--name", default=NAME, help="what namespaces and files are called")
    asked = parser.parse_args(arguments)
    servers = [name for name in asked.servers.split(",") if name]
    parts = [part for part in asked.parts.split(",") if part]
    for word in [*(set(servers) - set(NAMES)), *(set(parts) - set(turn.PARTS))]:
        parser.error(f"unknown: {word}")
    sizes = [size for size in asked.clients.split(",") if size]
    if not all(size.isdecimal() and int(size) for size in sizes):
        parser.error(f"not numbers of clients: {asked.clients}")
    if asked.phase < 3:
        parser.error("a phase takes three seconds at least")
    full = not servers and not parts and asked.clients == crowds
    return Options(
        asked.phase,
        tuple(sorted({int(size) for size in sizes})),
        tuple(name for name in NAMES if name in (servers or NAMES)),
        tuple(part for part in turn.PARTS if part in (parts or turn.PARTS)),
        asked.out or (HERE if full else None),
        asked.name,
    )


def say(*words: object) -> None:
    print(*words, file=sys.stderr, flush=True)


@contextlib.contextmanager
def scratch_directory(name: str) -> Iterator[Path]:
    """A directory for servers and files; those of killed runs go first."""
    prefix = f"{name}-"
    for left in Path(tempfile.gettempdir()).glob(f"{prefix}*"):
        shutil.rmtree(left, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=prefix, ignore_cleanup_errors=True) as made:
        directory = Path(made)
        directory.chmod(0o755)  # some servers change their user
        yield directory


def make_root(scratch: Path) -> Path:
    """The docroot: the large file, and the page."""
    root = scratch / "root"
    root.mkdir()
    with (root / turn.FILE).open("wb") as file:
        file.truncate(turn.SIZE)
    (root / objects.object_name(PAGE)).write_bytes(b"x" * PAGE)
    return root


def without_missing(options: Options) -> tuple[Options, list[str]]:
    """The servers and parts whose programs are here, and what is missing. NoNetwork."""
    for tool in (*TOOLS, COMPILER):
        if find(tool) is None:
            raise NoNetwork(f"{tool} is not installed")
    if os.geteuid():
        raise NoNetwork("it takes root to make network namespaces")
    tools = {peer.name: peer.tool for peer in lineup()}
    servers = tuple(name for name in options.servers if find(tools[name]))
    missing = [f"{name} is not installed" for name in options.servers if name not in servers]
    parts = options.parts
    if find("wrk") is None and set(parts) != {"downloads"}:
        missing.append("wrk is not installed: downloads only")
        parts = tuple(part for part in parts if part == "downloads")
    return replace(options, servers=servers, parts=parts), missing


def main(arguments: Sequence[str]) -> int:
    """Runs, prints the tables, writes them; 1 if it cannot be done here."""
    options = parse(arguments)
    try:
        options, missing = without_missing(options)
        with network(options.name) as made, scratch_directory(options.name) as scratch:
            run = measure_all(options, made, scratch, missing)
    except (NoNetwork, ClientFailed) as problem:
        say(f"no gigabit: {problem}")
        return 1
    write(run, options.out)
    return 0


def measure_all(
    options: Options, made: Network, scratch: Path, missing: Sequence[str]
) -> report.Run:
    """Every server in turn."""
    for line in missing:
        say("missing:", line)
    facts = machine.facts()
    descriptors = machine.raise_descriptor_limit()
    fitting = tuple(size for size in options.crowds if size <= descriptors - SPARE)
    too_large = [f"{n:,} clients: no descriptors for them" for n in options.crowds[len(fitting) :]]
    server_core, client_core = machine.choose_cores()
    steer(made, server_core, client_core)
    if client_core is None:
        cores = "One core only: server and clients share it."
    else:
        os.sched_setaffinity(0, {client_core})  # the clients inherit it
        cores = f"Server on core {server_core}, clients on core {client_core}."
    program = build(find(COMPILER) or COMPILER, scratch)
    plan = Plan(program, f"/{turn.FILE}", fitting, options.seconds)
    bench = Bench(made, scratch, make_root(scratch), plan, options.parts, descriptors, server_core)
    return report.Run(
        generated=datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        commit=machine.commit(),
        seconds=options.seconds,
        rest=plan.rest,
        cores=cores,
        machine=facts,
        network=net.facts(made),
        missing=(*missing, *too_large),
        outcomes={name: take(bench, name, say) for name in options.servers},
    )


def write(run: report.Run, out: Path | None) -> None:
    """The three files in `out`, or the tables on standard output."""
    text = report.markdown(run)
    if out is None:
        print(text[text.index("## Against") :])
        say("nothing written: a full run or --out DIR writes GIGABIT.md, gigabit.json and .svg")
        return
    out.mkdir(parents=True, exist_ok=True)
    (out / "GIGABIT.md").write_text(text)
    (out / "gigabit.json").write_text(report.as_json(run))
    (out / "gigabit.svg").write_text(plot(run.outcomes, told(run)))
    say(f"written: {out / 'GIGABIT.md'}, gigabit.json, gigabit.svg")


def told(run: report.Run) -> list[str]:
    """The machine's facts as the picture has them, in two lines."""
    known = {**run.machine, **run.network}
    first = [f"{name} {known[name]}" for name in ("CPU", "cores", "memory") if name in known]
    second = [known[name] for name in ("kernel", "wire") if name in known]
    second += [f"{name} {o.version}" for name, o in run.outcomes.items()]
    return [", ".join([*first, run.cores.rstrip(".")]), ", ".join([run.generated, *second])]


def _ended(signal_number: int, frame: object) -> NoReturn:
    raise SystemExit(128 + signal_number)  # so that everything is cleared away


if __name__ == "__main__":
    for ending in ENDINGS:  # an interrupt too: a shell's background job starts with it ignored
        signal.signal(ending, _ended)
    sys.exit(main(sys.argv[1:]))
