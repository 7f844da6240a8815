"""A log that is never waited for: lines are batched and written by a thread.

A full disk, a stuck pipe or a slow network file system holds up the writer thread and
nothing else; what cannot be written is held up to a bound, then dropped and counted.
"""

from __future__ import annotations

import os
import select
import stat
import threading
from typing import Protocol

import trio

from edgebox.observe.syslog import (
    INFO,
    Severity,
    SyslogTarget,
    is_syslog,
    local_sender,
    parse_receiver,
)

PATIENCE = 1.0  # seconds that a write under way may still take when the process ends


class Target(Protocol):
    """Where batches go. `problem`: why the last one was not all written, "" if it was."""

    problem: str

    def write(self, batch: bytes) -> int:
        """Write whole lines; may wait. Returns how many were lost."""
        ...

    def write_nowait(self, batch: bytes) -> int:
        """The same without waiting, as the last that is done before `close`."""
        ...

    def reopen(self) -> str: ...
    def close(self) -> None: ...


class Sink:
    """Where log lines go: a path, "-" (a given descriptor), syslog, or "off".

    `add` takes octets in pieces; `flush` (once an epoch) hands what came to the thread.
    """

    def __init__(
        self,
        target: str,
        standard_fd: int,
        backlog: int,
        name: str = "access",
        severity: Severity = lambda line: INFO,
    ) -> None:
        """`standard_fd` is what "-" means; `backlog` the octets held before dropping. `name`
        and `severity`, of a line, are for syslog.

        Raises OSError when the path cannot be opened.
        """
        self.name = name
        self._backlog = backlog
        self._waiting: list[bytes] = []  # batches not yet written
        self._held = 0
        self._more = trio.Event()
        self._idle = threading.Event()  # set while no thread writes
        self._idle.set()
        self.pieces: list[bytes] = []
        self.add = self.pieces.append
        self.dropped = 0  # lines lost since the start
        self._target: Target | None = None
        if is_syslog(target):
            self._target = SyslogTarget(parse_receiver(target), local_sender(name), severity)
        elif target == "-":
            self._target = FileTarget("", standard_fd)
        elif target != "off":
            self._target = FileTarget(target, _open(target))

    @property
    def enabled(self) -> bool:
        return self._target is not None

    @property
    def problem(self) -> str:
        """Why lines are lost just now, as far as that is known."""
        return self._target.problem if self._target is not None else ""

    def flush(self) -> None:
        """Hand over what was added; drop it if the backlog is full."""
        if not self.pieces:
            return
        batch = b"".join(self.pieces)
        self.pieces.clear()
        if self._held + len(batch) > self._backlog:
            self.dropped += batch.count(b"\n")
            return
        self._waiting.append(batch)
        self._held += len(batch)
        self._more.set()

    def reopen(self) -> str:
        """Open the path again, after rotation. Why it cannot be: then the old file goes on."""
        return self._target.reopen() if self._target is not None else ""

    async def run(self) -> None:
        """Write batches until cancelled."""
        while True:
            await self._more.wait()
            self._more = trio.Event()
            while self._waiting:
                batch = b"".join(self._waiting)
                self._waiting.clear()
                # Abandoned on cancel: a stuck pipe must not hold up the end of the process.
                self._idle.clear()
                lost = await trio.to_thread.run_sync(self._write, batch, abandon_on_cancel=True)
                self._held -= len(batch)
                self.dropped += lost

    def close(self) -> None:
        """Write what is left if that does not block, then close.

        A thread that is stuck in a write keeps its descriptor: closed under its hands, the
        number could be another file's by the time it goes on.
        """
        self.flush()
        if not self._idle.wait(PATIENCE):
            return
        batch, self._waiting = b"".join(self._waiting), []
        if self._target is None:
            return
        if batch:
            self.dropped += self._target.write_nowait(batch)
        self._target.close()
        self._target = None

    def _write(self, batch: bytes) -> int:
        try:
            return self._target.write(batch) if self._target is not None else 0
        finally:
            self._idle.set()

    def statistics(self) -> dict[str, int]:
        """Octets `held`, lines `dropped`."""
        return {"held": self._held, "dropped": self.dropped}


class FileTarget:
    """An open file or pipe; `path` is "" for one that is not ours to open or close.

    All workers write to the same. What goes to a file in one write stays together (O_APPEND);
    to a pipe or a socket only PIPE_BUF octets do (pipe(7)), so no more is written at once.
    """

    def __init__(self, path: str, fd: int) -> None:
        self._path = path
        self._fd = fd
        mode = os.fstat(fd).st_mode
        self._in_small = stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)
        self._torn = False  # the last line was not written to its end
        self.problem = ""

    def write(self, batch: bytes) -> int:
        """Write `batch`; returns how many lines were not written whole."""
        data = b"\n" + batch if self._torn else batch
        view, done = memoryview(data), 0
        try:
            while done < len(data):
                done += os.write(self._fd, view[done : self._stop(data, done)])
        except OSError as error:  # ENOSPC, EIO, EPIPE, EAGAIN at the end: the service matters more
            self.problem = error.strerror or str(error)
        else:
            self.problem = ""
        if done:
            self._torn = data[done - 1 : done] != b"\n"
        return data.count(b"\n", done)

    def _stop(self, data: bytes, start: int) -> int:
        """Where a write from `start` on may end: behind a line, if it can."""
        end = start + select.PIPE_BUF
        if not self._in_small or end >= len(data):
            return len(data)
        return data.rfind(b"\n", start, end) + 1 or end

    def write_nowait(self, batch: bytes) -> int:
        os.set_blocking(self._fd, False)  # the process is ending: a stuck pipe loses
        return self.write(batch)

    def reopen(self) -> str:
        if not self._path:
            return ""
        try:
            fd = _open(self._path)
        except OSError as error:
            return f"{self._path}: {error.strerror}"
        # dup2 swaps under the writer thread's feet: it never sees a closed descriptor.
        os.dup2(fd, self._fd, inheritable=False)
        os.close(fd)
        return ""

    def close(self) -> None:
        if self._path:
            os.close(self._fd)


def _open(path: str) -> int:
    """A descriptor to append with; never waits, not for a named pipe's reader either."""
    flags = os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
    # One that is open for reading too takes what comes, be there a reader or not (fifo(7)).
    return os.open(path, flags | (os.O_RDWR if _is_pipe(path) else os.O_WRONLY), 0o640)


def _is_pipe(path: str) -> bool:
    try:
        return stat.S_ISFIFO(os.stat(path).st_mode)
    except OSError:
        return False
