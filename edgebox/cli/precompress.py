"""`edgebox precompress`: makes all variants now that the server would make when asked.

For a deployment that wants its first visitor to get the small answer. The same helper
processes do the work, one for each processor, as niced as ever; a server that runs
meanwhile finds the variants one by one. Shows a bar on a terminal, a line now and then
elsewhere, and a summary that an operator can compare with the last one.
"""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import click
import trio

from edgebox.cli.options import config_option, load_or_exit
from edgebox.config.schema import Config
from edgebox.config.settle import look_at_machine, settle
from edgebox.files.compression.jobs import Outcome, Report, Settings, settings_for
from edgebox.files.compression.process import Helper, HelperDied, HelperRefused, open_helper
from edgebox.files.compression.survey import Eligible, find_files

FILES_PER_LINE = 1000

# Told of each file that is done.
Advance = Callable[[Eligible], None]


@click.command()
@config_option
def precompress(config: Path | None) -> None:
    """Fill the compression cache ahead of time.

    Exits with 1, and each problem on standard error, if some file could not be done.
    """
    asked, _ = load_or_exit(config)
    settled = settle(asked, look_at_machine())
    if not settled.compression.enabled:
        click.echo("compression is off: nothing to do")
        return
    assert settled.compression.dir is not None  # settle() sees to it
    began = time.monotonic()
    tally = Tally()
    tally.survey(settled)
    click.echo(f"{tally.files} files, {tally.octets:,} octets, into {settled.compression.dir}")
    interrupted = False
    with show_progress(tally) as advance:
        worklist = (found for found in find_files(settled) if isinstance(found, Eligible))
        work = Work(
            worklist, settings_for(settled.compression, settled.compression.dir), tally, advance
        )
        try:
            trio.run(work.run, len(os.sched_getaffinity(0)))
        except* KeyboardInterrupt:
            interrupted = True
    for line in tally.summary():
        click.echo(line)
    click.echo(f"{time.monotonic() - began:.1f} s")
    for line in tally.errors:
        click.echo(line, err=True)
    if interrupted:
        raise click.Abort
    sys.exit(1 if tally.errors else 0)


class Tally:
    """What was found, made, passed over, and what went wrong."""

    def __init__(self) -> None:
        self.files = 0
        self.octets = 0
        self.errors: dict[str, None] = {}  # a set that keeps the order
        self._passed: Counter[str] = Counter()
        self._outcomes: dict[bytes, Counter[Outcome]] = {}
        self._before: Counter[bytes] = Counter()
        self._after: Counter[bytes] = Counter()
        self._swept = 0

    def survey(self, config: Config) -> None:
        """Count the work ahead, and what is passed over."""
        for coding in config.compression.codings:
            self._outcomes[coding.encode()] = Counter()
        for found in find_files(config):
            if isinstance(found, Eligible):
                self.files += 1
                self.octets += found.size
            elif found.error:
                self.fail(found.path, found.reason)
            else:
                self._passed[found.reason] += 1

    def count(self, path: bytes, coding: bytes, report: Report) -> None:
        self._swept += report.swept
        self._outcomes[coding][report.outcome] += 1
        if report.outcome is Outcome.KEPT:
            self._before[coding] += report.before
            self._after[coding] += report.after
        elif report.outcome.is_error:
            self.fail(path, f"{report.outcome.value} {report.text}".rstrip())

    def fail(self, path: bytes, reason: str) -> None:
        self.errors[f"{os.fsdecode(path)}: {reason}"] = None

    def summary(self) -> Iterator[str]:
        for coding, outcomes in self._outcomes.items():
            before, after = self._before[coding], self._after[coding]
            counts = [f"{number} {outcome.value}" for outcome, number in outcomes.items()]
            sizes = [f"{before:,} → {after:,} octets"] if before else []
            yield f"{coding.decode()}: {', '.join(counts + sizes) or 'nothing to do'}"
        for reason, number in sorted(self._passed.items()):
            yield f"passed over: {number} {reason}"
        if self._swept:
            yield f"removed to stay within compression.dir_size: {self._swept}"


class Stopped(Exception):
    """The cache directory takes nothing more: the next file would fail alike."""


class Work:
    """The worklist, and the helpers that share it."""

    def __init__(
        self, worklist: Iterator[Eligible], settings: Settings, tally: Tally, advance: Advance
    ) -> None:
        self._worklist = worklist
        self._settings = settings
        self._tally = tally
        self._advance = advance

    async def run(self, processes: int) -> None:
        """Work the list off, or end early where nothing more can be written."""
        async with trio.open_nursery() as nursery:
            for _ in range(processes):
                nursery.start_soon(self._keep_working, nursery.cancel_scope)

    async def _keep_working(self, everyone: trio.CancelScope) -> None:
        try:
            while await self._use_helper():
                pass
        except (Stopped, HelperRefused, HelperDied, OSError) as error:
            if not everyone.cancel_called:
                self._tally.fail(self._settings.directory, str(error))
            everyone.cancel()

    async def _use_helper(self) -> bool:
        """Work with one helper. True if a file was its death, and others may be left."""
        async with open_helper(self._settings) as helper:
            for file in self._worklist:
                try:
                    await self._compress(helper, file)
                except HelperDied as error:
                    self._tally.fail(file.path, f"compression helper lost, {error}")
                    return True
                self._advance(file)
        return False

    async def _compress(self, helper: Helper, file: Eligible) -> None:
        for job in file.jobs:
            report = await helper.perform(job)
            if report.outcome.stops_writing:
                raise Stopped(report.text)
            self._tally.count(file.path, job.coding, report)


@contextmanager
def show_progress(tally: Tally) -> Iterator[Advance]:
    """Yields what is to be called for each file that is done."""
    if sys.stdout.isatty():
        from rich.progress import Progress  # not for those who get plain lines

        with Progress() as bar:
            task = bar.add_task("compressing", total=tally.octets)
            yield lambda file: bar.advance(task, file.size)
        return
    done = 0

    def advance(file: Eligible) -> None:
        nonlocal done
        done += 1
        if done % FILES_PER_LINE == 0:
            click.echo(f"{done} of {tally.files} files")

    yield advance
