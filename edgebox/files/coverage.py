"""What stands for a remembered path: a coverage, alive until something on its way changes.

Many paths share one way, so what ends with a directory is one flag and not a thousand
entries. Of files, contents and system calls nothing is known here.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from edgebox.files.entry import Docroot
from edgebox.files.trail import DirectoryId, Step, Trail


class Coverage:
    """Whether what was seen still stands. This one never ends, for want of a watch."""

    __slots__ = ("alive",)

    def __init__(self) -> None:
        self.alive = True


UNCOVERED = Coverage()


@dataclass(slots=True, eq=False)
class Watch:
    """One watched directory, and the coverages that lead through it or end in it.

    `since` is its serial number; see `Look`.
    """

    descriptor: int
    identity: DirectoryId
    since: int
    homes: dict[TrailCoverage, None] = field(default_factory=dict)
    passes: dict[bytes, dict[TrailCoverage, None]] = field(default_factory=dict)

    def coverages(self) -> list[TrailCoverage]:
        return [*self.homes, *(one for passing in self.passes.values() for one in passing)]


class TrailCoverage(Coverage):
    """Covers all paths of one docroot that begin with `prefix` and share one trail.

    With a home `prefix` ends in "/", and a change of a name in the home is a change of
    `prefix` + name. Without one every change on the trail ends the whole coverage.
    """

    __slots__ = ("docroot", "holders", "home", "prefix", "steps", "trail")

    def __init__(self, docroot: Docroot, prefix: bytes, trail: Trail, watches: list[Watch]) -> None:
        super().__init__()
        self.docroot = docroot
        self.prefix = prefix
        self.trail = trail
        self.holders = 0
        by_directory = {watch.identity: watch for watch in watches}
        self.steps = [(by_directory[directory], name) for directory, name in trail.steps]
        self.home = None if trail.home is None else by_directory[trail.home]

    def register(self) -> None:
        for watch, name in self.steps:
            watch.passes.setdefault(name, {})[self] = None
        if self.home is not None:
            self.home.homes[self] = None

    def unregister(self) -> None:
        """Take it out of the watches that still have it; harmless if none has."""
        for watch, name in self.steps:
            passing = watch.passes.get(name, {})
            passing.pop(self, None)
            if not passing:
                watch.passes.pop(name, None)
        if self.home is not None:
            self.home.homes.pop(self, None)


class Look:
    """A look under way: which watches are older than it, and what stirred since.

    A stir without a name is the directory's own: its mode, its place, its end.
    """

    __slots__ = ("began", "stirred")

    def __init__(self, began: int) -> None:
        self.began = began
        self.stirred: set[Step] = set()

    def is_covered(self, trail: Trail, last: bytes, watches: list[Watch]) -> bool:
        """Whether `watches`, one for each place of the trail, saw all of it, and nothing in it."""
        for watch, place in zip(watches, trail.places, strict=True):
            if watch.since > self.began or watch.identity != place.identity:
                return False
        if not self.stirred:
            return True
        relied_on = {*trail.steps, *((place.identity, b"") for place in trail.places)}
        if trail.home is not None:
            relied_on.add((trail.home, last))
        return self.stirred.isdisjoint(relied_on)

    def spoil(self) -> None:
        """Nothing is known of what happened since."""
        self.began = -1  # before any watch
