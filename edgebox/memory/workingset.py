"""The hot octets: one least-recently-used store, bounded in bytes, for files and answers.

It yields to everything else in the ledger: where connections or heads have taken the
budget, it keeps fewer objects than its own bound would allow. What the objects are, and
whether they are still true, it does not know.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass

from cachetools import LRUCache

from edgebox.memory.ledger import Ledger

OnEvict = Callable[[Hashable, object], None]


@dataclass(frozen=True, slots=True, eq=False)
class _Item:
    value: object
    size: int
    on_evict: OnEvict | None


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
    """

    def __init__(self, capacity: int, ledger: Ledger, account: str = "working set") -> None:
        self._items: LRUCache[Hashable, _Item] = LRUCache(capacity, lambda item: item.size)
        self.capacity = capacity
        self.ledger = ledger
        self._account = ledger.account(account)
        self._evicted = 0
        self._refused = 0

    def put(self, key: Hashable, value: object, size: int, on_evict: OnEvict | None = None) -> bool:
        """Keep `value`, `size` bytes, in place of what had this key; False if it cannot fit.

        What had the key is gone in either case.
        """
        self.discard(key)
        if size > self.capacity or self.ledger.overdraft(size) > self._account.held:
            self._refused += 1
            return False
        # Our own eviction, since cachetools' would tell nobody and not see the ledger.
        while self._items.currsize + size > self.capacity or self.ledger.overdraft(size):
            self._evict()
        self._items[key] = _Item(value, size, on_evict)
        self._account.charge(size)
        return True

    def get(self, key: Hashable) -> object | None:
        """The object, now the most recently used one; None if it is not here."""
        item = self._items.get(key)
        return None if item is None else item.value

    def touch(self, key: Hashable) -> None:
        """Make it the most recently used one, if it is here."""
        self._items.get(key)

    def discard(self, key: Hashable) -> None:
        item = self._items.pop(key, None)
        if item is not None:
            self._account.refund(item.size)

    def yield_room(self) -> None:
        """Evict until the whole ledger is within its budget, or nothing is left here."""
        while self.ledger.overdraft() and self._items:
            self._evict()

    def statistics(self) -> WorkingSetStatistics:
        return WorkingSetStatistics(
            self.capacity, self._account.held, len(self._items), self._evicted, self._refused
        )

    def _evict(self) -> None:
        key, item = self._items.popitem()
        self._account.refund(item.size)
        self._evicted += 1
        if item.on_evict is not None:
            item.on_evict(key, item.value)
