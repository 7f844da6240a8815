"""What is charged is held until it is refunded, and never less than nothing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgebox.memory.ledger import Ledger


def test_accounts_add_up() -> None:
    ledger = Ledger(1000)
    files, heads = ledger.account("working set"), ledger.account("heads")
    files.charge(300)
    heads.charge(50)
    files.refund(100)
    assert (files.held, heads.held, ledger.held) == (200, 50, 250)
    statistics = ledger.statistics()
    assert (statistics.budget, statistics.held) == (1000, 250)
    assert statistics.accounts == {"working set": 200, "heads": 50}


def test_an_account_is_opened_once() -> None:
    ledger = Ledger(1000)
    assert ledger.account("heads") is ledger.account("heads")


def test_the_overdraft_is_what_does_not_fit() -> None:
    ledger = Ledger(100)
    ledger.account("heads").charge(80)
    assert ledger.overdraft() == 0
    assert ledger.overdraft(20) == 0
    assert ledger.overdraft(25) == 5
    ledger.account("heads").charge(40)  # never refused, only told
    assert ledger.overdraft() == 20


def test_more_cannot_be_refunded_than_was_charged() -> None:
    ledger = Ledger(100)
    account = ledger.account("heads")
    account.charge(10)
    for size in (11, -1):
        with pytest.raises(ValueError, match="heads"):
            account.refund(size)
    with pytest.raises(ValueError, match="less than nothing"):
        account.charge(-1)
    assert ledger.held == 10


@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(-100, 100))))
def test_the_sum_of_the_accounts_is_the_ledger(moves: list[tuple[str, int]]) -> None:
    ledger = Ledger(1000)
    for name, size in moves:
        account = ledger.account(name)
        if size >= 0:
            account.charge(size)
        elif -size <= account.held:
            account.refund(-size)
    statistics = ledger.statistics()
    assert sum(statistics.accounts.values()) == ledger.held == statistics.held
    assert all(held >= 0 for held in statistics.accounts.values())
