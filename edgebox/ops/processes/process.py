"""One worker process as the supervisor has it: started by exec, signalled, and how it ended.

Exec and not fork: a worker begins with nothing of the supervisor's memory, and its code is
what is installed when it starts. It inherits its wire, the pages, its listeners and the list
of hot paths by number, and nothing else but the standard descriptors.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum

MODULE = "edgebox.ops.processes.child"
# What is said to the supervisor alone.
PRIVATE = ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID", "LISTEN_PID", "LISTEN_FDS",
           "LISTEN_FDNAMES", "EDGEBOX_INHERITED")  # fmt: skip


class Stage(Enum):
    """Where a process is in its life, and what is said of one that gets no further."""

    STARTING = "does not get ready"
    READY = ""
    DRAINING = "has not answered all in time"
    ENDING = "does not end"
    HANGING = "hangs"


@dataclass(slots=True, eq=False)
class Process:
    """A worker. Times are CLOCK_MONOTONIC seconds; `overdue_at`: when it is killed if it has
    not done by then what its stage is about."""

    popen: subprocess.Popen[bytes]
    place: int
    slot: int
    started: float
    overdue_at: float
    stage: Stage = Stage.STARTING
    heard: float = 0.0  # when it said that it serves
    failure: str = ""  # what it said could not be done
    accepts: bool = True  # connections, or will: until it says that it drains
    reopen: bool = False  # its logs, as soon as it is ready: it may have opened the old ones

    @property
    def pid(self) -> int:
        return self.popen.pid

    def signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            self.popen.send_signal(number)

    def ended(self) -> str:
        """How it ended, in a few words; "" while it runs."""
        status = self.popen.poll()
        return "" if status is None else self.failure or told_of(status)


def told_of(status: int) -> str:
    """An exit status, as Popen has it, in words."""
    if status >= 0:
        return f"exit status {status}"
    try:
        return signal.Signals(-status).name
    except ValueError:
        return f"signal {-status}"


def launch(inherited: Iterable[int]) -> tuple[subprocess.Popen[bytes], socket.socket]:
    """Start a worker and give it these descriptors; with our end of its wire. Raises OSError.

    In a process group of its own, where a terminal's Ctrl-C does not reach it: what to do then,
    the supervisor decides.
    """
    ours, theirs = socket.socketpair()
    with theirs:
        try:
            popen = subprocess.Popen(
                # -P: what lies in the current directory is not ours to import.
                [sys.executable, "-P", "-m", MODULE, str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(), *inherited),
                process_group=0,
                env={name: value for name, value in os.environ.items() if name not in PRIVATE},
            )
        except BaseException:
            ours.close()
            raise
    return popen, ours
