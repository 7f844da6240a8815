"""What was lost is held against what was killed."""

from __future__ import annotations

import pytest

from perf.faults.tally import IN_HAND, Blow, Mishap, Tally, explained, longest_wait, percentile

BLOW = Blow(10.0, frozenset({4001, 4002}))


@pytest.mark.parametrize(
    ("at", "port", "is_explained"),
    [
        (10.1, 4001, True),
        (10.0 + IN_HAND, 4002, True),
        (10.1, 4003, False),  # a connection that it did not have
        (9.9, 4001, False),  # before
        (10.1 + IN_HAND, 4001, False),  # long after
    ],
)
def test_lost_may_be_what_a_killed_worker_had(at: float, port: int, is_explained: bool) -> None:
    assert explained(Mishap(at, port, "/", "reset"), [Blow(1.0), BLOW]) is is_explained


def test_lost_may_be_what_a_killed_app_was_to_answer() -> None:
    blow = Blow(10.0, prefix="/app/")
    assert explained(Mishap(10.5, 1, "/app/0/x", "closed after 100 octets"), [blow])
    assert not explained(Mishap(10.5, 1, "/small.html", "reset"), [blow])


def test_only_a_clean_end_of_a_used_connection_can_have_crossed_the_request() -> None:
    assert Mishap(1.0, 1, "/", "closed, 0.01 s after it was sent", first=False).crossed
    assert not Mishap(1.0, 1, "/", "closed, 0.01 s after it was sent", first=True).crossed
    assert not Mishap(1.0, 1, "/", "closed after 10 octets, 0.01 s", first=False).crossed
    assert not Mishap(1.0, 1, "/", "Connection reset by peer", first=False).crossed


def test_answered_is_whatever_came_whole() -> None:
    tally = Tally(sent=10, right=5)
    tally.named[503] += 2
    tally.wrong.append(Mishap(1.0, 1, "/", "another body"))
    tally.lost.append(Mishap(1.0, 1, "/", "reset"))
    assert tally.answered == 8


def test_the_longest_wait_is_of_those_who_waited_then() -> None:
    answers = [(0.0, 5.0), (9.0, 2.0), (10.5, 0.1), (12.0, 9.0)]
    assert longest_wait(answers, 10.0, 11.0) == 2.0
    assert longest_wait(answers, 6.0, 7.0) == 0


def test_a_percentile_is_one_of_the_values() -> None:
    assert percentile([], 0.5) == 0
    assert percentile([3.0], 0.99) == 3.0
    assert percentile([4.0, 1.0, 3.0, 2.0], 0.5) == 2.0
    assert percentile(list(range(1, 101)), 0.99) == 99
