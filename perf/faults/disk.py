"""The disk is full, and free again: caches, variants and logs lie on a small tmpfs.

While it is full every answer still comes, from RAM, the docroot and the app. Once there is room,
each of the three goes on by itself: how long that takes is how long each waits before it tries
again.
"""

from __future__ import annotations

import contextlib
import errno
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from perf.faults.answer import Target
from perf.faults.box import App, make_place, running_box, targets_of, wait_until
from perf.faults.crowd import Crowd
from perf.faults.outcome import Figure, Outcome, Promise, load_of, nothing_lost, nothing_wrong

SIZE = "32m"
CLIENTS = 30
BEFORE, FULL = 3.0, 10.0  # seconds
RECOVERS = 90.0  # compression tries again after 60
CHANGED = {"cache": {"dir_size": "8 MiB"}}


@contextlib.contextmanager
def small_disk(where: Path) -> Iterator[Path]:
    """A tmpfs; takes root. Raises OSError."""
    where.mkdir(parents=True)
    command = ["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "edgebox-faults", str(where)]
    if subprocess.run(command, capture_output=True, timeout=30, check=False).returncode:
        raise OSError(errno.EPERM, "a tmpfs cannot be mounted: it takes root")
    try:
        yield where
    finally:
        subprocess.run(["umount", "-l", str(where)], timeout=30, check=True)


def fill_disk(app: App, scratch: Path) -> Outcome:
    """The whole part."""
    with small_disk(scratch / "disk") as disk:
        place = make_place(scratch, keeps=disk)
        targets = targets_of(place.root)
        with (
            running_box(place, app, CHANGED) as box,
            Crowd(box.port, targets, CLIENTS, pause=0.1, turnover=0.02) as crowd,
        ):
            time.sleep(BEFORE)
            fill = disk / "fill"
            full_at = time.monotonic()
            while time.monotonic() - full_at < FULL:
                _fill(fill)
                _add_page(place.root, targets, len(targets))
                time.sleep(0.25)
            answered_full = sum(1 for asked, _ in crowd.tally.answers if asked > full_at)
            logged, freed_at = place.access_log.stat().st_size, time.time()
            fill.unlink()
            begun = time.monotonic()
            page = _add_page(place.root, targets, len(targets))
            left: dict[str, Callable[[], bool]] = {
                "access log": lambda: place.access_log.stat().st_size > logged,
                "answers on disk": lambda: _newer(disk / "cache", freed_at),
                "compression": lambda: _is_gzip(box.ask(page.path, coding="gzip")[1]),
            }
            took = {}

            def recovered() -> bool:
                for name in [name for name, done in left.items() if done()]:
                    took[name] = time.monotonic() - begun
                    del left[name]
                return not left

            wait_until(recovered, RECOVERS, "recovery")
            dropped = box.told()["counters"]["log_lines_dropped"]
            said = box.said("lines of the access log were lost")
        load = load_of(crowd.tally, CLIENTS)
    figures = [Figure(f"{name}: goes on after", seconds, "s") for name, seconds in took.items()]
    figures += [
        Figure("answers while the disk was full", answered_full),
        Figure("log lines dropped and counted", dropped),
    ]
    promises = (
        nothing_wrong(load),
        nothing_lost(load),
        Promise("dropped log lines are told in the error log", f"{said} lines say so", said > 0),
        Promise("log, disk cache and compression go on by themselves", "all three", True),
    )
    return Outcome("disk", load, promises, tuple(figures))


def _fill(file: Path) -> None:
    """Until there is room for not one octet more."""
    fd = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    try:
        for size in (1 << 20, 4096, 1):
            with contextlib.suppress(OSError):
                while os.write(fd, bytes(size)):
                    pass
    finally:
        os.close(fd)


def _add_page(root: Path, targets: list[Target], number: int) -> Target:
    """One more file that may be compressed, and answers that may be stored."""
    path = f"/page-{number}.html"
    body = f"<p>{path}</p>\n".encode() * 100
    (root / path[1:]).write_bytes(body)
    target = Target(path, body)
    targets.append(target)
    return target


def _newer(directory: Path, moment: float) -> bool:
    """Whether a file was stored since."""
    for parent, _, names in os.walk(directory):
        for name in names:
            with contextlib.suppress(OSError):
                seen = os.stat(os.path.join(parent, name))
                if seen.st_mtime > moment and seen.st_size > 2000:
                    return True
    return False


def _is_gzip(fields: object) -> bool:
    return bool(fields) and "content-encoding: gzip" in str(fields).lower()
