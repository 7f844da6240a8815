"""Lifetimes follow the order of RFC 9111 §4.2.1, ages the arithmetic of §4.2.3."""

from __future__ import annotations

from collections.abc import Callable

import ccdirectives
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from edgebox.cache.answer import Answer, Instant
from edgebox.cache.directives import FOREVER
from edgebox.cache.freshness import Basis, Freshness, assess, initial_age
from edgebox.cache.rules import CacheRules
from edgebox.cache.targeted import select_control

DAY = 24 * 3600
DEFAULTS = CacheRules()


def judge(got: Answer, rules: CacheRules = DEFAULTS, guess: bool = True) -> Freshness:
    return assess(got, select_control(got.headers, rules.targets), rules, guess)


@pytest.mark.parametrize(
    ("lines", "lifetime", "basis"),
    [
        (["Cache-Control: s-maxage=5, max-age=60", "Expires: {far}"], 5, Basis.S_MAXAGE),
        (["Cache-Control: max-age=60", "Expires: {far}"], 60, Basis.MAX_AGE),
        (["Cache-Control: max-age=60", "Expires: 0"], 60, Basis.MAX_AGE),
        (["Cache-Control: max-age=x", "Expires: {far}"], 0, Basis.MAX_AGE),
        (["Expires: {soon}"], 100, Basis.EXPIRES),
        (["Expires: {soon}", "Date: {soon}"], 0, Basis.EXPIRES),
        (["Expires: {soon}", "Date: no date"], 100, Basis.EXPIRES),
        (["Expires: {past}"], 0, Basis.EXPIRES),
        (["Expires: 0"], 0, Basis.EXPIRES),
        (["Expires: {soon}", "Expires: {soon}"], 100, Basis.EXPIRES),
        (["Expires: {far}", "Expires: {soon}"], 0, Basis.EXPIRES),
        (["Expires: Sun, 21 Nov 2286 04:46:39 GMT"], FOREVER, Basis.EXPIRES),
        (["CDN-Cache-Control: x", "Expires: {soon}"], 0, Basis.NONE),
        (["Last-Modified: {past}"], 10, Basis.HEURISTIC),
        (["Last-Modified: {long_ago}"], DAY, Basis.HEURISTIC),
        (["Last-Modified: {soon}"], 0, Basis.HEURISTIC),
        (["Last-Modified: yesterday"], 0, Basis.NONE),
        ([], 0, Basis.NONE),
    ],
)
def test_lifetime_comes_from_the_first_that_applies(
    answer: Callable[..., Answer],
    date: Callable[[int], str],
    lines: list[str],
    lifetime: int,
    basis: Basis,
) -> None:
    dates = {"far": date(9000), "soon": date(100), "past": date(-100), "long_ago": date(-90 * DAY)}
    freshness = judge(answer(*(line.format(**dates) for line in lines)))
    assert (freshness.lifetime, freshness.basis) == (lifetime, basis)


@pytest.mark.parametrize("status", [200, 203, 204, 300, 301, 308, 404, 405, 410, 414, 501])
def test_freshness_may_be_guessed_for_these(
    answer: Callable[..., Answer], date: Callable[[int], str], status: int
) -> None:
    got = answer(f"Last-Modified: {date(-1000)}", status=status)
    assert judge(got).basis is Basis.HEURISTIC
    assert judge(got, guess=False).basis is Basis.NONE


@pytest.mark.parametrize("status", [201, 202, 302, 307, 400, 403, 413, 431, 500, 502, 503, 504])
def test_freshness_is_not_guessed_for_those(
    answer: Callable[..., Answer], date: Callable[[int], str], status: int
) -> None:
    got = answer(f"Last-Modified: {date(-1000)}", status=status)
    assert judge(got).basis is Basis.NONE
    assert judge(got, CacheRules(default_freshness=60)).basis is Basis.NONE


def test_public_lets_freshness_be_guessed_but_not_for_what_a_client_provokes(
    answer: Callable[..., Answer], date: Callable[[int], str]
) -> None:
    lines = (f"Last-Modified: {date(-1000)}", "Cache-Control: public")
    assert judge(answer(*lines, status=599)).basis is Basis.HEURISTIC
    assert judge(answer(*lines, status=431)).basis is Basis.NONE


