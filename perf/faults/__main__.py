"""`python -m perf.faults --seconds 120`: every fault in turn, against a box of its own each.

FAULTS.md and faults.json in perf/ are replaced by a full run only; a part of it prints its
report, and writes where --out says. Exit status 1 where a promise was broken.
"""

from __future__ import annotations

import argparse
import datetime
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import click

from perf import machine
from perf.faults import clock, descriptors, disk, killing, logs, report, scaling, successions
from perf.faults.box import App, BoxFailed, make_place, running_app, running_box, targets_of
from perf.faults.outcome import Outcome, Promise
from perf.peers import find

HERE = Path(__file__).parent.parent
SECONDS = 120.0
RELOADS, UPGRADES = 50, 10
COMPILER = "gcc"
PATIENT = "disk"
BESIDE = ("descriptors", "clock", "logs")  # whose figures do not suffer from a load beside them
ENDINGS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass(frozen=True)
class Options:
    """What the command line asked for; `out` None prints only."""

    seconds: float
    reloads: int
    upgrades: int
    parts: tuple[str, ...]
    shared: bool
    out: Path | None


Part = Callable[[App, Path], Outcome]


def parse(arguments: Sequence[str]) -> Options:
    """The options; exits with a message for what it does not know."""
    parser = argparse.ArgumentParser(prog="python -m perf.faults", description=__doc__)
    told = f"for how long processes are killed, {SECONDS:g} unless told otherwise"
    parser.add_argument("--seconds", type=float, default=SECONDS, help=told)
    parser.add_argument("--reloads", type=int, default=RELOADS, help=f"in a row: {RELOADS}")
    parser.add_argument("--upgrades", type=int, default=UPGRADES, help=f"in a row: {UPGRADES}")
    parser.add_argument("--parts", default="", help=f"of {', '.join(report.TITLES)}")
    told = "others use the machine: say so in the report"
    parser.add_argument("--shared", action="store_true", help=told)
    parser.add_argument("--out", type=Path, help="where to write the results")
    asked = parser.parse_args(arguments)
    parts = [part for part in asked.parts.split(",") if part]
    for word in sorted(set(parts) - set(report.TITLES)):
        parser.error(f"unknown: {word}")
    if asked.seconds <= 0 or asked.reloads < 1 or asked.upgrades < 1:
        parser.error("nothing would be done so few times")
    full = not parts and (asked.reloads, asked.upgrades) == (RELOADS, UPGRADES)
    return Options(
        asked.seconds,
        asked.reloads,
        asked.upgrades,
        tuple(part for part in report.TITLES if part in (parts or report.TITLES)),
        asked.shared,
        asked.out or (HERE if full else None),
    )


def say(*words: object) -> None:
    print(*words, file=sys.stderr, flush=True)


def kill(app: App, scratch: Path, seconds: float) -> Outcome:
    place = make_place(scratch)
    with running_box(place, app) as box:
        return killing.kill_at_random(box, app, targets_of(place.root), seconds)


def table_of_parts(options: Options) -> Mapping[str, Part]:
    """How each part is run."""
    gcc, wrk = find(COMPILER), find("wrk")

    def lacking(tool: str) -> NoReturn:
        raise OSError(f"{tool} is not installed")

    return {
        "killing": lambda app, scratch: kill(app, scratch, options.seconds),
        "disk": disk.fill_disk,
        "descriptors": descriptors.take_descriptors,
        "clock": lambda app, scratch: clock.set_clocks(app, scratch, gcc or lacking(COMPILER)),
        "logs": logs.stop_log_reader,
        "reloads": lambda app, scratch: successions.reload_often(app, scratch, options.reloads),
        "upgrades": lambda app, scratch: successions.upgrade_often(app, scratch, options.upgrades),
        "scaling": lambda app, scratch: scaling.scale(app, scratch, wrk or lacking("wrk")),
    }


def main(arguments: Sequence[str]) -> int:
    """Runs, prints or writes; 1 where a promise was broken."""
    options = parse(arguments)
    facts, begun = machine.facts(), time.monotonic()
    machine.raise_descriptor_limit()
    with tempfile.TemporaryDirectory(prefix="edgebox-faults-", ignore_cleanup_errors=True) as made:
        found = run_parts(options.parts, table_of_parts(options), Path(made))
    outcomes = tuple(it for it in found if isinstance(it, Outcome))
    missing = tuple(it for it in found if isinstance(it, str))
    run = report.Run(
        generated=datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        commit=machine.commit(),
        command=" ".join(["python -m perf.faults", *arguments]),
        took=time.monotonic() - begun,
        shared=options.shared,
        machine=facts,
        missing=missing,
        outcomes=outcomes,
    )
    write(run, options.out)
    for line in [*report.broken(outcomes), *(f"missing: {line}" for line in missing)]:
        say(line)
    return 1 if report.broken(outcomes) else 0


def run_parts(keys: Sequence[str], parts: Mapping[str, Part], scratch: Path) -> list[Outcome | str]:
    """What each found, in this order; or why it could not be done here.

    One of them is mostly a wait for a minute to pass: others are done meanwhile.
    """
    later: dict[str, Future[Outcome | str]] = {}
    found: dict[str, Outcome | str] = {}
    with ThreadPoolExecutor(1) as pool:
        for key in keys:
            say(report.TITLES[key])
            if key == PATIENT:
                later[key] = pool.submit(attempt, key, parts[key], scratch)
                continue
            if key not in BESIDE:
                found |= {name: it.result() for name, it in later.items()}
            found[key] = attempt(key, parts[key], scratch)
        found |= {name: it.result() for name, it in later.items()}
    return [found[key] for key in keys]


def attempt(key: str, part: Part, scratch: Path) -> Outcome | str:
    """A part, with an app of its own."""
    directory = scratch / key
    directory.mkdir()
    try:
        with running_app() as app:
            return part(app, directory)
    except OSError as problem:
        return f"{report.TITLES[key]}: {problem.strerror or problem}"
    except (BoxFailed, ValueError, subprocess.SubprocessError, click.ClickException) as problem:
        failed = Promise("it is done to its end", str(problem), kept=False)
        return Outcome(key, None, (failed,), ())


def write(run: report.Run, out: Path | None) -> None:
    """Both files in `out`, or the report on standard output."""
    if out is None:
        print(report.markdown(run))
        return
    out.mkdir(parents=True, exist_ok=True)
    (out / "FAULTS.md").write_text(report.markdown(run))
    (out / "faults.json").write_text(report.as_json(run))
    say(f"written: {out / 'FAULTS.md'}, faults.json")


def _ended(signal_number: int, frame: object) -> NoReturn:
    raise SystemExit(128 + signal_number)  # so that everything is cleared away


if __name__ == "__main__":
    for ending in ENDINGS:
        signal.signal(ending, _ended)
    sys.exit(main(sys.argv[1:]))
