"""How a helper process behaves: it gives way to everyone, and ends with whoever started it.

It ends because it sees its standard input hang up. PR_SET_PDEATHSIG would not do: it fires when
the *thread* that forked ends (prctl(2)), and trio forks in a thread that ends when idle.
"""

from __future__ import annotations

import ctypes
import os
import platform
import select
from contextlib import suppress

# ioprio_set(2) has no wrapper in libc or os; its number differs by architecture.
_IOPRIO_SET = {"x86_64": 251, "aarch64": 30, "riscv64": 30, "ppc64le": 273, "s390x": 282}
_WHO_PROCESS = 1
_IDLE = 3 << 13


class Abandoned(Exception):
    """Nobody holds the other end of standard input any more."""


def give_way() -> None:
    """Nice 19 and idle I/O, where they can be had."""
    with suppress(OSError):
        os.nice(19)
    if (number := _IOPRIO_SET.get(platform.machine())) is not None:
        ctypes.CDLL(None).syscall(number, _WHO_PROCESS, 0, _IDLE)


class Ears:
    """Waits for datagrams on one descriptor, and for the hanging up of another."""

    def __init__(self, heard: int, parent: int) -> None:
        self._parent = parent
        self._poll = select.poll()
        self._poll.register(heard, select.POLLIN)
        self._poll.register(parent, 0)  # only POLLHUP and POLLERR

    def wait(self, seconds: float) -> None:
        """Until something can be received, or that long. Raises Abandoned."""
        if any(fd == self._parent for fd, _ in self._poll.poll(seconds * 1000)):
            raise Abandoned
