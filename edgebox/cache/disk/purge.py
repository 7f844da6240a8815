"""What a purge is about, and what it makes of a stored response. Pure.

A purge names responses by key, prefix of the key, tag, group within an origin, or all, and
removes them, makes them stale, or has them validated before any further use. Which ones it
concerns in time is told by marks, not by clocks: `tick` is the store's mark from the purge on,
and a response is concerned if its fetch began at a lesser one.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum, IntEnum

from msgspec import Struct

from edgebox.cache.answer import Instant
from edgebox.cache.entry import StoredResponse


class Kind(Enum):
    KEY = "key"
    PREFIX = "prefix"  # of the key: b"http://host/path"
    TAG = "tag"  # a word of Surrogate-Key
    GROUP = "group"  # of Cache-Groups, within `origin`
    EVERYTHING = "everything"


class Mode(IntEnum):
    """What becomes of it; a greater mode does whatever a lesser one does."""

    EXPIRE = 1  # a soft purge: stale from now on
    VALIDATE = 2  # RFC 9111 §4.4: not to be used before the upstream was asked
    REMOVE = 3


class Purge(Struct, frozen=True, kw_only=True, array_like=True):
    """`origin` is b"scheme://authority". The store fills in all that comes after it."""

    kind: Kind
    value: bytes = b""
    mode: Mode = Mode.REMOVE
    origin: bytes = b""
    tick: int = 0
    wall: float = 0.0
    steady: float = 0.0
    boot: bytes = b""

    def at(self, now: Instant, boot: bytes) -> Instant:
        """When it was, in terms of the clocks of `boot`."""
        if self.boot == boot:
            return Instant(self.wall, self.steady)
        return Instant(self.wall, now.steady - max(0.0, now.wall - self.wall))


def covers(purge: Purge, key: bytes, entry: StoredResponse) -> bool:
    """Whether a response stored under `key` is one of those that the purge names."""
    match purge.kind:
        case Kind.EVERYTHING:
            return True
        case Kind.KEY:
            return key == purge.value
        case Kind.PREFIX:
            return key.startswith(purge.value)
        case Kind.TAG:
            return purge.value in entry.tags
        case Kind.GROUP:
            return purge.value in entry.groups and key.startswith(purge.origin + b"/")


def apply(mode: Mode, entry: StoredResponse, at: Instant) -> StoredResponse | None:
    """The record after a purge at that time; the same object if it was so already."""
    match mode:
        case Mode.REMOVE:
            return None
        case Mode.VALIDATE:
            return entry if entry.invalid else entry.invalidated()
        case Mode.EXPIRE:
            return entry if entry.remaining(at) <= 0 else entry.expired(at)


def hardest(purges: Iterable[Purge]) -> Mode:
    return max((purge.mode for purge in purges), default=Mode.EXPIRE)
