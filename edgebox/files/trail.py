"""Which directories a path leads through: what inotify must watch to see it change.

The kernel resolves a path in one call and does not tell the way. Here the way is walked
again with lstat and readlink, every symlink followed, and each entry of a directory that
was relied on is written down. Nothing is opened or served on the strength of this walk.
"""

from __future__ import annotations

import os
import stat
from collections import deque
from typing import NamedTuple

DirectoryId = tuple[int, int]  # device and inode: what stays the same when it is moved
Step = tuple[DirectoryId, bytes]  # a directory, and the name in it that was followed

_MAX_LINKS = 40  # as the kernel, path_resolution(7)


class Place(NamedTuple):
    """A directory: who it is, and a path without symlinks that led to it, ending in "/"."""

    identity: DirectoryId
    path: bytes


class Trail(NamedTuple):
    """The way to one path.

    `steps` are the names that were followed; `places` the directories they are in, and
    `home`, in the order in which they were entered. `home` is the directory that holds
    the path's last name, if that name is not a symlink; whether something of that name
    is there does not matter. None: the way ended before, or the last name is a symlink
    and is among the steps with all that it led to.
    """

    steps: tuple[Step, ...]
    places: tuple[Place, ...]
    home: DirectoryId | None


def walk(root: bytes, path: bytes) -> Trail:
    """The way from "/" through `root` (absolute) to `path` (normalised, starts with "/").

    Of directories outside `root` only those count that hold a symlink or the way's end:
    to watch "/var" or "/tmp" would wake us for everybody's business.
    """
    walker = _Walker()
    start = walker.follow(walker.top, root)
    if start is None:
        return walker.trail(None)
    walker.inside = start.path
    directory, _, last = path.rpartition(b"/")
    home = walker.follow(start, directory)
    if home is None:
        return walker.trail(None)
    if last and walker.is_link(home, last):
        walker.follow(home, last)
        return walker.trail(None)
    walker.enter(home)
    return walker.trail(home.identity)


class _Walker:
    def __init__(self) -> None:
        self.top = _place(b"/", os.lstat(b"/"))
        self.inside: bytes | None = None  # the docroot without symlinks, once it is known
        self._steps: dict[Step, None] = {}
        self._places: dict[DirectoryId, Place] = {}
        self._links = 0

    def trail(self, home: DirectoryId | None) -> Trail:
        return Trail(tuple(self._steps), tuple(self._places.values()), home)

    def enter(self, place: Place) -> None:
        self._places.setdefault(place.identity, place)

    def is_link(self, place: Place, name: bytes) -> bool:
        try:
            return stat.S_ISLNK(os.lstat(place.path + name).st_mode)
        except (OSError, ValueError):
            return False

    def follow(self, place: Place, path: bytes) -> Place | None:
        """Go down `path`; where that ends, or None if it ends short or at no directory."""
        todo = deque(_names(path))
        while todo:
            name = todo.popleft()
            up = name == b".."
            path = _parent(place.path) if up else place.path + name
            try:
                status = os.lstat(path)
                link = os.readlink(path) if stat.S_ISLNK(status.st_mode) else None
            except (OSError, ValueError):  # ValueError: a NUL in the name
                self._step(place, name)
                return None
            if link is not None:
                self._step(place, name)
                self._links += 1
                if self._links > _MAX_LINKS:
                    return None
                todo.extendleft(reversed(_names(link)))
                if link.startswith(b"/"):
                    place = self.top
                continue
            if not up and self._matters(place, bool(todo)):
                self._step(place, name)
            if not stat.S_ISDIR(status.st_mode):
                return None
            place = _place(path, status)
        return place

    def _step(self, place: Place, name: bytes) -> None:
        self.enter(place)
        self._steps[place.identity, name] = None

    def _matters(self, place: Place, goes_on: bool) -> bool:
        if self.inside is None:  # still on the way to the docroot
            return False
        return not goes_on or place.path.startswith(self.inside)


def _place(path: bytes, status: os.stat_result) -> Place:
    return Place((status.st_dev, status.st_ino), path.rstrip(b"/") + b"/")


def _parent(path: bytes) -> bytes:
    return path[: path.rindex(b"/", 0, -1) + 1] if path != b"/" else path


def _names(path: bytes) -> list[bytes]:
    return [name for name in path.split(b"/") if name not in (b"", b".")]
