"""What /proc tells of a server: its processes, their CPU time, their memory, their switches.

CPU time is the first field of /proc/PID/task/TID/schedstat: nanoseconds on a CPU, kept by
the scheduler, where utime and stime count ticks (proc(5), sched-stats.rst). Memory comes
from smaps_rollup's proportional set sizes, so that what a master and its worker share
counts once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")


@dataclass(frozen=True)
class Task:
    """One thread at one moment: nanoseconds on a CPU, context switches either way."""

    process: int
    nanoseconds: int
    voluntary: int
    involuntary: int


@dataclass(frozen=True)
class Usage:
    """All of a server's threads at one moment, by thread id."""

    tasks: dict[int, Task]


@dataclass(frozen=True)
class Spent:
    """What lies between two moments. A lost process makes every other number too small."""

    nanoseconds: int
    voluntary: int
    involuntary: int
    lost_processes: tuple[int, ...] = ()
    ended_threads: int = 0


def family(leader: int) -> tuple[int, ...]:
    """`leader` and all its living descendants, as process ids."""
    children: dict[int, list[int]] = {}
    for process, parent in _parents():
        children.setdefault(parent, []).append(process)
    found = [leader]
    for process in found:
        found += children.get(process, [])
    return tuple(found)


def _parents() -> Iterator[tuple[int, int]]:
    for entry in PROC.iterdir():
        if entry.name.isdigit():
            try:
                text = (entry / "stat").read_text(errors="replace")
            except OSError:  # it ended meanwhile
                continue
            # The name in parentheses may hold anything, parentheses included: proc(5).
            yield int(entry.name), int(text.rpartition(")")[2].split()[1])


def usage(processes: Iterable[int]) -> Usage:
    """Every thread of `processes` that is alive now."""
    tasks: dict[int, Task] = {}
    for process in processes:
        try:
            threads = list((PROC / str(process) / "task").iterdir())
        except OSError:
            continue
        for thread in threads:
            try:
                tasks[int(thread.name)] = _task(process, thread)
            except OSError:
                continue
    return Usage(tasks)


def _task(process: int, thread: Path) -> Task:
    status = dict(
        line.split(":\t", 1) for line in (thread / "status").read_text().splitlines() if ":" in line
    )
    return Task(
        process,
        int((thread / "schedstat").read_text().split()[0]),
        int(status["voluntary_ctxt_switches"]),
        int(status["nonvoluntary_ctxt_switches"]),
    )


def spent(before: Usage, after: Usage) -> Spent:
    """The difference; a thread born in between counts whole, one that ended is only counted."""
    nothing = Task(0, 0, 0, 0)
    nanoseconds = voluntary = involuntary = 0
    for thread, now in after.tasks.items():
        then = before.tasks.get(thread, nothing)
        nanoseconds += now.nanoseconds - then.nanoseconds
        voluntary += now.voluntary - then.voluntary
        involuntary += now.involuntary - then.involuntary
    alive = {task.process for task in after.tasks.values()}
    lost = {task.process for task in before.tasks.values()} - alive
    ended = len(before.tasks.keys() - after.tasks.keys())
    return Spent(nanoseconds, voluntary, involuntary, tuple(sorted(lost)), ended)


def own_memory(processes: Iterable[int]) -> int:
    """Octets of anonymous and shared memory; what two of the processes share counts once.

    Pages of programs and libraries are left out: their share of a process' proportional
    set changes whenever an unrelated process starts that maps them too.
    """
    total = 0
    for process in processes:
        for line in (PROC / str(process) / "smaps_rollup").read_text().splitlines():
            if line.startswith(("Pss_Anon:", "Pss_Shmem:")):
                total += int(line.split()[1]) * 1024
    return total


def alive(process: int) -> bool:
    """Whether the process runs; a zombie does not."""
    try:
        text = (PROC / str(process) / "stat").read_text(errors="replace")
    except OSError:
        return False
    return text.rpartition(")")[2].split()[0] != "Z"


def marked(mark: str) -> list[int]:
    """All that run and were started with `mark`, "NAME=VALUE", in their environment.

    That finds those, too, whose parent has ended: proc(5), environ.
    """
    found = []
    for entry in PROC.iterdir():
        if entry.name.isdigit() and alive(int(entry.name)):
            with suppress(OSError):  # it has ended meanwhile
                if mark.encode() in (entry / "environ").read_bytes().split(b"\0"):
                    found.append(int(entry.name))
    return sorted(found)
