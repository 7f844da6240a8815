"""The disk store as a worker has it: opened and opened again, with its housekeeper at work.

A directory that cannot be used is warned of once and tried each minute; so is one that was
emptied under us. The worker that finds no housekeeper starts one, and ends it with itself; the
others stand by. Nothing here is ever waited for by a request.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

import msgspec
import trio

from edgebox.cache.answer import Instant
from edgebox.cache.disk import clock
from edgebox.cache.disk.finder import Filed
from edgebox.cache.disk.layout import LOCK
from edgebox.cache.disk.lock import try_lock
from edgebox.cache.disk.outcome import Busy, Outcome
from edgebox.cache.disk.purge import Purge
from edgebox.cache.disk.reports import Report, read_line
from edgebox.cache.disk.store import Settings, Store, StoreStatistics
from edgebox.cache.disk.writing import Writing
from edgebox.cache.entry import StoredResponse

MODULE = "edgebox.cache.disk.housekeeper"
TURN = 1.0
AGAIN = 60.0  # seconds until a directory that could not be used is tried again
FIRST_BACKOFF = 1.0
LONGEST_BACKOFF = 60.0
LONGEST_LINE = 64 * 1024

_TAKEN = "exit status 3"  # as `housekeeper.TAKEN`; that module is for its own process

Log = Callable[[str, str], None]  # level, text


@dataclass(frozen=True, slots=True)
class DiskStatistics:
    """`store` is None while the directory cannot be used; `housekeeper` is a process id, None
    where another worker's is at work; `report` is the last of ours."""

    store: StoreStatistics | None
    housekeeper: int | None
    deaths: int
    report: Report