def test_the_operators_default_comes_before_guessing_and_after_what_is_stated(
    answer: Callable[..., Answer], date: Callable[[int], str]
) -> None:
    rules = CacheRules(default_freshness=7)
    guessed = judge(answer(f"Last-Modified: {date(-1000)}"), rules)
    assert (guessed.lifetime, guessed.basis) == (7, Basis.OPERATOR)
    assert judge(answer("Cache-Control: max-age=0"), rules).lifetime == 0


@pytest.mark.parametrize(
    "directive", ["no-cache", "must-revalidate", "proxy-revalidate", "s-maxage=9"]
)
def test_no_window_is_left_where_stale_use_is_forbidden(
    answer: Callable[..., Answer], directive: str
) -> None:
    stretch = "max-age=9, stale-while-revalidate=9, stale-if-error=9"
    freshness = judge(answer(f"Cache-Control: {directive}, {stretch}"))
    assert (freshness.while_revalidate, freshness.if_error, freshness.if_unreachable) == (0, 0, 0)


def test_windows_are_what_is_stated_else_the_operators(answer: Callable[..., Answer]) -> None:
    rules = CacheRules(stale_while_revalidate=1, stale_if_error=2, stale_if_unreachable=3)
    own = judge(answer("Cache-Control: max-age=9"), rules)
    assert (own.while_revalidate, own.if_error, own.if_unreachable) == (1, 2, 3)
    stated = judge(
        answer("Cache-Control: max-age=9, stale-while-revalidate=5, stale-if-error=0"), rules
    )
    assert (stated.while_revalidate, stated.if_error, stated.if_unreachable) == (5, 0, 3)


@pytest.mark.parametrize(
    ("lines", "took", "age"),
    [
        ([], 0, 0),
        ([], 2.5, 2.5),
        (["Age: 30"], 2, 32),
        (["Age: 30", "Age: 0"], 0, 30),
        (["Age: 30, 0"], 0, 30),
        (["Age: 0, 30"], 0, 0),
        (["Age: abc"], 0, 0),
        (["Age: -30"], 0, 0),
        (["Age: 30.0"], 0, 0),
        (["Age: 99999999999999999999"], 0, FOREVER),
        (["Date: {past}"], 0, 100),
        (["Date: {past}", "Age: 30"], 0, 100),
        (["Date: {future}", "Age: 30"], 0, 30),
        (["Date: Thu, 01 Jan 1970 00:00:00 GMT"], 0, 1_900_000_000),
        (["Date: nonsense"], 0, 0),
    ],
)
def test_age_at_receipt_is_the_larger_of_date_and_age(
    answer: Callable[..., Answer],
    date: Callable[[int], str],
    lines: list[str],
    took: float,
    age: float,
) -> None:
    texts = [line.format(past=date(-100), future=date(500)) for line in lines]
    assert initial_age(answer(*texts, took=took)) == age


def test_a_wall_clock_set_back_during_the_exchange_makes_nothing_younger(
    answer: Callable[..., Answer],
) -> None:
    got = answer("Age: 5", took=3)
    jumped = replace(got, sent=Instant(got.sent.wall + 86_400, got.sent.steady))
    assert initial_age(jumped) == 8


@pytest.mark.slow
@given(
    st.one_of(st.none(), st.integers(-10, 2**33)),
    st.one_of(st.none(), st.integers(-10, 2**33)),
    st.one_of(st.none(), st.integers(-400, 400)),
    st.integers(-400, 400),
)
@settings(max_examples=150)
def test_another_reader_of_the_rfc_agrees(
    answer: Callable[..., Answer],
    date: Callable[[int], str],
    shared: int | None,
    age: int | None,
    expires: int | None,
    dated: int,
) -> None:
    directives = [f"s-maxage={shared}"] if shared is not None else []
    directives += [f"max-age={age}"] if age is not None else []
    lines = [f"Date: {date(dated)}", f"Cache-Control: {', '.join(directives)}"]
    lines += [f"Expires: {date(expires)}"] if expires is not None else []
    theirs = ccdirectives.freshness_lifetime(
        ccdirectives.parse(", ".join(directives)),
        shared=True,
        expires=expires,
        date=None if expires is None else dated,
    )
    assert judge(answer(*lines)).lifetime == (theirs or 0)
