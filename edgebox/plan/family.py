"""What a process and all its children hold in RAM, and what sockets hold in the kernel, by /proc.

For plans of a server that runs: its own memory is no other's. What cannot be read counts as 0.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

PROC = Path("/proc")


def resident(pid: int) -> int:
    """Bytes of RAM that `pid` and all below it have to themselves; 0 for what cannot be read.

    Pages of files, libraries above all, are left out: many processes share them.
    """
    return resident_of(_family(pid))


def resident_of(pids: Iterable[int]) -> int:
    """The same of just these processes."""
    return sum(map(_own_pages, pids)) * os.sysconf("SC_PAGE_SIZE")


def sockets() -> int:
    """Bytes of kernel memory for the TCP sockets of this network namespace, their buffers all."""
    for line in _text(PROC / "net" / "sockstat").splitlines():
        words = line.split()
        if words[:1] == ["TCP:"] and "mem" in words:
            return int(words[words.index("mem") + 1]) * os.sysconf("SC_PAGE_SIZE")
    return 0


def _family(pid: int) -> Iterator[int]:
    """`pid` and all below it: /proc/PID/task/TID/children, where the kernel has that."""
    waiting, seen = [pid], {pid}
    while waiting:
        member = waiting.pop()
        yield member
        for path in (PROC / str(member) / "task").glob("*/children"):
            children = {int(word) for word in _text(path).split()} - seen
            seen |= children
            waiting += children


def _own_pages(pid: int) -> int:
    words = _text(PROC / str(pid) / "statm").split()  # proc(5): size resident shared …
    return int(words[1]) - int(words[2]) if len(words) > 2 else 0


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:  # ended meanwhile
        return ""
