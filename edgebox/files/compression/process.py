"""One helper process, as the process that started it sees it.

Started, asked for one variant after the other, ended: each within a deadline, and no
process is left behind. Knows what a report says, not what follows from it.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec
import trio

from edgebox.files.compression.jobs import (
    Job,
    Outcome,
    Report,
    Settings,
    read_report,
    write_line,
)

MODULE = "edgebox.files.compression.helper"
# 16 MiB at Brotli's level 11 take half a minute of processor time, of which nice 19 gets
# a seventieth when others want all of it (sched(7): weight 15 against 1024).
DEADLINE = 3600.0
ENDING = 1.0  # seconds between asking a helper to end and making it
LONGEST_LINE = 64 * 1024


class HelperDied(Exception):
    """The helper ended, or answered nonsense, or not within the deadline."""


class HelperRefused(Exception):
    """The helper cannot work in its directory; `report` says why."""

    def __init__(self, report: Report) -> None:
        super().__init__(report.text)
        self.report = report


class Helper:
    """One helper process. Use `open_helper()`."""

    def __init__(self, process: trio.Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._process = process
        self._stdin = process.stdin
        self._stdout = process.stdout

    @property
    def pid(self) -> int:
        return self._process.pid

    async def wait_ready(self) -> Report:
        """What the helper says of its directory. Raises HelperDied."""
        return await self._converse(b"")

    async def perform(self, job: Job) -> Report:
        """Have one variant made. Raises HelperDied; the helper is of no use after that."""
        return await self._converse(write_line(job))

    async def _converse(self, line: bytes) -> Report:
        try:
            with trio.fail_after(DEADLINE):
                await self._stdin.send_all(line)
                return read_report(await self._receive_line())
        except trio.TooSlowError as error:
            raise HelperDied(f"no answer within {DEADLINE:.0f} s") from error
        except trio.BrokenResourceError as error:
            raise HelperDied(await self._describe_end()) from error
        except msgspec.MsgspecError as error:
            raise HelperDied(f"no report: {error}") from error

    async def _receive_line(self) -> bytes:
        line = b""
        while not line.endswith(b"\n"):
            piece = await self._stdout.receive_some()
            if not piece or len(line) > LONGEST_LINE:
                raise HelperDied(await self._describe_end())
            line += piece
        return line

    async def _describe_end(self) -> str:
        with trio.move_on_after(ENDING):
            status = await self._process.wait()
            return f"ended by signal {-status}" if status < 0 else f"exit status {status}"
        return "standard output closed"

    async def end(self) -> None:
        """Leave no process behind, within two ENDINGs at most, cancelled or not."""
        self._process.terminate()
        with trio.CancelScope(shield=True):
            await trio.aclose_forcefully(self._stdin)
            await trio.aclose_forcefully(self._stdout)
            with trio.move_on_after(ENDING):
                await self._process.wait()
                return
            self._process.kill()
            with trio.move_on_after(ENDING):  # SIGKILL waits only for a disk that hangs
                await self._process.wait()


@asynccontextmanager
async def open_helper(settings: Settings) -> AsyncIterator[Helper]:
    """Start a helper; it is gone when the block ends.

    HelperRefused if the directory cannot be used, HelperDied if it does not come up, OSError
    if the process cannot be started.
    """
    # -P: what lies in the current directory is not ours to import. Its own process group
    # keeps a terminal's Ctrl-C from it, but not a session: there, nice would count for nothing
    # against the server (sched(7), autogroups).
    process = await trio.lowlevel.open_process(
        [sys.executable, "-P", "-m", MODULE, *settings.arguments()],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        process_group=0,
    )
    helper = Helper(process)
    try:
        report = await helper.wait_ready()
        if report.outcome is not Outcome.READY:
            raise HelperRefused(report)
        yield helper
    finally:
        await helper.end()
