"""The file system under a path: its kind and size, and what lies below a root.

The kind comes from the file system's type where that decides (NFS, tmpfs) and otherwise
from the block devices below it, through device-mapper and md. A virtual disk says it rotates
whatever it is, so it is only called virtual. Where layers hide the device (overlayfs, ZFS)
the kind is unknown. Reads only /proc and /sys, and counts content for a bounded time.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, NamedTuple

from edgebox.plan.facts import Content, Disk, DiskKind

_NETWORK = {"nfs", "nfs4", "cifs", "smb3", "ceph", "9p", "afs", "glusterfs", "virtiofs", "lustre"}
_MEMORY = {"tmpfs", "ramfs", "devtmpfs"}


class _Mount(NamedTuple):
    point: str
    device: str  # MAJOR:MINOR
    file_system: str
    source: str


def disk(path: str, use: Literal["root", "cache"]) -> Disk:
    """Facts of the file system that holds `path`, or its nearest parent that exists."""
    place = _existing(Path(os.path.abspath(path)))
    try:
        held = os.statvfs(place)
    except OSError:
        return Disk(path=path, use=use)
    mount = _mount_of(os.path.realpath(place))
    return Disk(
        path=path,
        use=use,
        mount=mount.point if mount else None,
        file_system=mount.file_system if mount else None,
        device=mount.source if mount else None,
        kind=_kind(mount) if mount else None,
        size=held.f_blocks * held.f_frsize,
        free=held.f_bavail * held.f_frsize,
    )


def content(path: str, seconds: float) -> Content:
    """Files below a root, counted for at most `seconds`; unknown where that does not suffice.

    Symbolic links are not followed: a link into another tree would count it twice.
    """
    deadline = time.monotonic() + seconds
    files = directories = size = 0
    waiting = [path]
    while waiting:
        try:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
                    elif entry.is_file(follow_symlinks=False):
                        files += 1
                        size += entry.stat(follow_symlinks=False).st_size
                    if time.monotonic() > deadline:
                        return Content(path=path)
        except FileNotFoundError:
            if not directories:  # the root itself: nothing is known of it
                return Content(path=path)
            continue  # removed while we looked
        except OSError:  # a part we may not see makes the sum unknown
            return Content(path=path)
        directories += 1
    return Content(path=path, files=files, directories=directories, size=size)


def _existing(path: Path) -> Path:
    return next((p for p in (path, *path.parents) if p.exists()), Path("/"))


def _mounts() -> Iterator[_Mount]:
    try:
        lines = Path("/proc/self/mountinfo").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        before, _, after = line.partition(" - ")
        place, kind = before.split(), after.split()
        if len(place) > 4 and len(kind) > 1:
            # proc(5): a blank or backslash in a path is written as an octal escape.
            point = re.sub(r"\\(\d{3})", lambda octal: chr(int(octal[1], 8)), place[4])
            yield _Mount(point, place[2], kind[0], kind[1])


def _mount_of(path: str) -> _Mount | None:
    """The mount that a path lies on: the longest mount point, and of equals the latest."""
    best = None
    for mount in _mounts():
        within = path == mount.point or path.startswith(mount.point.rstrip("/") + "/")
        if within and (best is None or len(mount.point) >= len(best.point)):
            best = mount
    return best


def _kind(mount: _Mount) -> DiskKind | None:
    if mount.file_system in _NETWORK or mount.file_system.startswith("fuse.sshfs"):
        return "network"
    if mount.file_system in _MEMORY:
        return "memory"
    block = Path("/sys/dev/block") / mount.device
    if not block.exists():  # btrfs gives each subvolume a number of its own
        try:
            device = os.stat(mount.source).st_rdev
        except OSError:
            return None
        block = Path(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}")
    return block_kind(Path(os.path.realpath(block))) if block.exists() else None


def block_kind(block: Path) -> DiskKind | None:
    """Kind of a block device; of several below it the slowest, which sets the pace."""
    if (block / "partition").exists():
        block = block.parent
    below = [block_kind(Path(os.path.realpath(p))) for p in (block / "slaves").glob("*")]
    if below:
        order: tuple[DiskKind, ...] = ("rotating", "card", "virtual", "ssd", "nvme")
        return None if None in below else next((kind for kind in order if kind in below), None)
    name = block.name
    if name.startswith(("vd", "xvd")) or "/virtio" in str(block):
        return "virtual"
    if name.startswith("nvme"):
        return "nvme"
    if name.startswith("mmcblk"):
        return "card"
    return _spinning(block) if name.startswith("sd") else None


def _spinning(block: Path) -> DiskKind | None:
    try:
        told = (block / "queue" / "rotational").read_text().strip()
    except OSError:
        return None
    return "rotating" if told == "1" else "ssd" if told == "0" else None
