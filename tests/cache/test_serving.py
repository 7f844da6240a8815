"""What is stored is used exactly as RFC 9111 §4 and RFC 5861 let it be."""

from __future__ import annotations

from collections.abc import Callable

import ccdirectives
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgebox.cache.answer import Answer, Instant
from edgebox.cache.entry import StoredResponse, describe
from edgebox.cache.reasons import ServeReason
from edgebox.cache.rules import CacheRules
from edgebox.cache.serving import (
    Failure,
    Serve,
    ServeDecision,
    failure_of,
    may_serve,
    may_serve_stale,
)
from edgebox.cache.storing import may_store
from edgebox.http.message import Request

Ask = Callable[..., Request]
Answers = Callable[..., Answer]
Keep = Callable[..., StoredResponse]
Later = Callable[..., Instant]
RULES = CacheRules()
TAG = 'ETag: "a"'
MAX, FAILS, GONE = "max-age=9", Failure.ERROR, Failure.UNREACHABLE


@pytest.mark.parametrize(
    ("stored", "asked", "after", "serve", "reason"),
    [
        ("max-age=60", [], 59.9, Serve.FRESH, ServeReason.FRESH),
        ("max-age=60", [], 60, Serve.REVALIDATE, ServeReason.STALE),
        ("max-age=60, must-revalidate", [], 59, Serve.FRESH, ServeReason.FRESH),
        ("max-age=60, must-revalidate", [], 60, Serve.REVALIDATE, ServeReason.MUST_REVALIDATE),
        ("max-age=60, no-cache", [], 0, Serve.REVALIDATE, ServeReason.NO_CACHE),
        ('max-age=60, no-cache="x"', [], 0, Serve.FRESH, ServeReason.FRESH),
        ("max-age=60", ["no-cache"], 0, Serve.REVALIDATE, ServeReason.REQUEST_NO_CACHE),
        ("max-age=60", ["max-age=0"], 1, Serve.REVALIDATE, ServeReason.REQUEST_MAX_AGE),
        ("max-age=60", ["max-age=5"], 5, Serve.FRESH, ServeReason.FRESH),
        ("max-age=60", ["max-age=5"], 5.1, Serve.REVALIDATE, ServeReason.REQUEST_MAX_AGE),
        ("max-age=60", ["max-age=x"], 1, Serve.REVALIDATE, ServeReason.REQUEST_MAX_AGE),
        ("max-age=60", ["min-fresh=50"], 10, Serve.FRESH, ServeReason.FRESH),
        ("max-age=60", ["min-fresh=50"], 11, Serve.REVALIDATE, ServeReason.REQUEST_MIN_FRESH),
        ("max-age=60", ["max-stale=9"], 69, Serve.STALE, ServeReason.MAX_STALE),
        ("max-age=60", ["max-stale=9"], 70, Serve.REVALIDATE, ServeReason.STALE),
        ("max-age=60", ["max-stale"], 9999, Serve.STALE, ServeReason.MAX_STALE),
        ("s-maxage=60", ["max-stale"], 61, Serve.REVALIDATE, ServeReason.MUST_REVALIDATE),
        ("max-age=60", ["no-store"], 0, Serve.FRESH, ServeReason.FRESH),
        ("max-age=60", ["only-if-cached"], 0, Serve.FRESH, ServeReason.FRESH),
        ("max-age=60", ["only-if-cached"], 60, Serve.REFUSE, ServeReason.ONLY_IF_CACHED),
        (
            "max-age=60, stale-while-revalidate=9", [], 69,
            Serve.STALE_AND_REFRESH, ServeReason.WHILE_REVALIDATE,
        ),
        ("max-age=60, stale-while-revalidate=9", [], 69.1, Serve.REVALIDATE, ServeReason.STALE),
        (
            "max-age=60, stale-while-revalidate=9", ["no-cache"], 61,
            Serve.REVALIDATE, ServeReason.REQUEST_NO_CACHE,
        ),
    ],
)  # fmt: skip
def test_a_stored_response_is_used_as_both_sides_allow(
    ask: Ask,
    keep: Keep,
    later: Later,
    stored: str,
    asked: list[str],
    after: float,
    serve: Serve,
    reason: ServeReason,
) -> None:
    request = ask(*(f"Cache-Control: {directive}" for directive in asked))
    decision = may_serve(request, keep(f"Cache-Control: {stored}", TAG), RULES, later(after))
    assert (decision.serve, decision.reason) == (serve, reason)


def test_the_time_left_is_told_in_whole_seconds(ask: Ask, keep: Keep, later: Later) -> None:
    stored = keep("Cache-Control: max-age=60", "Age: 10", TAG)
    assert may_serve(ask(), stored, RULES, later(0.5)).remaining == 49
    assert may_serve(ask(), stored, RULES, later(50.5)).remaining == -1


