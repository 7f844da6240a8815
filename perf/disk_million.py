"""What a disk cache of many small answers costs: `python -m perf.disk_million DIRECTORY [COUNT]`.

Stores COUNT answers of 449 octets (a million by default, which take 4 GB and some 15 minutes
on ext4), then measures lookups with warm caches, the start of a store, what the housekeeper
needs to fill a lost index and to go round with one that is there, and a purge by tag. Times
are of the processor where that is what counts, since this machine is not idle; the
housekeeper runs at nice 19. The directory is made anew, and left for a look.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
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


def tell(what: str, value: str) -> None:
    print(f"{what:<52}{value}", flush=True)


def fill(store: Store, count: int) -> None:
    entries = [entry_of(number) for number in range(TAGS)]
    began, processor = time.monotonic(), time.process_time()
    for number in range(count):
        outcome = store.keep(key_of(number), entries[number % TAGS], BODY, store.mark())
        assert outcome is Outcome.STORED, outcome
    each = 1e6 / count
    elapsed, used = time.monotonic() - began, time.process_time() - processor
    tell("store one", f"{elapsed * each:.0f} µs, of which processor {used * each:.0f}")


def look_up(store: Store, count: int, what: str, find: Callable[[Store, bytes], object]) -> None:
    """Times of random keys; those beyond `count` are misses."""
    chance = random.Random(1)
    keys = [key_of(chance.randrange(count)) for _ in range(LOOKUPS)]
    if "miss" in what:
        keys = [key + b"&none" for key in keys]
    for key in keys:  # once for the caches
        find(store, key)
    began, processor = time.monotonic(), time.process_time()
    for key in keys:
        find(store, key)
    elapsed, used = time.monotonic() - began, time.process_time() - processor
    each = 1e6 / LOOKUPS
    tell(what, f"{elapsed * each:.1f} µs, of which processor {used * each:.1f}")


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
            tell("said", report.text)
        if ready(report):
            return report
    raise RuntimeError("the housekeeper ended")


def processor_time(pid: int) -> float:
    """Seconds that a process has used (proc(5), stat)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def go_round(directory: Path, limit: int, what: str) -> None:
    began = time.monotonic()
    with housekeeper(directory, limit) as process:
        report = wait_for(process, lambda report: report.surveys and not report.purges)
        elapsed = time.monotonic() - began
        used, memory = processor_time(process.pid), report.memory / (1 << 20)
        tell(what, f"{elapsed:.1f} s, processor {used:.1f} s, {memory:.0f} MiB resident")


def purge(store: Store, directory: Path, limit: int) -> None:
    with housekeeper(directory, limit) as process:
        wait_for(process, lambda report: report.surveys)
        began = time.monotonic()
        assert store.purge(Purge(kind=Kind.TAG, value=b"t7"), clock.now()).done
        tell(
            "purge by tag, in force (with fdatasync)", f"{(time.monotonic() - began) * 1e3:.1f} ms"
        )
        assert store.find(key_of(7), clock.now()) == []
        path = directory / "objects"
        goal = store.statistics().kept
        while store.statistics().kept == goal:
            time.sleep(0.05)
        before = -1
        while (kept := store.statistics().kept) != before:
            before = kept
            time.sleep(0.5)
        tell("the same, files removed", f"{time.monotonic() - began - 0.5:.1f} s ({path})")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("directory", type=Path)
    parser.add_argument("count", type=int, nargs="?", default=1_000_000)
    arguments = parser.parse_args()
    directory, count = arguments.directory, arguments.count
    shutil.rmtree(directory, ignore_errors=True)
    settings = Settings(os.fsencode(directory), limit=count * 4096 * 2)
    store = Store(settings, lambda text: tell("warning", text))
    fill(store, count)
    look_up(store, count, "hit", find)
    look_up(store, count, "hit, without waiting", find_nowait)
    look_up(store, count, "miss", find)
    look_up(store, count, "miss, without waiting", find_nowait)
    began = time.monotonic()
    Store(settings, print).close()
    tell("open a store", f"{(time.monotonic() - began) * 1e3:.1f} ms")
    go_round(directory, settings.limit, "housekeeper: fill a lost index")
    go_round(directory, settings.limit, "housekeeper: go round, index there")
    octets = sum(path.stat().st_size for path in directory.glob("index.sqlite*"))
    tell("index", f"{octets / count:.0f} octets an answer")
    purge(store, directory, settings.limit)
    store.close()


if __name__ == "__main__":
    main()
