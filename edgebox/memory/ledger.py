"""Counts every byte that edgebox holds on purpose, by named account, against one budget.

The ledger measures nothing and frees nothing: who holds bytes charges them before and
refunds them after, and whoever can give some back asks whether it should.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


class Account:
    """What one holder has in RAM: "working set", "answers", "heads", "connections"."""

    __slots__ = ("_ledger", "held", "name")

    def __init__(self, ledger: Ledger, name: str) -> None:
        self._ledger = ledger
        self.name = name
        self.held = 0

    def charge(self, size: int) -> None:
        """Note `size` more bytes. Never refuses: who must stay in bounds asks first."""
        if size < 0:
            raise ValueError("cannot charge less than nothing")
        self.held += size
        self._ledger.held += size

    def refund(self, size: int) -> None:
        """Note `size` bytes less. ValueError if they were never charged."""
        if not 0 <= size <= self.held:
            raise ValueError(f"{self.name}: refund of {size} bytes out of {self.held}")
        self.held -= size
        self._ledger.held -= size


@dataclass(frozen=True, slots=True)
class LedgerStatistics:
    """Bytes."""

    budget: int
    held: int
    accounts: Mapping[str, int]


class Ledger:
    """All accounts of one process. `held` is their sum in bytes."""

    def __init__(self, budget: int) -> None:
        self.budget = budget
        self.held = 0
        self._accounts: dict[str, Account] = {}

    def account(self, name: str) -> Account:
        """The account of that name, opened if there is none yet."""
        if name not in self._accounts:
            self._accounts[name] = Account(self, name)
        return self._accounts[name]

    def overdraft(self, size: int = 0) -> int:
        """By how many bytes `size` more would exceed the budget; 0 if they fit."""
        return max(0, self.held + size - self.budget)

    def statistics(self) -> LedgerStatistics:
        accounts = {name: account.held for name, account in self._accounts.items()}
        return LedgerStatistics(self.budget, self.held, accounts)
