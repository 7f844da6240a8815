"""The minimum rate: slow is told from stuck, and from trickling."""

from __future__ import annotations

from edgebox.send.pace import Pace


def test_a_window_with_enough_octets_moves_the_deadline() -> None:
    pace = Pace(rate=100, window=10, now=0)
    pace.progress(999, now=5)
    assert pace.deadline == 10
    pace.progress(1, now=6)
    assert pace.deadline == 16


def test_an_octet_now_and_then_does_not() -> None:
    pace = Pace(rate=100, window=10, now=0)
    for second in range(10):
        pace.progress(1, now=second)
    assert pace.deadline == 10


def test_without_a_rate_any_progress_will_do() -> None:
    pace = Pace(rate=0, window=10, now=0)
    pace.progress(1, now=9)
    assert pace.deadline == 19


def test_what_was_sent_long_ago_buys_no_time() -> None:
    pace = Pace(rate=100, window=10, now=0)
    pace.progress(10_000_000, now=1)
    assert pace.deadline == 11
