"""A short-lived child that looks at the machine, so that pyroute2's 24 MiB go with it.

Forked and not exec'd, unlike a worker: it takes nothing over but what to look at, and the
modules that its parent has loaded are near a third of what it would otherwise spend. A fork is
for a process without threads, which the supervisor is. The child keeps none of its parent's
descriptors, since a listener in a child that hangs on a dead disk would keep its address taken.
"""

from __future__ import annotations

import gc
import os
import select
import signal
import subprocess
import time
from contextlib import suppress
from typing import NoReturn

from edgebox.plan.facts import Facts, decode, encode
from edgebox.plan.gather import Subject, enter_by_the_side, gather

PATIENCE = 20.0  # seconds for a child to gather in; it needs one
_PIECE = 64 * 1024
_NAME = "gathering"  # in errors, where a command's name would be


class Gathering:
    """A child that gathers. Whoever starts one ends it, by `finish` or `abandon`.

    Its output ends when it has told all, or has died: `fileno` is for a selector.
    """

    def __init__(self, subject: Subject) -> None:
        """Raises OSError if no process can be had."""
        self._output, theirs = os.pipe2(os.O_CLOEXEC)
        try:
            self._pid = os.fork()
        except OSError:
            os.close(self._output)
            os.close(theirs)
            raise
        if not self._pid:
            _tell(subject, theirs)
        os.close(theirs)

    def fileno(self) -> int:
        return self._output

    def finish(self, seconds: float = PATIENCE) -> Facts:
        """What it told. The child is gone afterwards, whatever it did.

        Raises OSError or subprocess.SubprocessError when it fails or takes too long,
        FactsError when what it says cannot be read.
        """
        try:
            told = self._read(time.monotonic() + seconds, seconds)
        except BaseException:
            self.abandon()
            raise
        if status := self._reap():
            raise subprocess.CalledProcessError(status, _NAME, told)
        return decode(told)

    def abandon(self) -> None:
        """End it, whatever it would have told."""
        with suppress(ProcessLookupError):
            os.kill(self._pid, signal.SIGKILL)
        self._reap()

    def _read(self, deadline: float, seconds: float) -> bytes:
        """All until the end of its output. Raises subprocess.TimeoutExpired."""
        told = bytearray()
        poll = select.poll()
        poll.register(self._output, select.POLLIN)
        while poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
            piece = os.read(self._output, _PIECE)
            if not piece:
                return bytes(told)
            told += piece
        raise subprocess.TimeoutExpired(_NAME, seconds)

    def _reap(self) -> int:
        """Its exit status, negative for a signal."""
        os.close(self._output)
        return os.waitstatus_to_exitcode(os.waitpid(self._pid, 0)[1])


def gather_in_child(subject: Subject, seconds: float = PATIENCE) -> Facts:
    """The facts from a short-lived child. Raises as `Gathering` and its `finish` do."""
    return Gathering(subject).finish(seconds)


def _tell(subject: Subject, output: int) -> NoReturn:
    """The child's life: nothing of its parent's is run in it, neither handlers nor clean-up."""
    status = 1
    try:
        gc.disable()  # what is garbage here may own a descriptor's number that is ours by now
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        os.setsid()  # the terminal's Ctrl-C is the server's
        _let_go_of_all_but(output)
        enter_by_the_side("pyroute2")
        with os.fdopen(output, "wb") as told:
            told.write(encode(gather(subject)))
        status = 0
    finally:
        os._exit(status)


def _let_go_of_all_but(kept: int) -> None:
    """Close every descriptor, and have the standard ones lead nowhere."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for standard in range(3):
        os.dup2(nowhere, standard)
    for number in map(int, os.listdir("/proc/self/fd")):
        if number > 2 and number != kept:
            with suppress(OSError):  # the listing's own
                os.close(number)
