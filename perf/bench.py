"""`python -m perf.bench`: the whole table, on any machine that has at least one peer.

The server gets one core and the load tool another; within a round the servers take turns,
in an order that turns too. What is missing is said and left out. RESULTS.md, results.json and
results.svg beside this file are replaced by a full run only; a part of it prints its tables,
and writes them where --out says.
"""

from __future__ import annotations

import argparse
import datetime
import os
import shlex
import signal
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import msgspec

from perf import machine, report, stall
from perf.caches import CACHES, NAMES, lineup
from perf.chart import chart
from perf.faults import report as faults_report
from perf.measure import Bench, measure, measure_in_turns
from perf.peers import PEERS, Peer, Setting, find, version
from perf.results import Result, Sample, result
from perf.rows import PAGE, PATHS, ROWS, SMALL, Method, Row, quick

HERE = Path(__file__).parent
BY_NAME = {peer.name: peer for peer in (*CACHES, *PEERS)}
ROUNDS = 3
BODY = b"<!doctype html><title>edgebox bench</title><p>An octet is an octet is an octet.\n"


@dataclass(frozen=True)
class Options:
    """What the command line asked for; `out` None prints only."""

    rows: tuple[Row, ...]
    peers: tuple[str, ...]  # names in table order: those that some row is for
    rounds: int
    quick: bool
    out: Path | None


def parse(arguments: Sequence[str]) -> Options:
    """The options; exits with a message for unknown rows and peers."""
    parser = argparse.ArgumentParser(prog="python -m perf.bench", description=__doc__)
    by_key = {row.key: row for row in ROWS}
    optional = ", ".join(row.key for row in ROWS if not row.default)
    parser.add_argument(
        "--rows",
        default="",
        help=f"of {', '.join(by_key)}, with commas between; left out unless named: {optional}",
    )
    parser.add_argument("--peers", default="", help=f"of {', '.join(NAMES)}")
    parser.add_argument("--rounds", type=int, default=0, help=f"{ROUNDS} unless told otherwise")
    parser.add_argument("--quick", action="store_true", help="one round of small loads")
    parser.add_argument("--out", type=Path, help="where to write the results")
    asked = parser.parse_args(arguments)
    row_keys = [key for key in asked.rows.split(",") if key]
    names = [name for name in asked.peers.split(",") if name]
    for word in [*(set(row_keys) - by_key.keys()), *(set(names) - set(NAMES))]:
        parser.error(f"unknown: {word}")
    rounds = asked.rounds or (1 if asked.quick else ROUNDS)
    rows = [by_key[key] for key in row_keys] or [row for row in ROWS if row.default]
    able = {peer.name for row in rows for peer in lineup(row)}
    full = not row_keys and not names and not asked.quick and rounds >= ROUNDS
    return Options(
        tuple(quick(row) for row in rows) if asked.quick else tuple(rows),
        tuple(name for name in NAMES if name in (names or NAMES) and name in able),
        rounds,
        asked.quick,
        asked.out or (HERE if full else None),
    )


