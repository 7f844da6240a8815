"""Octets that had to make room while somebody still sends them: not gone, so that they count.

A slow reader holds on to what it is being sent, whatever becomes of it here. Were that not
counted, each reader of an object that was evicted and read again would hold a copy of its own
beside the budget. CPython counts the references; who lends needs no word from who borrows.
"""

from __future__ import annotations

import sys

from edgebox.memory.ledger import Ledger


class Lent:
    """What is referred to from elsewhere, until it no longer is. Sizes are bytes."""

    def __init__(self, ledger: Ledger) -> None:
        self._account = ledger.account("being sent")
        self._lent: list[tuple[bytes, int]] = []

    @property
    def held(self) -> int:
        return self._account.held

    def note(self, evicted: tuple[bytes, int]) -> None:
        """Octets with their size; the caller keeps no reference beside this pair."""
        if _references(evicted) > _ALONE:
            self._lent.append(evicted)
            self._account.charge(evicted[1])

    def sweep(self) -> None:
        """Let go of what nobody else refers to any more."""
        if not self._lent:
            return
        kept = [pair for pair in self._lent if _references(pair) > _ALONE]
        self._account.refund(self._account.held - sum(size for _, size in kept))
        self._lent = kept


def _references(pair: tuple[bytes, int]) -> int:
    return sys.getrefcount(pair[0])


_ALONE = _references((bytes(1000), 0))
