"""The server's side: keeps a helper process at work and never waits for it.

A handler that misses a variant calls `request()`, which queues the job or forgets it; the
answer at hand goes out uncompressed, and the file store notices the variant when its file
appears. `run()` feeds one job at a time, restarts a helper that died, with growing pauses,
drops a job that two helpers died of, and ends the helper when there is nothing to do. A
directory that cannot be written is warned of once and tried again each minute: the server
goes on without. Knows no files, no codings and no processes.
"""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import trio

from edgebox.config.schema import Compression
from edgebox.files.compression.jobs import Job, Outcome, Report, settings_for
from edgebox.files.compression.process import Helper, HelperDied, HelperRefused, open_helper
from edgebox.files.entry import Identity

QUEUE = 1024  # jobs waiting; more are dropped, and asked for again by a later request
REMEMBERED = 4096  # finished jobs that are not taken again for a while
AGAIN = 60.0  # seconds until a finished job may be asked for again, and a directory tried
POISONED = 3600.0  # the same for a job that two helpers died of
DEATHS = 2
IDLE = 60.0  # a helper without work ends, and gives 20 MB back
FIRST_BACKOFF = 1.0
LONGEST_BACKOFF = 60.0

Key = tuple[Identity, bytes]


@dataclass(frozen=True, slots=True)
class CompressionStatistics:
    """What `CompressionClient.statistics()` returns; counts since start."""

    queued: int
    outcomes: Mapping[str, int]  # by `Outcome.value`
    octets_before: int  # of the variants kept
    octets_after: int
    swept: int
    dropped: int  # requests: queue full, or writing paused
    deaths: int  # helpers that ended by themselves
    poisoned: int  # jobs given up
    paused: bool
    helper: int | None  # process id


class CompressionClient:
    """Asks a helper process for variants.

    `directory` is the cache directory, which need not exist; `warn` takes one line for the
    error log. `request()` and `run()` belong to one trio run.
    """

    def __init__(
        self, config: Compression, directory: str | os.PathLike[str], warn: Callable[[str], None]
    ) -> None:
        self._enabled = config.enabled
        self._settings = settings_for(config, directory)
        self._warn = warn
        self._pending: dict[Key, Job] = {}  # the first is the one at work
        self._refused_until: dict[Key, float] = {}
        self._deaths_of: Counter[Key] = Counter()
        self._work = trio.Event()
        self._paused_until = -math.inf
        self._warned: set[Outcome] = set()
        self._backoff = FIRST_BACKOFF
        self._helper: int | None = None
        self._outcomes: Counter[str] = Counter()
        self._octets_before = self._octets_after = self._swept = 0
        self._dropped = self._deaths = self._poisoned = 0

    def request(self, job: Job) -> None:
        """Ask for a variant, if it is not being made, nor was a moment ago. Never blocks."""
        key = job.key
        if not self._enabled or key in self._pending:
            return
        now = trio.current_time()
        if now < self._refused_until.get(key, -math.inf):
            return
        if now < self._paused_until or len(self._pending) >= QUEUE:
            self._dropped += 1
            return
        self._pending[key] = job
        self._work.set()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Keep a helper at work until cancelled.

        The first helper starts at once, work or not: it prepares the directory, and tells
        early if it cannot.
        """
        task_status.started()
        if not self._enabled:
            return
        while True:
            try:
                async with open_helper(self._settings) as helper:
                    self._helper = helper.pid
                    try:
                        await self._feed(helper)
                    finally:
                        self._helper = None
            except HelperRefused as refusal:
                self._pause(refusal.report)
            except (HelperDied, OSError) as error:
                await self._survive(error)
            await self._work.wait()  # during a pause no request is let in

    def statistics(self) -> CompressionStatistics:
        return CompressionStatistics(
            queued=len(self._pending),
            outcomes=dict(self._outcomes),
            octets_before=self._octets_before,
            octets_after=self._octets_after,
            swept=self._swept,
            dropped=self._dropped,
            deaths=self._deaths,
            poisoned=self._poisoned,
            paused=self._paused_until > trio.current_time(),
            helper=self._helper,
        )

    async def _feed(self, helper: Helper) -> None:
        """Hand over jobs one by one; returns when there are none for a while, or on a pause."""
        while True:
            with trio.move_on_after(IDLE):
                await self._work.wait()
            if not self._pending:
                return
            job = next(iter(self._pending.values()))
            try:
                report = await helper.perform(job)
            except HelperDied:
                self._blame(job)
                raise
            self._finish(job.key, AGAIN)
            self._count(report)
            if report.outcome.stops_writing:
                self._pause(report)
                return
            self._backoff = FIRST_BACKOFF

    def _finish(self, key: Key, refused_for: float) -> None:
        del self._pending[key]
        self._deaths_of.pop(key, None)
        if not self._pending:
            self._work = trio.Event()
        self._refused_until.pop(key, None)
        self._refused_until[key] = trio.current_time() + refused_for
        if len(self._refused_until) > REMEMBERED:
            del self._refused_until[next(iter(self._refused_until))]

    def _count(self, report: Report) -> None:
        self._outcomes[report.outcome.value] += 1
        self._swept += report.swept
        if report.outcome is Outcome.KEPT:
            self._octets_before += report.before
            self._octets_after += report.after
            self._warned.clear()

    def _pause(self, report: Report) -> None:
        """Forget what waits and take nothing for a while: each job would fail alike."""
        self._paused_until = trio.current_time() + AGAIN
        self._dropped += len(self._pending)
        self._pending.clear()
        self._deaths_of.clear()
        self._work = trio.Event()
        if report.outcome not in self._warned:
            self._warned.add(report.outcome)
            self._warn(
                f"compression paused for {AGAIN:.0f} s, files are served as they are:"
                f" {report.outcome.value} ({report.text})"
            )

    def _blame(self, job: Job) -> None:
        """A helper died over this job: it gets another, but no third."""
        self._deaths_of[job.key] += 1
        if self._deaths_of[job.key] >= DEATHS:
            self._poisoned += 1
            self._finish(job.key, POISONED)
            self._warn(f"not compressed, {DEATHS} helpers died of it: {os.fsdecode(job.path)}")

    async def _survive(self, error: Exception) -> None:
        self._deaths += 1
        self._warn(f"compression helper lost: {error}; next in {self._backoff:.0f} s")
        await trio.sleep(self._backoff)
        self._backoff = min(self._backoff * 2, LONGEST_BACKOFF)
