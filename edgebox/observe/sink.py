"""A log file that is never waited for: lines are batched and written by a thread.

A full disk, a stuck pipe or a slow network file system holds up the writer thread and
nothing else; what cannot be written is held up to a bound, then dropped and counted.
"""

from __future__ import annotations

import os
import threading

import trio

PATIENCE = 1.0  # seconds that a write under way may still take when the process ends


class Sink:
    """Where log lines go: a path, "-" (a given descriptor) or "off".

    `add` takes octets in pieces; `flush` (once an epoch) hands what came to the thread.
    """

    def __init__(self, target: str, standard_fd: int, backlog: int) -> None:
        """`standard_fd` is what "-" means; `backlog` the octets held before dropping.

        Raises OSError when the path cannot be opened.
        """
        self._target = target
        self._standard_fd = standard_fd
        self._backlog = backlog
        self._waiting: list[bytes] = []  # batches not yet written
        self._held = 0
        self._more = trio.Event()
        self._idle = threading.Event()  # set while no thread writes
        self._idle.set()
        self.pieces: list[bytes] = []
        self.add = self.pieces.append
        self.dropped = 0  # batches' octets lost since the start
        self._fd = self._open()

    @property
    def enabled(self) -> bool:
        return self._target != "off"

    def _open(self) -> int:
        if self._target == "off":
            return -1
        if self._target == "-":
            return self._standard_fd
        return os.open(self._target, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o640)

    def flush(self) -> None:
        """Hand over what was added; drop it if the backlog is full."""
        if not self.pieces:
            return
        batch = b"".join(self.pieces)
        self.pieces.clear()
        if self._held + len(batch) > self._backlog:
            self.dropped += len(batch)
            return
        self._waiting.append(batch)
        self._held += len(batch)
        self._more.set()

    def reopen(self) -> None:
        """Open the path again (after rotation); the old file goes on if that fails."""
        if self._target in ("off", "-"):
            return
        try:
            fd = self._open()
        except OSError:
            return
        # dup2 swaps under the writer thread's feet: it never sees a closed descriptor.
        os.dup2(fd, self._fd, inheritable=False)
        os.close(fd)

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
        if batch and self._fd >= 0:
            os.set_blocking(self._fd, False)  # the process is ending: a stuck pipe loses
            self.dropped += _write_all(self._fd, batch)
        if self._fd >= 0 and self._target != "-":
            os.close(self._fd)
        self._fd = -1

    def _write(self, batch: bytes) -> int:
        try:
            return _write_all(self._fd, batch)
        finally:
            self._idle.set()

    def statistics(self) -> dict[str, int]:
        return {"held": self._held, "dropped": self.dropped}


def _write_all(fd: int, data: bytes) -> int:
    """Write `data`; returns the octets that could not be written."""
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(fd, view) :]
        except OSError:  # ENOSPC, EIO, EPIPE, EAGAIN at the end: the service matters more
            return len(view)
    return 0
