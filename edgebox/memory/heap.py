"""The process's heap: what a crowd took goes back to the system once it has left.

Python keeps small objects in arenas of its own, of a mebibyte, and returns one only when nothing
in it is alive. Of what 8,000 downloads took a half to a sixth goes back, since each arena keeps a
counter or two. The C library's allocator returns each free page (malloc_trim(3)): all but 3 to 6 %
of the memory from before goes back with PYTHONMALLOC=malloc. It is not the default, since 10,000
clients then cost a fifth more CPU, and fill the link by 2 % less (three pairs, 2026-12-01).
"""

from __future__ import annotations

import ctypes
import gc
from enum import Enum

CROWD = 1000  # connections that have left before it is worth a look: some 2 MB
# Turns after most of a crowd have left. More than once, since some of it passes later: trio keeps
# up to a thousand deadlines of scopes that have ended, most of 10 s, and each of them a page.
AFTER = (3, 15, 60)


def give_back() -> None:
    """Have the C library return what is free in its heaps (malloc_trim(3); glibc only)."""
    try:
        ctypes.CDLL(None).malloc_trim(0)
    except (OSError, AttributeError):
        return


class Level(Enum):
    """Where the tide of connections stands."""

    HIGH = "a crowd is here"
    EBB = "a crowd has left, not long ago"
    GONE = "a crowd has left, and what it took can go back"
    LOW = "there was none, or it is long gone"


class Tide:
    """Tells when a crowd has left, from how many connections there are every second."""

    def __init__(self) -> None:
        self._peak = 0
        self._turns = 0  # since most of them have left

    def turn(self, connections: int) -> Level:
        """GONE as often for each crowd as `AFTER` says, unless another one comes."""
        self._peak = max(self._peak, connections)
        if self._peak < CROWD:
            return Level.LOW
        if connections > self._peak - max(CROWD, self._peak // 2):
            self._turns = 0
            return Level.HIGH
        self._turns += 1
        if self._turns not in AFTER:
            return Level.EBB
        if self._turns == AFTER[-1]:
            self._peak, self._turns = connections, 0
        return Level.GONE


def settle() -> None:
    """Return what is free, what Python keeps for its next tuples and frames included."""
    # A full collection empties those lists. With 20,000 files known it took 0.1 s to look for
    # garbage, which is not what it is for here: what is frozen is not looked at. (What was frozen
    # at the start is thawed by this, too: full collections are rare enough.)
    gc.freeze()
    gc.collect()
    gc.unfreeze()
    give_back()
