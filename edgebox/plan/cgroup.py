"""What control groups leave this process: memory and processor time, versions 1 and 2.

The limit that counts is the smallest on the way from our group up to the mount, since every
ancestor binds. In a container the mount shows only a part of the hierarchy, so paths are
taken relative to the root that mountinfo names. See cgroups(7) and the kernel's
admin-guide/cgroup-v2 and cgroup-v1/memory. Anything missing is simply no limit seen.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import NamedTuple

# Version 1 writes "no limit" as the largest page-aligned 63-bit number.
_UNLIMITED = 2**62


class Limits(NamedTuple):
    """Bytes of memory and cores' worth of time; None where no group sets a limit."""

    memory: int | None = None
    memory_used: int | None = None  # of the group whose limit it is, droppable page cache left out
    quota: float | None = None


class _Mount(NamedTuple):
    point: Path
    root: str
    version: int
    controllers: frozenset[str]


def limits(proc: Path = Path("/proc")) -> Limits:
    """The limits that bind the process that asks."""
    memory, used, quota = None, None, None
    for group in _groups(proc, "memory"):
        limit = _memory_limit(group)
        if limit is not None and (memory is None or limit < memory):
            memory, used = limit, _memory_used(group)
    for group in _groups(proc, "cpu"):
        share = _quota(group)
        if share is not None and (quota is None or share < quota):
            quota = share
    return Limits(memory, used, quota)


def pressure(proc: Path = Path("/proc")) -> Path:
    """Where the kernel tells how long we wait for memory: for our group, else for the machine."""
    for group in _groups(proc, "memory"):
        if (group / "memory.pressure").exists():
            return group / "memory.pressure"
    return proc / "pressure" / "memory"


def _groups(proc: Path, controller: str) -> Iterator[Path]:
    """Directories of our group and its ancestors, in every hierarchy that may hold a limit."""
    ours = _memberships(proc / "self" / "cgroup")
    for mount in _mounts(proc / "self" / "mountinfo"):
        if mount.version == 1 and controller not in mount.controllers:
            continue
        path = ours.get(controller if mount.version == 1 else "")
        if path is None:
            continue
        try:
            below = PurePosixPath(path).relative_to(mount.root)
        except ValueError:  # our group lies outside what is mounted here: its root is what we see
            below = PurePosixPath()
        directory = mount.point / below
        yield directory
        for _ in below.parts:
            directory = directory.parent
            yield directory


def _memberships(path: Path) -> dict[str, str]:
    """Controller → path of our group; "" stands for version 2."""
    found: dict[str, str] = {}
    for line in _text(path).splitlines():
        _, controllers, group = line.split(":", 2)
        found |= dict.fromkeys(controllers.split(","), group)
    return found


def _mounts(path: Path) -> Iterator[_Mount]:
    for line in _text(path).splitlines():
        before, _, after = line.partition(" - ")
        place, kind = before.split(), after.split()
        if len(place) > 4 and len(kind) > 2 and kind[0] in ("cgroup", "cgroup2"):
            version = 2 if kind[0] == "cgroup2" else 1
            yield _Mount(Path(place[4]), place[3], version, frozenset(kind[2].split(",")))


def _memory_limit(group: Path) -> int | None:
    seen = [
        number
        for name in ("memory.max", "memory.high", "memory.limit_in_bytes")
        if (number := _number(_text(group / name))) is not None and number < _UNLIMITED
    ]
    return min(seen, default=None)


def _memory_used(group: Path) -> int | None:
    used = _number(_text(group / "memory.current") or _text(group / "memory.usage_in_bytes"))
    if used is None:
        return None
    stat = dict(line.split(" ", 1) for line in _text(group / "memory.stat").splitlines())
    cache = sum(
        _number(stat.get(f"total_{name}", stat.get(name, "0"))) or 0
        for name in ("inactive_file", "active_file")
    )
    return max(0, used - cache)


def _quota(group: Path) -> float | None:
    quota, _, period = _text(group / "cpu.max").strip().partition(" ")
    if not quota:
        quota = _text(group / "cpu.cfs_quota_us").strip()
        period = _text(group / "cpu.cfs_period_us").strip()
    allowed, every = _number(quota), _number(period)
    return allowed / every if allowed is not None and every else None


def _number(text: str) -> int | None:
    """ "max", "-1" and nothing at all are no number."""
    text = text.strip()
    return int(text) if text.isdecimal() else None


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
