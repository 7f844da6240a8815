"""Stored answers in RAM: by key, all variants of a URL together.

The octets lie in the working set beside hot files and compete with them. A key is either here
with all its variants or not at all where a disk stands behind: a lookup must not take the one
variant in RAM for all there are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from edgebox.cache.disk.finder import Filed
from edgebox.cache.entry import StoredResponse
from edgebox.files.entry import OpenFile
from edgebox.memory.workingset import WorkingSet

HEAD = 600  # octets that a record takes beside its fields, roughly


@dataclass(slots=True, eq=False)
class Kept:
    """A stored answer with its octets: in RAM, or at `offset` of an open file.

    `coded`: the same under content codings made here, by coding; None where that saved
    nothing. Shared by all records of the same octets. `filed`: where they lie, if only there.
    """

    entry: StoredResponse
    size: int
    content: bytes | None = None
    file: OpenFile | None = None
    offset: int = 0
    coded: dict[bytes, bytes | None] = field(default_factory=dict)
    filed: Filed | None = None

    def with_entry(self, entry: StoredResponse) -> Kept:
        """The same octets under a renewed record."""
        return replace(self, entry=entry)

    @property
    def weight(self) -> int:
        """Octets of RAM."""
        fields = sum(len(n) + len(v) for n, v in self.entry.fields)
        bodies = sum(len(b) for b in self.coded.values() if b is not None)
        return HEAD + fields + len(self.content or b"") + bodies


class FetchRoom:
    """The octets of fetches under way, in the ledger beside all others. What is stored yields."""

    def __init__(self, working_set: WorkingSet) -> None:
        self._working_set = working_set
        self._account = working_set.ledger.account("fetches")

    @property
    def cramped(self) -> bool:
        """Whether all of the budget is taken, though nothing stored is left in RAM."""
        return self._working_set.ledger.overdraft() > 0

    def charge(self, octets: int) -> None:
        self._account.charge(octets)
        self._working_set.yield_room()

    def refund(self, octets: int) -> None:
        self._account.refund(octets)


class Shelf:
    """Keys to their variants, bounded by the working set."""

    def __init__(self, working_set: WorkingSet, whole_keys: bool) -> None:
        """`whole_keys`: a variant that is evicted takes the others of its key along."""
        self._working_set = working_set
        self._whole_keys = whole_keys
        self._keys: dict[bytes, list[Kept]] = {}
        self.room = FetchRoom(working_set)

    def find(self, key: bytes) -> list[Kept]:
        """The variants of `key`, none of them where it is not here."""
        variants = self._keys.get(key, [])
        for kept in variants:
            self._working_set.touch(_name(key, kept))
        return variants

    def put(self, key: bytes, kept: Kept, replaced: Iterable[Kept] = ()) -> None:
        """Shelve one variant in place of `replaced`."""
        for old in list(replaced):
            self.drop(key, old)
        others = len(self._keys.get(key, ()))
        name = _name(key, kept)
        weight, content = kept.weight, kept.content
        if self._working_set.put(name, key, weight, self._evicted, name=key, octets=content):
            self._keys.setdefault(key, []).append(kept)
        if self._whole_keys and len(self._keys.get(key, ())) <= others:
            self.drop_key(key)  # it found no room, or only that of another variant

    def weigh(self, key: bytes, coded: dict[bytes, bytes | None]) -> None:
        """The variants whose codings these are have grown or shrunk."""
        for kept in [kept for kept in self._keys.get(key, ()) if kept.coded is coded]:
            self.put(key, kept, [kept])

    def drop(self, key: bytes, kept: Kept) -> None:
        variants = self._keys.get(key)
        if variants is not None and kept in variants:
            variants.remove(kept)
            self._working_set.discard(_name(key, kept))
            if not variants:
                del self._keys[key]

    def drop_key(self, key: bytes) -> None:
        for kept in list(self._keys.get(key, ())):
            self.drop(key, kept)

    def change(
        self, change: Callable[[bytes, Kept], StoredResponse | None], key: bytes | None = None
    ) -> int:
        """Put what `change` makes of each record in its place; None drops it. Counts them.

        `key`: only its variants, where that is known to be enough.
        """
        touched = 0
        for name in list(self._keys) if key is None else [key]:
            for kept in list(self._keys.get(name, ())):
                entry = change(name, kept)
                if entry is kept.entry:
                    continue
                touched += 1
                if entry is None:
                    self.drop(name, kept)
                else:
                    kept.entry = entry
        return touched

    def statistics(self) -> dict[str, int]:
        return {"keys": len(self._keys), "answers": sum(map(len, self._keys.values()))}

    def _evicted(self, name: object, key: object) -> None:
        assert isinstance(key, bytes)
        gone = [kept for kept in self._keys.get(key, ()) if _name(key, kept) == name]
        variants = [kept for kept in self._keys.get(key, ()) if kept not in gone]
        if variants and not self._whole_keys:
            self._keys[key] = variants
            return
        self._keys.pop(key, None)
        for kept in variants:
            self._working_set.discard(_name(key, kept))


def _name(key: bytes, kept: Kept) -> tuple[str, bytes, int]:
    return ("answer", key, id(kept))
