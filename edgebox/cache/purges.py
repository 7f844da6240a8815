"""Purges, remembered for as long as a fetch begun before one may still come in. Pure.

What is stored when the purge comes is dropped there and then; this is for what is not
stored yet: an answer that was asked for before the purge must not be kept after it. What
was before what is told by marks, not by clocks: a second is long.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from enum import Enum

from edgebox.cache.bans import Ban, parse_ban
from edgebox.cache.entry import StoredResponse

MOST = 256  # purges remembered; beyond, every fetch under way counts as purged


class Scope(Enum):
    """What a purge names."""

    KEY = "key"  # one URL, all its variants
    PREFIX = "prefix"  # every URL that begins so
    TAG = "tag"  # whatever bears a Surrogate-Key
    GROUP = "group"  # a cache group of one origin (RFC 9875): b"origin group"
    ALL = "all"
    BAN = "ban"  # whatever a rule matches


@dataclass(frozen=True, slots=True)
class Purge:
    """`soft`: what it concerns becomes stale and is asked for, not dropped.

    `ban`: what `value` means where the scope is BAN; see `banned`.
    """

    scope: Scope
    value: bytes = b""
    soft: bool = False
    ban: Ban | None = field(default=None, compare=False, repr=False)

    def covers(self, key: bytes, entry: StoredResponse) -> bool:
        """Whether it concerns what is stored, or is about to be, under `key`."""
        match self.scope:
            case Scope.TAG:
                return self.value in entry.tags
            case Scope.GROUP:
                return self.may_cover(key) and self.value.partition(b" ")[2] in entry.groups
            case Scope.BAN:
                return self.ban is None or self.ban.matches(key, entry)
            case _:
                return self.may_cover(key)

    def may_cover(self, key: bytes) -> bool:
        """Likewise, while nothing is known of the answer yet: then it may have any tag."""
        match self.scope:
            case Scope.KEY:
                return key == self.value
            case Scope.PREFIX:
                return key.startswith(self.value)
            case Scope.GROUP:
                return origin_of(key) == self.value.partition(b" ")[0]
            case Scope.TAG | Scope.ALL | Scope.BAN:
                return True


def banned(text: str, soft: bool = False) -> Purge:
    """The purge that a ban is. Raises BanError."""
    ban = parse_ban(text)
    return Purge(Scope.BAN, text.encode(), soft, ban)


class RecentPurges:
    """The last purges, numbered. `mark` is the number of the latest."""

    __slots__ = ("_forgotten", "_forgotten_at", "_recent", "mark")

    def __init__(self) -> None:
        self._recent: deque[tuple[int, Purge, float]] = deque()
        self._forgotten = 0
        self._forgotten_at = -1.0
        self.mark = 0

    def add(self, purge: Purge, at: float) -> None:
        """`at`: seconds by CLOCK_MONOTONIC, which all workers read alike."""
        self.mark += 1
        self._recent.append((self.mark, purge, at))
        if len(self._recent) > MOST:
            self._forgotten, _, self._forgotten_at = self._recent.popleft()

    def since(self, mark: int, key: bytes, entry: StoredResponse) -> bool:
        """Whether `entry`, asked for when `mark` was the latest, was purged before it came."""
        if mark < self._forgotten:
            return True
        return any(number > mark and purge.covers(key, entry) for number, purge, _ in self._recent)

    def since_moment(self, began: float, key: bytes) -> bool:
        """Whether what another worker began to fetch then may have been purged."""
        if began <= self._forgotten_at:
            return True
        return any(at >= began and purge.may_cover(key) for _, purge, at in self._recent)


def origin_of(key: bytes) -> bytes:
    """scheme://authority of a primary key."""
    end = key.find(b"/", key.find(b"://") + 3)
    return key if end < 0 else key[:end]
