"""What the disk has yet to be told: purges that were promised and are not carried out there.

A disk that hangs must hold up neither who purges nor who sends a form. So a purge is in force
as soon as it is noted here: what it covers is not found, whatever the disk still has. Who
carries it out, in a thread, says so when it is done. Knows neither threads nor disks.
"""

from __future__ import annotations

from edgebox.cache.entry import StoredResponse
from edgebox.cache.purges import Purge, Scope


class Debt:
    """One purge. `begun`: a thread has it in hand; `paid`: the disk is as it should be.

    Both are set by that thread, and read by the loop.
    """

    __slots__ = ("begun", "paid", "purge")

    def __init__(self, purge: Purge) -> None:
        self.purge = purge
        self.begun = False
        self.paid = False


class Debts:
    """All that is owed to one disk. For the loop alone."""

    def __init__(self) -> None:
        self._by_key: dict[bytes, list[Debt]] = {}
        self._others: list[Debt] = []

    def __len__(self) -> int:
        """How many are not paid."""
        return sum(not debt.paid for debt in self._all())

    def add(self, purge: Purge) -> Debt:
        for paid in [debt for debt in self._all() if debt.paid]:
            self.settle(paid)
        debt = Debt(purge)
        if purge.scope is Scope.KEY:
            self._by_key.setdefault(purge.value, []).append(debt)
        else:
            self._others.append(debt)
        return debt

    def settle(self, debt: Debt) -> None:
        """It is paid, or something is that covers it."""
        if debt in self._others:
            self._others.remove(debt)
        elif debt in (owed := self._by_key.get(debt.purge.value, [])):
            owed.remove(debt)
            if not owed:
                del self._by_key[debt.purge.value]

    def hides(self, key: bytes, entry: StoredResponse) -> bool:
        """Whether what the disk has under `key` may have been purged."""
        if not self._by_key and not self._others:
            return False
        owed = (*self._by_key.get(key, ()), *self._others)
        return any(debt.purge.covers(key, entry) for debt in owed if not debt.paid)

    def _all(self) -> list[Debt]:
        return [*self._others, *(debt for owed in self._by_key.values() for debt in owed)]