def make_root(directory: Path) -> Path:
    """The docroot: the two files, 200 paths of the small one, and a sparse large one.

    What the origin of the proxied rows answers lies there as well, where its paths say.
    """
    root = directory / "root"
    (root / "paths").mkdir(parents=True)
    small = (BODY * (SMALL // len(BODY) + 1))[:SMALL]
    for path in ("small.html", "c/small.html", "p/small.html"):
        (root / path).parent.mkdir(exist_ok=True)
        (root / path).write_bytes(small)
    (root / "page.html").write_bytes((BODY * (PAGE // len(BODY) + 1))[:PAGE])
    for number in range(1, PATHS + 1):
        (root / "paths" / f"{number}.html").write_bytes(small)
    with (root / "big.bin").open("wb") as file:
        file.truncate(1 << 30)
    return root


def say(*words: object) -> None:
    print(*words, file=sys.stderr, flush=True)


def one_round(
    number: int, options: Options, tools: dict[str, str], bench: Bench
) -> dict[tuple[str, str], Sample]:
    """A sample of every row with every peer at hand, peers in turn within each row."""
    samples: dict[tuple[str, str], Sample] = {}
    for row in options.rows:
        present = [peer for peer in lineup(row) if peer.name in tools]
        first = number % len(present) if present else 0
        turns = [(peer, tools[peer.name]) for peer in present[first:] + present[:first]]
        if row.takes_turns:
            found = measure_in_turns(row, turns, bench)
        else:
            found = {peer.name: measure(row, peer, tool, bench) for peer, tool in turns}
        for name, sample in found.items():
            samples[row.key, name] = sample
            told = f"{report.number(sample.value, row.unit):>8} {row.unit.value}"
            say(f"round {number + 1}  {row.key:10} {name:9} {told}  {sample.fault}".rstrip())
    return samples


def collect(options: Options, rounds: Sequence[dict[tuple[str, str], Sample]]) -> list[Result]:
    """The rounds' samples, by row and peer in table order, as results."""
    results = []
    for row in options.rows:
        taken = {
            name: [r[row.key, name] for r in rounds if (row.key, name) in r]
            for name in options.peers
        }
        results.append(result(row, {name: some for name, some in taken.items() if some}))
    return results


def take_rounds(
    options: Options, tools: dict[str, str], bench: Bench
) -> list[dict[tuple[str, str], Sample]]:
    """All rounds; an interrupt ends them early and keeps what is whole."""
    rounds: list[dict[tuple[str, str], Sample]] = []
    try:
        for number in range(options.rounds):
            rounds.append(one_round(number, options, tools, bench))
    except KeyboardInterrupt:
        say("interrupted: only whole rounds count")
    return rounds


def without_missing_tools(options: Options) -> tuple[Options, dict[str, str], list[str]]:
    """The rows whose load tool is here, where each peer's program is, and what is missing."""
    missing = []
    tools: dict[str, str] = {}
    for name in options.peers:
        tool = BY_NAME[name].tool
        path = find(tool)
        if path is None:
            missing.append(f"{name}: {tool} is not installed")
        else:
            tools[name] = path
    needed = sorted({tool for row in options.rows for tool in row.tools})
    absent = {tool for tool in needed if find(tool) is None}
    kept = tuple(row for row in options.rows if not row.tools & absent)
    for tool in sorted(absent):
        keys = ", ".join(row.key for row in options.rows if tool in row.tools)
        missing.append(f"{keys}: {tool} is not installed")
    return Options(kept, options.peers, options.rounds, options.quick, options.out), tools, missing


def examples(name: str, descriptors: int) -> str:
    """A server's configurations and commands, as for files and as a cache."""
    found = []
    for key, peers in (("hot", PEERS), ("cached", CACHES)):
        row = next(row for row in ROWS if row.key == key)
        found += [example(peer, row, descriptors) for peer in peers if peer.name == name]
    return "\n\n\n".join(found)


def example(peer: Peer, row: Row, descriptors: int) -> str:
    """A peer's configuration and command as they were, but for directories and ports."""
    upstream = 8081 if row.is_proxied else 0
    setting = Setting(
        Path("DIRECTORY"), Path("ROOT"), 8080, True, row.load, descriptors, Path("MEMORY"), upstream
    )
    program = "python" if peer.tool == sys.executable else peer.tool
    lines = [peer.build(setting, program)] if peer.build else []
    lines.append(peer.command(setting, program))
    commands = "\n".join("$ " + shlex.join(line) for line in lines)
    return f"{commands.replace(str(HERE), 'perf')}\n\n{peer.config(setting)}".strip()


def main(arguments: Sequence[str]) -> int:
    """Runs, prints the tables, writes them; 1 if nothing could be measured."""
    options, tools, missing = without_missing_tools(parse(arguments))
    for line in missing:
        say("missing:", line)
    facts = machine.facts()
    descriptors = machine.raise_descriptor_limit()
    server_core, load_core = machine.choose_cores()
    if load_core is None:
        cores = "One core only: server and load tool share it."
    else:
        os.sched_setaffinity(0, {load_core})  # the load tools inherit it
        cores = f"Server on core {server_core}, load tool on core {load_core}."
    with tempfile.TemporaryDirectory(prefix="edgebox-bench-") as name:
        scratch = Path(name)
        scratch.chmod(0o755)
        root = make_root(scratch)
        cold = any(row.method is Method.STALL for row in options.rows)
        paths = tuple(stall.make_files(root)) if cold else ()
        memory = machine.ram_directory() or scratch
        bench = Bench(root, server_core, descriptors, scratch, memory, paths)
        rounds = take_rounds(options, tools, bench)
    found = {t: path for t in ("wrk", "ab") if (path := find(t))}
    run = report.Run(
        generated=datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        commit=machine.commit(),
        rounds=len(rounds),
        quick=options.quick,
        cores=cores,
        machine=facts,
        versions={n: version(BY_NAME[n], tools[n]) for n in options.peers if n in tools},
        tools={tool: machine.tool_version(tool, path) for tool, path in found.items()},
        missing=tuple(missing),
        configs={name: examples(name, descriptors) for name in options.peers if name in tools},
        results=tuple(collect(options, rounds)),
        breakage=last_breakage(),
    )
    write(run, options.out if len(rounds) == options.rounds else None)
    return 0 if any(f.clean for r in run.results for f in r.figures.values()) else 1


def last_breakage() -> str:
    """What faults.json says, in short; "" if nobody has made one."""
    path = HERE / "faults.json"
    if not path.exists():
        return ""
    return faults_report.summary(msgspec.json.decode(path.read_bytes(), type=faults_report.Run))


def write(run: report.Run, out: Path | None) -> None:
    """The three files in `out`, or the tables on standard output."""
    text = report.markdown(run)
    if out is None:
        print(text[text.index("## Against") : text.index("## Machine")])
        say("nothing written: a full run or --out DIR writes RESULTS.md, results.json, results.svg")
        return
    out.mkdir(parents=True, exist_ok=True)
    (out / "RESULTS.md").write_text(text)
    (out / "results.json").write_text(report.as_json(run))
    (out / "results.svg").write_text(chart(run.results, list(run.versions)))
    say(f"written: {out / 'RESULTS.md'}, results.json, results.svg")


def _ended(signal_number: int, frame: object) -> NoReturn:
    raise SystemExit(128 + signal_number)


def stop_on_sigterm() -> None:
    """SIGTERM ends this program as an exception does: servers and directories are cleared away."""
    signal.signal(signal.SIGTERM, _ended)


if __name__ == "__main__":
    stop_on_sigterm()
    sys.exit(main(sys.argv[1:]))
