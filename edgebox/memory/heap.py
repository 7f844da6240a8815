"""The process's heap: what a crowd took goes back to the system once it has left.

Python keeps small objects in arenas of its own, of a mebibyte, and returns one only when nothing
in it is alive. Of nine arenas that 8,000 downloads filled, each kept a counter or two, so that
none was returned: 1.5 × the memory from before. The C library returns each free page
(malloc_trim(3)), but does so unasked at the heap's end only. So workers allocate with it, and ask.
Then 1.03 to 1.06 × is left (2026-12-01).
"""

from __future__ import annotations

import ctypes
import gc
import os
from collections.abc import Mapping
from enum import Enum

CROWD = 1000  # connections that have left before it is worth a look: some 2 MB
# Turns after most of a crowd have left. More than once, since some of it passes later: trio keeps
# up to a thousand deadlines of scopes that have ended, most of 10 s, and each of them a page.
AFTER = (3, 15, 60)
# Python's threads take turns: one arena does. A thread keeps so many free chunks of a size at hand;
# the usual 7 are fewer than the answers of one batch, and with 64 a tenth of the memory stays.
TUNABLES = "glibc.malloc.arena_max=1:glibc.malloc.tcache_count=16"


def allocating(environ: Mapping[str, str], library: str | None = None) -> dict[str, str]:
    """`environ` for a process that is to allocate so that pages can go back.

    What the operator has set stays; another C library than glibc cannot be asked.
    """
    if not (c_library() if library is None else library).startswith("glibc"):
        return dict(environ)
    return {"PYTHONMALLOC": "malloc", "GLIBC_TUNABLES": TUNABLES, **environ}


def c_library() -> str:
    """Its name and version as confstr(3) has them, "" where it knows no such question."""
    try:
        return os.confstr("CS_GNU_LIBC_VERSION") or ""
    except (OSError, ValueError):
        return ""


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
    gc.collect()  # a full one empties those lists
    give_back()
