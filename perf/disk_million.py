"""`python -m perf.disk_million`: what a disk cache of a million small answers costs.

Stores answers of 449 octets (a million take 4 GB) by several processes at once, as workers do, then
measures lookups with warm caches, the start of a store, what the housekeeper needs to fill a lost
index and to go round with one that is there, and a purge by tag. Times are of the processor too,
since a machine is seldom idle; the housekeeper runs at nice 19.

Everything lies in a directory of its own that is gone at the end, or stays where --keep says.
disk_million.json beside this file is replaced by a full run only, or written where --out says;
CACHE.md is made of it.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from multiprocessing import get_context
from pathlib import Path

from edgebox.cache.answer import Answer
from edgebox.cache.disk import clock
from edgebox.cache.disk.outcome import Outcome
from edgebox.cache.disk.purge import Kind, Purge
from edgebox.cache.disk.reports import Report, read_line
from edgebox.cache.disk.store import Settings, Store
from edgebox.cache.entry import StoredResponse, describe
from edgebox.cache.freshness import assess
from edgebox.cache.rules import CacheRules
from edgebox.cache.targeted import select_control
from edgebox.http.headers import Headers
from perf import cache_page, machine
from perf.bench import stop_on_sigterm

HERE = Path(__file__).parent
COUNT = 1_000_000
QUICK = 2_000
PUBLISHED = "disk_million.json"
BODY = bytes(449)
LOOKUPS = 20_000
TAGS = 100  # each on one answer of a hundred
HOUSEKEEPER = "edgebox.cache.disk.housekeeper"


def key_of(number: int) -> bytes:
    return b"http://www.example.com/articles/2026/%09d/index.html?page=1" % number


def entry_of(number: int) -> StoredResponse:
    now = clock.now()
    fields = (
        (b"Content-Type", b"text/html; charset=utf-8"),
        (b"Cache-Control", b"public, max-age=86400"),
        (b"ETag", b'"%032x"' % number),
        (b"Vary", b"Accept-Encoding"),
        (b"Surrogate-Key", b"t%d" % (number % TAGS)),
    )
    rules = CacheRules()
    answer = Answer(200, Headers(fields), now, now)
    freshness = assess(answer, select_control(answer.headers, rules.targets), rules)
    return describe(Headers(((b"Accept-Encoding", b"gzip, br"),)), answer, freshness, rules)


@dataclass(frozen=True)
class Options:
    """`processes` store at once. `directory` None: a temporary one. `out` None prints only."""

    count: int
    processes: int
    directory: Path | None
    out: Path | None


class Findings:
    """What was found, told at once."""

    def __init__(self) -> None:
        self.rows: list[tuple[str, str]] = []

    def tell(self, what: str, value: str) -> None:
        self.rows.append((what, value))
        print(f"{what:<52}{value}", flush=True)


def parse(arguments: Sequence[str]) -> Options:
    parser = argparse.ArgumentParser(prog="python -m perf.disk_million", description=__doc__)
    parser.add_argument("--count", type=int, default=COUNT, help="answers to store")
    parser.add_argument("--quick", action="store_true", help=f"{QUICK} of them")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1, help="that store")
    parser.add_argument("--keep", type=Path, metavar="DIRECTORY", help="made anew, and left there")
    parser.add_argument("--out", type=Path, help="the file to write")
    asked = parser.parse_args(arguments)
    count = QUICK if asked.quick else asked.count
    out = asked.out or (HERE / PUBLISHED if count >= COUNT else None)
    return Options(count, asked.processes, asked.keep, out)


def fill(settings: Settings, count: int, processes: int, findings: Findings) -> None:
    edges = [count * part // processes for part in range(processes + 1)]
    began = time.monotonic()
    with get_context("fork").Pool(processes) as pool:  # ends them when it is left early
        parts = pool.starmap(partial(fill_part, settings), pairwise(edges))
    whole, each = time.monotonic() - began, 1e6 / count
    elapsed, used = (sum(seconds) * each for seconds in zip(*parts, strict=True))
    findings.tell("store one", f"{elapsed:.0f} µs, of which processor {used:.0f}")
    findings.tell(f"store all, {processes} processes", f"{whole:.0f} s")


def fill_part(settings: Settings, start: int, stop: int) -> tuple[float, float]:
    """Store the answers of these numbers; seconds that passed, and of the processor."""
    store = Store(settings, lambda text: print(text, file=sys.stderr))
    entries = [entry_of(number) for number in range(TAGS)]
    began, processor = time.monotonic(), time.process_time()
    for number in range(start, stop):
        outcome = store.keep(key_of(number), entries[number % TAGS], BODY, store.mark())
        assert outcome is Outcome.STORED, outcome
    told = time.monotonic() - began, time.process_time() - processor
    store.close()
    return told


def look_up(find: Callable[[bytes], object], keys: Sequence[bytes]) -> str:
    """How long each of `keys` takes."""
    for key in keys:  # once for the caches
        find(key)
    began, processor = time.monotonic(), time.process_time()
    for key in keys:
        find(key)
    elapsed, used = time.monotonic() - began, time.process_time() - processor
    each = 1e6 / len(keys)
    return f"{elapsed * each:.1f} µs, of which processor {used * each:.1f}"


def look_up_all(store: Store, count: int, findings: Findings) -> None:
    """Random keys, in the loop's way and in a thread's."""
    chance = random.Random(1)
    there = [key_of(chance.randrange(count)) for _ in range(min(LOOKUPS, count))]
    for what, keys in (("hit", there), ("miss", [key + b"&none" for key in there])):
        findings.tell(what, look_up(partial(find, store), keys))
        findings.tell(f"{what}, without waiting", look_up(partial(find_nowait, store), keys))


def find(store: Store, key: bytes) -> None:
    for filed in store.find(key, clock.now()):
        filed.release()


def find_nowait(store: Store, key: bytes) -> None:
    for filed in store.find_nowait(key, clock.now()) or ():
        filed.release()


@contextmanager
def housekeeper(directory: Path, limit: int) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", HOUSEKEEPER, str(directory), str(limit)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        yield process
    finally:
        process.communicate()


def wait_for(process: subprocess.Popen[bytes], ready: Callable[[Report], object]) -> Report:
    assert process.stdout is not None
    for line in process.stdout:
        report = read_line(line)
        if report.text:
            print(report.text, file=sys.stderr)
        if ready(report):
            return report
    raise RuntimeError("the housekeeper ended")


def processor_time(pid: int) -> float:
    """Seconds that a process has used (proc(5), stat)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident() -> float:
    """MiB that this process holds."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / (1 << 20)


def go_round(directory: Path, limit: int) -> str:
    began = time.monotonic()
    with housekeeper(directory, limit) as process:
        report = wait_for(process, lambda report: report.surveys and not report.purges)
        elapsed = time.monotonic() - began
        used, memory = processor_time(process.pid), report.memory / (1 << 20)
        return f"{elapsed:.1f} s, processor {used:.1f} s, {memory:.0f} MiB resident"


def purge(store: Store, directory: Path, limit: int, findings: Findings) -> None:
    with housekeeper(directory, limit) as process:
        wait_for(process, lambda report: report.surveys)
        began = time.monotonic()
        assert store.purge(Purge(kind=Kind.TAG, value=b"t7"), clock.now()).done
        in_force = (time.monotonic() - began) * 1e3
        findings.tell("purge by tag, in force (with fdatasync)", f"{in_force:.1f} ms")
        assert store.find(key_of(7), clock.now()) == []
        kept = store.statistics().kept
        while (before := kept) == (kept := store.statistics().kept):
            time.sleep(0.05)
        while kept != before:
            ended, before = time.monotonic(), kept
            time.sleep(0.5)
            kept = store.statistics().kept
        findings.tell("the same, files removed", f"{ended - began:.1f} s")


def measure(directory: Path, count: int, processes: int, findings: Findings) -> None:
    settings = Settings(os.fsencode(directory), limit=max(count, 1000) * 4096 * 2)
    Store(settings, print).close()  # one, since the first makes the directory
    fill(settings, count, processes, findings)
    before = resident()
    store = Store(settings, lambda text: print(text, file=sys.stderr))
    look_up_all(store, count, findings)
    findings.tell("memory of a worker for the disk tier", f"{resident() - before:.0f} MiB")
    began = time.monotonic()
    Store(settings, print).close()
    findings.tell("start: open a store", f"{(time.monotonic() - began) * 1e3:.1f} ms")
    findings.tell("housekeeper: fill a lost index", go_round(directory, settings.limit))
    findings.tell("housekeeper: go round, index there", go_round(directory, settings.limit))
    octets = sum(path.stat().st_size for path in directory.glob("index.sqlite*"))
    findings.tell("index", f"{octets / count:.0f} octets an answer")
    purge(store, directory, settings.limit, findings)
    store.close()


def main(arguments: Sequence[str]) -> int:
    options = parse(arguments)
    facts, findings = machine.facts(), Findings()
    directory = options.directory or Path(tempfile.mkdtemp(prefix="edgebox-million-"))
    try:
        shutil.rmtree(directory, ignore_errors=True)
        measure(directory, options.count, options.processes, findings)
    finally:
        if options.directory is None:
            shutil.rmtree(directory, ignore_errors=True)
    if options.out is not None:
        told = {
            "generated": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
            "commit": machine.commit(),
            "answers": options.count,
            "machine": facts,
            "findings": findings.rows,
        }
        options.out.write_text(json.dumps(told, indent=1, ensure_ascii=False) + "\n")
        if options.out.parent == HERE:
            cache_page.write(HERE)
    return 0


if __name__ == "__main__":
    stop_on_sigterm()
    sys.exit(main(sys.argv[1:]))