class DiskStore:
    """Opens its directory at once; `run` keeps it going. The methods are `Store`'s.

    Without a directory that can be used nothing is found, and nothing stored.
    """

    def __init__(self, settings: Settings, log: Log) -> None:
        self._settings = settings
        self._log = log
        self._warnings: deque[str] = deque(maxlen=16)  # from threads, for the loop to tell
        self._store: Store | None = None
        self._told = ""
        self._open_at = 0.0
        self._purges_missed = self._made_up = 0  # while there was no store
        self._process: int | None = None
        self._deaths = 0
        self._report = Report()
        self._open()
        self._tell()

    @property
    def enabled(self) -> bool:
        return self._store is not None

    def mark(self) -> int:
        return self._store.mark() if self._store else 0

    def find(self, key: bytes, now: Instant) -> list[Filed]:
        return self._store.find(key, now) if self._store else []

    def find_nowait(self, key: bytes, now: Instant) -> list[Filed] | None:
        return self._store.find_nowait(key, now) if self._store else []

    def touch(self, key: bytes) -> None:
        if self._store:
            self._store.touch(key)

    def begin(self, size_hint: int | None) -> Writing | Outcome:
        return self._store.begin(size_hint) if self._store else Outcome.DISABLED

    def keep(self, key: bytes, entry: StoredResponse, body: bytes, born: int) -> Outcome:
        return self._store.keep(key, entry, body, born) if self._store else Outcome.DISABLED

    def renew(self, filed: Filed, entry: StoredResponse, born: int) -> Outcome:
        return self._store.renew(filed, entry, born) if self._store else Outcome.DISABLED

    def remove(self, filed: Filed) -> Outcome:
        return self._store.remove(filed) if self._store else Outcome.DISABLED

    def since(self, mark: int) -> tuple[Purge, ...] | None:
        return self._store.since(mark) if self._store else None

    def key_purged(self, key: bytes, mark: int) -> bool:
        return self._store.key_purged(key, mark) if self._store else False

    def purge(self, purge: Purge, now: Instant, *, durable: bool = True) -> Outcome:
        if self._store is None:
            self._purges_missed += 1  # before the next look: another thread may be opening it
        store = self._store
        return store.purge(purge, now, durable=durable) if store else Outcome.DISABLED

    def darken(self) -> None:
        """A purge was missed: nothing is found before everything was purged."""
        self._purges_missed += 1
        if self._store:
            self._store.darken()

    def statistics(self) -> DiskStatistics:
        store = self._store.statistics() if self._store else None
        return DiskStatistics(store, self._process, self._deaths, self._report)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Keep the store open and a housekeeper at work, until cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._keep_house)
            task_status.started()
            while True:
                await trio.to_thread.run_sync(self._turn)
                self._tell()
                await trio.sleep(TURN)

    def close(self) -> None:
        """When nothing of it is used any more."""
        if self._store is not None:
            self._store.close()
            self._store = None

    def _turn(self) -> None:
        store = self._store
        if store is not None and store.lost:
            self._warnings.append(
                f"{os.fsdecode(self._settings.directory)} was emptied: the disk cache begins anew"
            )
            store.abandon()
            self._store = store = None
            self._open_at = 0.0
        if store is None:
            self._open()
        else:
            store.turn(clock.now())

    def _open(self) -> None:
        now = clock.now().steady
        if now < self._open_at:
            return
        missed = self._purges_missed
        try:
            # What a purge did not reach must not come back with the directory.
            dark = missed != self._made_up
            self._store = store = Store(self._settings, self._warnings.append, dark=dark)
            self._made_up = missed
            if self._purges_missed != missed:
                store.darken()
        except (OSError, Busy) as error:
            self._open_at = now + AGAIN
            told = f"no disk cache, tried again in {AGAIN:.0f} s: {error or 'locked'}"
            if told != self._told:
                self._warnings.append(told)
                self._told = told
        else:
            self._told = ""

    def _tell(self) -> None:
        with suppress(IndexError):
            while True:
                self._log("warning", self._warnings.popleft())

    async def _keep_house(self) -> None:
        backoff = FIRST_BACKOFF
        while True:
            if self._store is not None and await trio.to_thread.run_sync(self._is_unattended):
                started = trio.current_time()
                ended = await self._run_housekeeper()
                if ended == _TAKEN:  # by another worker, in the same moment
                    await trio.sleep(TURN)
                    continue
                self._deaths += 1
                if trio.current_time() - started > LONGEST_BACKOFF:
                    backoff = FIRST_BACKOFF
                self._log(
                    "warning", f"disk cache housekeeper lost: {ended}; next in {backoff:.0f} s"
                )
                await trio.sleep(backoff)
                backoff = min(2 * backoff, LONGEST_BACKOFF)
            else:
                await trio.sleep(TURN)

    def _is_unattended(self) -> bool:
        """Whether no housekeeper has the lock; asking takes it for a moment."""
        path = os.path.join(self._settings.directory, LOCK)
        try:
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        except OSError:
            return False
        try:
            return try_lock(fd)
        finally:
            os.close(fd)

    async def _run_housekeeper(self) -> str:
        """Have one at work until it ends; returns how it ended."""
        # -P: what lies in the current directory is not ours to import. A process group of its
        # own keeps a terminal's Ctrl-C from it.
        command = [
            sys.executable, "-P", "-m", MODULE,
            os.fsdecode(self._settings.directory), str(self._settings.limit),
        ]  # fmt: skip
        run = partial(
            trio.run_process,
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            check=False,
            process_group=0,
        )
        told = ""
        try:
            async with trio.open_nursery() as nursery:
                process: trio.Process = await nursery.start(run)
                self._process = process.pid
                await self._listen(process)
                status = await process.wait()
                told = f"ended by signal {-status}" if status < 0 else f"exit status {status}"
        except* OSError as errors:
            told = f"cannot be started: {errors.exceptions[0]}"
        finally:
            self._process = None
        return told

    async def _listen(self, process: trio.Process) -> None:
        """Take its reports, until it says no more."""
        assert process.stdout is not None
        pending = b""
        async for octets in process.stdout:
            *lines, pending = (pending + octets).split(b"\n")
            for line in lines:
                with suppress(msgspec.MsgspecError):
                    self._report = read_line(line)
                    if self._report.text:
                        self._log("warning", self._report.text)
            if len(pending) > LONGEST_LINE:
                return