@pytest.mark.parametrize("method", [b"POST", b"PUT", b"DELETE", b"OPTIONS", b"M-SEARCH", b"get"])
def test_only_get_and_head_are_answered_from_the_store(
    ask: Ask, keep: Keep, later: Later, method: bytes
) -> None:
    stored = keep("Cache-Control: max-age=60")
    assert may_serve(ask(method=b"HEAD"), stored, RULES, later()).serve is Serve.FRESH
    decision = may_serve(ask(method=method), stored, RULES, later())
    assert (decision.serve, decision.reason) == (Serve.MISS, ServeReason.METHOD)


def test_a_miss_says_what_was_missing(ask: Ask, later: Later) -> None:
    for reason in (ServeReason.NOTHING_STORED, ServeReason.NO_VARIANT):
        decision = may_serve(ask(), reason, RULES, later())
        assert (decision.serve, decision.reason) == (Serve.MISS, reason)
        decision = may_serve(ask("Cache-Control: only-if-cached"), reason, RULES, later())
        assert (decision.serve, decision.reason) == (Serve.REFUSE, ServeReason.ONLY_IF_CACHED)


def test_clients_decide_nothing_where_the_operator_says_so(
    ask: Ask, keep: Keep, later: Later
) -> None:
    rules = CacheRules(request_directives=False)
    request = ask("Cache-Control: no-cache, max-age=0, only-if-cached", "Pragma: no-cache")
    stored = keep("Cache-Control: max-age=60")
    assert may_serve(request, stored, rules, later(1)).serve is Serve.FRESH
    assert may_serve(request, ServeReason.NOTHING_STORED, rules, later()).serve is Serve.MISS


def test_a_named_cookie_bypasses_the_cache(ask: Ask, keep: Keep, later: Later) -> None:
    rules = CacheRules(bypass_cookies=(b"session",))
    decision = may_serve(ask("Cookie: session=1"), keep("Cache-Control: max-age=9"), rules, later())
    assert (decision.serve, decision.reason) == (Serve.MISS, ServeReason.OPERATOR_BYPASS)


def test_what_was_invalidated_is_asked_for_first(ask: Ask, keep: Keep, later: Later) -> None:
    stored = keep("Cache-Control: max-age=60, stale-while-revalidate=60").invalidated()
    decision = may_serve(ask("Cache-Control: max-stale"), stored, RULES, later())
    assert (decision.serve, decision.reason) == (Serve.REVALIDATE, ServeReason.INVALIDATED)
    failed = may_serve_stale(decision, stored, Failure.UNREACHABLE, later())
    assert failed.serve is Serve.PASS_ON


def test_a_soft_purge_begins_the_windows_for_stale_use(ask: Ask, keep: Keep, later: Later) -> None:
    stored = keep("Cache-Control: max-age=600, stale-while-revalidate=30").expired(later(100))
    assert may_serve(ask(), stored, RULES, later(110)).serve is Serve.STALE_AND_REFRESH
    assert may_serve(ask(), stored, RULES, later(132)).serve is Serve.REVALIDATE
    assert keep("Cache-Control: max-age=60").expired(later(100)).freshness.lifetime == 60


@pytest.mark.parametrize(
    ("stored", "asked", "after", "failure", "serve", "reason"),
    [
        (f"{MAX}, stale-if-error=60", "", 69, FAILS, Serve.STALE, ServeReason.STALE_IF_ERROR),
        (f"{MAX}, stale-if-error=60", "", 70, FAILS, Serve.PASS_ON, ServeReason.TOO_STALE),
        (MAX, "", 10, FAILS, Serve.PASS_ON, ServeReason.TOO_STALE),
        (MAX, "", 10, GONE, Serve.STALE, ServeReason.DISCONNECTED),
        (MAX, "", 2e5, GONE, Serve.PASS_ON, ServeReason.TOO_STALE),
        (f"{MAX}, must-revalidate", "", 10, GONE, Serve.PASS_ON, ServeReason.MUST_REVALIDATE),
        (f"{MAX}, proxy-revalidate", "", 10, GONE, Serve.PASS_ON, ServeReason.MUST_REVALIDATE),
        (f"{MAX}, s-maxage=9", "", 10, GONE, Serve.PASS_ON, ServeReason.MUST_REVALIDATE),
        (f"{MAX}, no-cache", "", 1, GONE, Serve.PASS_ON, ServeReason.NO_CACHE),
        (MAX, "no-cache", 1, GONE, Serve.PASS_ON, ServeReason.REQUEST_NO_CACHE),
        (MAX, "max-age=0", 1, FAILS, Serve.FRESH, ServeReason.FRESH),
        (f"{MAX}, s-maxage=9", "max-age=0", 9, GONE, Serve.PASS_ON, ServeReason.TOO_STALE),
    ],
)  # fmt: skip
def test_a_failing_upstream_lets_stale_be_used_within_policy(
    ask: Ask,
    keep: Keep,
    later: Later,
    stored: str,
    asked: str,
    after: float,
    failure: Failure,
    serve: Serve,
    reason: ServeReason,
) -> None:
    kept = keep(f"Cache-Control: {stored}", TAG)
    request = ask(f"Cache-Control: {asked}") if asked else ask()
    first = may_serve(request, kept, RULES, later(after))
    assert first.serve is Serve.REVALIDATE
    decision = may_serve_stale(first, kept, failure, later(after))
    assert (decision.serve, decision.reason) == (serve, reason)


