"""What a purge is about, and what it makes of a stored response. Pure.

A purge names responses by key, prefix of the key, tag, group within an origin, a rule that they
match, or all, and removes them, makes them stale, or has them validated before any further use.
Which ones it concerns in time is told by marks, not by clocks: `tick` is the store's mark from
the purge on, and a response is concerned if its fetch began at a lesser one.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum, IntEnum

from msgspec import Struct

from edgebox.cache.answer import Instant
from edgebox.cache.bans import Ban, maybe_ban
from edgebox.cache.entry import StoredResponse


class Kind(Enum):
    KEY = "key"
    PREFIX = "prefix"  # of the key: b"http://host/path"
    TAG = "tag"  # a word of Surrogate-Key
    GROUP = "group"  # of Cache-Groups, within `origin`
    EVERYTHING = "everything"
    BAN = "ban"  # a rule, as `cache/bans` has it


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
            return purge.value in entry.groups and purge.origin == origin_of(key)
        case Kind.BAN:
            return _bans(maybe_ban(purge.value), key, entry)


def _bans(ban: Ban | None, key: bytes, entry: StoredResponse) -> bool:
    """What cannot be read may have been about anything."""
    return ban is None or ban.matches(key, entry)


def origin_of(key: bytes) -> bytes:
    """b"scheme://authority" of a key."""
    return b"/".join(key.split(b"/", 3)[:3])


def apply(mode: Mode, entry: StoredResponse, at: Instant) -> StoredResponse | None:
    """The record after a purge at that time; the same object if it was so already."""
    match mode:
        case Mode.REMOVE:
            return None
        case Mode.VALIDATE:
            return entry if entry.invalid else entry.invalidated()
        case Mode.EXPIRE:
            return entry if entry.remaining(at) <= 0 else entry.expired(at)


_Named = dict[bytes, dict[Mode, Purge]]


class PurgeSet:
    """Many purges, asked about one response without going through them all.

    Of those that name the same and do the same only the last is kept: it concerns whatever the
    ones before did.
    """

    def __init__(self) -> None:
        self._everything: dict[Mode, Purge] = {}
        self._prefixes: dict[tuple[Mode, bytes], Purge] = {}
        self._keys: _Named = {}
        self._tags: _Named = {}
        self._groups: _Named = {}
        self._bans: dict[tuple[Mode, bytes], tuple[Purge, Ban | None]] = {}
        self._size = 0

    def __len__(self) -> int:
        """How many were added."""
        return self._size

    def add(self, purge: Purge) -> None:
        self._size += 1
        match purge.kind:
            case Kind.EVERYTHING:
                self._everything[purge.mode] = purge
            case Kind.PREFIX:
                self._prefixes[purge.mode, purge.value] = purge
            case Kind.KEY:
                self._keys.setdefault(purge.value, {})[purge.mode] = purge
            case Kind.TAG:
                self._tags.setdefault(purge.value, {})[purge.mode] = purge
            case Kind.GROUP:
                name = purge.origin + b" " + purge.value
                self._groups.setdefault(name, {})[purge.mode] = purge
            case Kind.BAN:
                self._bans[purge.mode, purge.value] = purge, maybe_ban(purge.value)

    def concerning(self, key: bytes, entry: StoredResponse, born: int) -> list[Purge]:
        """Those that cover a response and came after the mark `born`."""
        named = [self._everything, self._keys.get(key)]
        named += [self._tags.get(tag) for tag in entry.tags]
        if entry.groups:
            origin = origin_of(key)
            named += [self._groups.get(origin + b" " + group) for group in entry.groups]
        # Lists, since another thread may be adding.
        found = [purge for purges in named if purges for purge in list(purges.values())]
        found += [p for p in list(self._prefixes.values()) if key.startswith(p.value)]
        bans = [(p, ban) for p, ban in list(self._bans.values()) if p.tick > born]
        found += [p for p, ban in bans if _bans(ban, key, entry)]
        return [purge for purge in found if purge.tick > born]


def hardest(purges: Iterable[Purge]) -> Mode:
    return max((purge.mode for purge in purges), default=Mode.EXPIRE)
