"""The hot octets: one least-recently-used store, bounded in bytes, for files and answers.

It yields to everything else in the ledger: where connections or heads have taken the
budget, it keeps fewer objects than its own bound would allow. What the objects are, and
whether they are still true, it does not know. Its ghosts know what it would hold with more RAM.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from dataclasses import dataclass

from cachetools import LRUCache

from edgebox.memory.ghost import Ghosts
from edgebox.memory.ledger import Ledger
from edgebox.memory.lent import Lent

SMALL = 64 * 1024  # bytes that a sender soon has handed to the kernel, however slow the reader

OnEvict = Callable[[Hashable, object], None]
Sort = Callable[[Hashable], Hashable]


@dataclass(slots=True, eq=False)
class _Item:
    value: object
    size: int
    sort: Hashable
    on_evict: OnEvict | None
    name: Hashable
    octets: bytes | None
    used: int  # as `Ghosts.used` was at its last use


@dataclass(frozen=True, slots=True)
class WorkingSetStatistics:
    """Sizes in bytes; `refused`: objects too large for what there is."""

    capacity: int
    held: int
    objects: int
    evicted: int
    refused: int


class WorkingSet:
    """Objects by key, at most `capacity` bytes of them, charged to the ledger.

    Keys of different owners must differ. `on_evict(key, value)` is told of an object
    that had to make room, after it is gone; not of one its owner discards or replaces.
    `sorts` has the objects and bytes of each sort, as `sort` makes them of keys.
    """

    def __init__(
        self, capacity: int, ledger: Ledger, account: str = "working set", sort: Sort | None = None
    ) -> None:
        # Bounded here and not by cachetools: its bound cannot be moved, sees no ledger, and
        # its eviction would tell nobody.
        self._items: LRUCache[Hashable, _Item] = LRUCache(math.inf, lambda item: item.size)
        self.capacity = capacity
        self.ledger = ledger
        self.ghosts = Ghosts()
        self._lent = Lent(ledger)
        self._account = ledger.account(account)
        self._evicted = 0
        self._refused = 0
        self._sort = sort
        self.sorts: dict[Hashable, list[int]] = {}

    def put(
        self,
        key: Hashable,
        value: object,
        size: int,
        on_evict: OnEvict | None = None,
        name: Hashable = None,
        octets: bytes | None = None,
    ) -> bool:
        """Keep `value`, `size` bytes, in place of what had this key; False if it cannot fit.

        What had the key is gone in either case. `name` is what the object will be known by if
        it comes again, where that is not the key. `octets`: what of it may still be being sent
        when it is evicted; until it is not, it counts.
        """
        name = key if name is None else name
        if key in self._items:
            self.discard(key)
        else:
            self.ghosts.missed(name)
        if size > self.capacity or self.ledger.overdraft(size) > self._account.held:
            self._refused += 1
            return False
        while self._items.currsize + size > self.capacity or self.ledger.overdraft(size):
            if not self._items:  # what was evicted is still being sent
                self._refused += 1
                return False
            self._evict()
        sort = self._sort(key) if self._sort is not None else None
        self._items[key] = _Item(value, size, sort, on_evict, name, octets, self.ghosts.used)
        self.ghosts.used += size
        self._account.charge(size)
        counted = self.sorts.setdefault(sort, [0, 0])
        counted[0] += 1
        counted[1] += size
        return True

    @property
    def room(self) -> int:
        """The most bytes that an object may have to be put here now.

        Where a quarter of what we may hold is evicted and still being sent, readers are slow
        and many: large objects then do without RAM, or they would push out all that is hot.
        """
        free = max(0, self._account.held + self.ledger.budget - self.ledger.held)
        most = min(self.capacity, free)
        return min(most, SMALL) if self._lent.held > self.capacity // 4 else most

    def get(self, key: Hashable) -> object | None:
        """The object, now the most recently used one; None if it is not here."""
        item = self._items.get(key)
        if item is None:
            return None
        ghosts = self.ghosts
        ghosts.hit(item.used, self._account.held)
        ghosts.used = item.used = ghosts.used + item.size
        return item.value

    def touch(self, key: Hashable) -> None:
        """Make it the most recently used one, if it is here."""
        self.get(key)

    def discard(self, key: Hashable) -> None:
        item = self._items.pop(key, None)
        if item is not None:
            self._take_off(item)

    def yield_room(self) -> None:
        """Evict until the whole ledger is within its budget, or nothing is left here."""
        self._lent.sweep()
        while self.ledger.overdraft() and self._items:
            self._evict()

    def resize(self, capacity: int) -> None:
        """Hold at most `capacity` from now on; what is too much goes at once."""
        self.capacity = capacity
        while self._account.held > capacity:
            self._evict()

    def what_if(self) -> list[tuple[int, float]]:
        """(bytes of RAM, hit ratio with so much), from a quarter of what there is to four times."""
        return self.ghosts.what_if(self.capacity, self._account.held)

    def statistics(self) -> WorkingSetStatistics:
        return WorkingSetStatistics(
            self.capacity, self._account.held, len(self._items), self._evicted, self._refused
        )

    def _evict(self) -> None:
        key, item = self._items.popitem()
        self._take_off(item)
        self._evicted += 1
        self.ghosts.evicted(item.name, item.size, self.capacity)
        if item.on_evict is not None:
            item.on_evict(key, item.value)
        if item.octets is not None:
            rest = (item.octets, item.size)
            del item
            self._lent.note(rest)

    def _take_off(self, item: _Item) -> None:
        self._account.refund(item.size)
        counted = self.sorts[item.sort]
        counted[0] -= 1
        counted[1] -= item.size
        if not counted[0]:
            del self.sorts[item.sort]