def test_the_failure_of_an_unsafe_request_is_never_papered_over(keep: Keep, later: Later) -> None:
    first = ServeDecision(Serve.MISS, ServeReason.METHOD)
    stored = keep("Cache-Control: max-age=60, stale-if-error=60")
    assert may_serve_stale(first, stored, Failure.ERROR, later()).serve is Serve.PASS_ON


def test_failures_are_the_four_that_rfc_5861_names() -> None:
    failures = {status for status in range(200, 600) if failure_of(status)}
    assert failures == {500, 502, 503, 504}


def test_every_reason_has_a_sentence_a_source_and_a_known_forward_value() -> None:
    known = {None, "bypass", "method", "uri-miss", "vary-miss", "miss", "request", "stale"}
    for reason in ServeReason:
        assert reason.text
        assert reason.source.startswith(("RFC ", "edgebox.toml"))
        assert reason.forward in known


RESPONSES = st.lists(
    st.sampled_from(
        [
            "max-age=60",
            "s-maxage=30",
            "no-cache",
            "must-revalidate",
            "proxy-revalidate",
            "public",
            "stale-while-revalidate=20",
            "stale-if-error=40",
        ]
    ),
    max_size=4,
    unique_by=lambda d: d.partition("=")[0],
)
REQUESTS = st.lists(
    st.sampled_from(
        ["no-cache", "max-age=45", "max-age=0", "min-fresh=10", "max-stale=15", "max-stale"]
    ),
    max_size=2,
    unique_by=lambda d: d.partition("=")[0],
)


def record(ask: Ask, answer: Answers, directives: list[str]) -> StoredResponse:
    got = answer(f"Cache-Control: {', '.join(directives)}", TAG)
    return describe(ask().headers, got, may_store(ask(), got, RULES).freshness, RULES)


@pytest.mark.slow
@given(RESPONSES, REQUESTS, st.integers(0, 150))
@settings(max_examples=150)
def test_another_reader_of_the_rfcs_agrees(
    ask: Ask, answer: Answers, later: Later, stored: list[str], asked: list[str], age: int
) -> None:
    kept = record(ask, answer, stored)
    request = ask(f"Cache-Control: {', '.join(asked)}")
    ours = may_serve(request, kept, RULES, later(age))
    theirs = ccdirectives.assess(
        ccdirectives.parse(", ".join(stored)),
        age=age,
        shared=True,
        request=ccdirectives.parse(", ".join(asked)),
    )
    assert (ours.serve in (Serve.FRESH, Serve.STALE)) == theirs.reusable
    assert (ours.serve is Serve.FRESH) <= theirs.fresh
    assert (ours.serve is Serve.STALE_AND_REFRESH) <= theirs.stale_while_revalidate
    if not asked:
        assert (ours.serve is Serve.STALE_AND_REFRESH) == theirs.stale_while_revalidate
    if ours.serve is Serve.REVALIDATE and not asked and age >= kept.freshness.lifetime:
        failed = may_serve_stale(ours, kept, Failure.ERROR, later(age))
        assert (failed.serve is Serve.STALE) == theirs.stale_if_error


RANK = [Serve.FRESH, Serve.STALE_AND_REFRESH, Serve.REVALIDATE]


@pytest.mark.slow
@given(RESPONSES, st.floats(0, 200), st.floats(0, 200))
@settings(max_examples=150)
def test_nothing_gets_fresher_as_time_goes_by(
    ask: Ask, answer: Answers, later: Later, stored: list[str], one: float, other: float
) -> None:
    kept = record(ask, answer, stored)
    first = may_serve(ask(), kept, RULES, later(min(one, other)))
    second = may_serve(ask(), kept, RULES, later(max(one, other)))
    assert RANK.index(first.serve) <= RANK.index(second.serve)


@pytest.mark.slow
@given(RESPONSES, st.floats(0, 200), st.floats(-1e12, 1e12))
@settings(max_examples=100)
def test_the_wall_clock_may_jump_as_it_likes(
    ask: Ask, answer: Answers, later: Later, stored: list[str], after: float, jump: float
) -> None:
    kept = record(ask, answer, stored)
    now = later(after)
    moved = Instant(now.wall + jump, now.steady)
    assert may_serve(ask(), kept, RULES, now) == may_serve(ask(), kept, RULES, moved)


def test_a_steady_clock_that_ran_backwards_leaves_age_at_that_of_receipt(
    keep: Keep, later: Later
) -> None:
    assert keep("Cache-Control: max-age=60", "Age: 7").age(later(-100)) == 7
