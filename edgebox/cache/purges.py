"""Purges, remembered for as long as a fetch begun before one may still come in. Pure.

What is stored when the purge comes is dropped there and then; this is for what is not
stored yet: an answer that was asked for before the purge must not be kept after it.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from enum import Enum

from edgebox.cache.entry import StoredResponse

MOST = 256  # purges remembered; beyond, every fetch under way counts as purged


class Scope(Enum):
    """What a purge names."""

    KEY = "key"  # one URL, all its variants
    PREFIX = "prefix"  # every URL that begins so
    TAG = "tag"  # whatever bears a Surrogate-Key
    GROUP = "group"  # a cache group of one origin (RFC 9875): b"origin group"
    ALL = "all"


@dataclass(frozen=True, slots=True)
class Purge:
    """`soft`: what it concerns becomes stale and is asked for, not dropped."""

    scope: Scope
    value: bytes = b""
    soft: bool = False

    def covers(self, key: bytes, entry: StoredResponse) -> bool:
        """Whether it concerns what is stored, or is about to be, under `key`."""
        match self.scope:
            case Scope.KEY:
                return key == self.value
            case Scope.PREFIX:
                return key.startswith(self.value)
            case Scope.TAG:
                return self.value in entry.tags
            case Scope.GROUP:
                origin, _, group = self.value.partition(b" ")
                return group in entry.groups and origin_of(key) == origin
            case Scope.ALL:
                return True


class RecentPurges:
    """The last purges, with the steady time of each."""

    def __init__(self) -> None:
        self._recent: deque[tuple[float, Purge]] = deque()
        self._forgotten = float("-inf")  # purges up to here are no longer known

    def add(self, purge: Purge, at: float) -> None:
        self._recent.append((at, purge))
        if len(self._recent) > MOST:
            self._forgotten = self._recent.popleft()[0]

    def since(self, born: float, key: bytes, entry: StoredResponse) -> bool:
        """Whether `entry`, asked for at `born`, was purged before it came."""
        if born <= self._forgotten:
            return True
        return any(at >= born and purge.covers(key, entry) for at, purge in self._recent)


def origin_of(key: bytes) -> bytes:
    """scheme://authority of a primary key."""
    end = key.find(b"/", key.find(b"://") + 3)
    return key if end < 0 else key[:end]
