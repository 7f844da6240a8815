"""When a server is left out, tried again, and taken back."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from edgebox.upstream.health import (
    FINE,
    Health,
    HealthRules,
    Standing,
    answered,
    begin_trial,
    checked,
    failed,
)

RULES = HealthRules(fail_after=3, eject_for=10, healthy_after=2, unhealthy_after=3)


def fail(health: Health, times: int, now: float = 0) -> Health:
    for _ in range(times):
        health = failed(health, RULES, now)
    return health


def check(health: Health, *results: bool) -> Health:
    for good in results:
        health = checked(health, good, RULES)
    return health


def test_enough_failures_in_a_row_eject_for_a_while() -> None:
    assert fail(FINE, 2).standing(0) is Standing.UP
    out = fail(FINE, 3)
    assert out.standing(9.9) is Standing.EJECTED
    assert out.standing(10) is Standing.TRIAL


def test_an_answer_between_forgets_the_failures() -> None:
    assert fail(answered(fail(FINE, 2)), 2).standing(0) is Standing.UP


def test_one_request_tries_while_the_others_stay_away() -> None:
    trial = begin_trial(fail(FINE, 3), RULES, 12)
    assert trial.standing(12) is Standing.EJECTED
    assert trial.standing(22) is Standing.TRIAL  # the first never said how it went


def test_one_failure_on_trial_ejects_again() -> None:
    out = failed(begin_trial(fail(FINE, 3), RULES, 12), RULES, 13)
    assert out.standing(22.9) is Standing.EJECTED
    assert out.standing(23) is Standing.TRIAL


def test_an_answer_on_trial_takes_it_back_with_a_clean_record() -> None:
    back = answered(begin_trial(fail(FINE, 3), RULES, 12))
    assert back is FINE


def test_no_failure_ever_ejects_if_the_operator_says_so() -> None:
    health, never = FINE, HealthRules(0, 10, 2, 3)
    for _ in range(100):
        health = failed(health, never, 0)
    assert health.standing(0) is Standing.UP


def test_bad_checks_in_a_row_take_it_down_and_good_ones_bring_it_up() -> None:
    assert not check(FINE, False, False, True, False, False).down
    down = check(FINE, False, False, False)
    assert down.standing(0) is Standing.DOWN
    assert check(down, True, False, True).down
    assert check(down, True, True) is FINE


def test_answers_do_not_bring_up_what_checks_took_down() -> None:
    assert answered(fail(check(FINE, False, False, False), 1)).standing(0) is Standing.DOWN


@given(st.lists(st.sampled_from(["answer", "failure", "good", "bad"])))
def test_good_checks_and_an_answer_always_lead_back(events: list[str]) -> None:
    health = FINE
    for now, event in enumerate(events):
        match event:
            case "answer":
                health = answered(health)
            case "failure":
                health = failed(health, RULES, now)
            case _:
                health = checked(health, event == "good", RULES)
    assert answered(check(health, True, True)) == FINE
