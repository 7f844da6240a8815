"""What may be stored, and what never (RFC 9111 §3)."""

from __future__ import annotations

from collections.abc import Callable

import ccdirectives
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgebox.cache.answer import Answer
from edgebox.cache.reasons import Cause, StoreReason
from edgebox.cache.rules import CacheRules, SetCookie
from edgebox.cache.storing import may_store
from edgebox.http.message import Request

Ask = Callable[..., Request]
Answers = Callable[..., Answer]
HOUR = "Cache-Control: max-age=3600"


@pytest.mark.parametrize(
    ("lines", "status", "reason"),
    [
        ([HOUR], 200, StoreReason.EXPLICIT),
        (["Cache-Control: s-maxage=5"], 200, StoreReason.EXPLICIT),
        (["Expires: {soon}"], 200, StoreReason.EXPLICIT),
        ([HOUR], 503, StoreReason.EXPLICIT),
        ([HOUR], 599, StoreReason.EXPLICIT),
        ([HOUR], 400, StoreReason.EXPLICIT),
        (["Last-Modified: {past}"], 200, StoreReason.HEURISTIC),
        (["Last-Modified: {past}"], 404, StoreReason.HEURISTIC),
        (["Cache-Control: public", "Last-Modified: {past}"], 599, StoreReason.HEURISTIC),
        (['ETag: "a"'], 200, StoreReason.TO_REVALIDATE),
        (["Cache-Control: no-cache", 'ETag: "a"'], 200, StoreReason.TO_REVALIDATE),
        (["Cache-Control: max-age=0", 'ETag: "a"'], 200, StoreReason.TO_REVALIDATE),
        (["Cache-Control: max-age=60", "Age: 61", 'ETag: "a"'], 200, StoreReason.TO_REVALIDATE),
        (["Cache-Control: max-age=0, stale-while-revalidate=9"], 200, StoreReason.EXPLICIT),
        ([], 200, StoreReason.NO_FRESHNESS),
        (["Last-Modified: some day"], 200, StoreReason.NO_FRESHNESS),
        (["Cache-Control: no-cache"], 200, StoreReason.NO_FRESHNESS),
        (["Cache-Control: max-age=0"], 200, StoreReason.STALE_ON_ARRIVAL),
        (["Cache-Control: max-age=60", "Age: 60"], 200, StoreReason.STALE_ON_ARRIVAL),
        (["Last-Modified: {past}"], 302, StoreReason.STATUS_NEEDS_FRESHNESS),
        (['ETag: "a"'], 500, StoreReason.STATUS_NEEDS_FRESHNESS),
        (["Last-Modified: {past}"], 431, StoreReason.STATUS_NEEDS_FRESHNESS),
        (["Cache-Control: max-age=60, no-store"], 200, StoreReason.NO_STORE),
        (["Cache-Control: max-age=60, private"], 200, StoreReason.PRIVATE),
        ([HOUR, "Vary: *"], 200, StoreReason.VARY_ANYTHING),
        ([HOUR, "Vary: ", "Vary: *"], 200, StoreReason.VARY_ANYTHING),
        ([HOUR, "Vary: Accept, *"], 200, StoreReason.VARY_ANYTHING),
        ([HOUR, "Set-Cookie: a=b"], 200, StoreReason.SET_COOKIE),
        ([HOUR, "Content-Range: bytes 0-4/5"], 206, StoreReason.PARTIAL),
        ([HOUR], 304, StoreReason.NOT_MODIFIED),
        ([HOUR], 412, StoreReason.CONDITION),
        ([HOUR], 416, StoreReason.CONDITION),
        ([HOUR], 103, StoreReason.NOT_FINAL),
        ([HOUR], 101, StoreReason.NOT_FINAL),
    ],
)
def test_the_answer_decides(
    ask: Ask,
    answer: Answers,
    date: Callable[[int], str],
    lines: list[str],
    status: int,
    reason: StoreReason,
) -> None:
    texts = [line.format(soon=date(100), past=date(-1000)) for line in lines]
    assert may_store(ask(), answer(*texts, status=status), CacheRules()).reason is reason


def test_must_understand_overrides_no_store_for_a_known_status_only(
    ask: Ask, answer: Answers
) -> None:
    lines = ("Cache-Control: max-age=60, no-store, must-understand",)
    known = may_store(ask(), answer(*lines), CacheRules())
    assert known.reason is StoreReason.EXPLICIT
    unknown = may_store(ask(), answer(*lines, status=599), CacheRules())
    assert unknown.reason is StoreReason.NOT_UNDERSTOOD


@pytest.mark.parametrize("method", [b"HEAD", b"POST", b"PUT", b"DELETE", b"OPTIONS", b"M-SEARCH"])
def test_only_get_is_stored(ask: Ask, answer: Answers, method: bytes) -> None:
    assert may_store(ask(method=method), answer(HOUR), CacheRules()).reason is StoreReason.METHOD


@pytest.mark.parametrize(
    ("lines", "status", "reason"),
    [
        ([HOUR, "Content-Location: /page?q"], 200, StoreReason.EXPLICIT),
        ([HOUR, "Content-Location: http://example.com/page?q"], 200, StoreReason.EXPLICIT),
        ([HOUR, "Content-Location: /other"], 200, StoreReason.METHOD),
        ([HOUR, "Content-Location: //evil.example/page?q"], 200, StoreReason.METHOD),
        ([HOUR, "Content-Location: /page?q"], 201, StoreReason.METHOD),
        (["Content-Location: /page?q", 'ETag: "a"'], 200, StoreReason.METHOD),
        (["Content-Location: /page?q"], 200, StoreReason.METHOD),
    ],
)
def test_a_post_is_stored_only_as_what_a_get_would_give(
    ask: Ask, answer: Answers, lines: list[str], status: int, reason: StoreReason
) -> None:
    request = ask(method=b"POST", target=b"/page?q")
    assert may_store(request, answer(*lines, status=status), CacheRules()).reason is reason


@pytest.mark.parametrize(
    ("directives", "stores"),
    [
        ("max-age=60", False),
        ("public, max-age=60", True),
        ("s-maxage=60", True),
        ("must-revalidate, max-age=60", True),
        ("proxy-revalidate, max-age=60", False),
    ],
)
def test_authorization_needs_leave(
    ask: Ask, answer: Answers, directives: str, stores: bool
) -> None:
    decision = may_store(
        ask("Authorization: Basic eA=="), answer(f"Cache-Control: {directives}"), CacheRules()
    )
    assert decision.stores is stores
    if not stores:
        assert decision.reason is StoreReason.AUTHORIZATION
        assert decision.reason.cause is Cause.REQUEST


def test_a_request_can_keep_its_answer_out(ask: Ask, answer: Answers) -> None:
    request = ask("Cache-Control: no-store")
    assert may_store(request, answer(HOUR), CacheRules()).reason is StoreReason.REQUEST_NO_STORE
    rules = CacheRules(request_directives=False)
    assert may_store(request, answer(HOUR), rules).stores


@pytest.mark.parametrize("line", ["Content-Length: 3", "Transfer-Encoding: chunked"])
def test_the_answer_to_a_get_with_content_is_not_for_others(
    ask: Ask, answer: Answers, line: str
) -> None:
    assert may_store(ask(line), answer(HOUR), CacheRules()).reason is StoreReason.REQUEST_CONTENT
    assert may_store(ask("Content-Length: 0"), answer(HOUR), CacheRules()).stores


def test_nothing_is_guessed_for_a_visitor_with_a_cookie(
    ask: Ask, answer: Answers, date: Callable[[int], str]
) -> None:
    got = answer(f"Last-Modified: {date(-1000)}")
    cookie = ask("Cookie: session=1")
    assert may_store(cookie, got, CacheRules()).reason is StoreReason.COOKIE
    public = answer(f"Last-Modified: {date(-1000)}", "Cache-Control: public")
    assert may_store(cookie, public, CacheRules()).reason is StoreReason.HEURISTIC
    tagged = answer(f"Last-Modified: {date(-1000)}", 'ETag: "a"')
    assert may_store(cookie, tagged, CacheRules()).reason is StoreReason.TO_REVALIDATE
    assert may_store(cookie, answer(HOUR), CacheRules()).reason is StoreReason.EXPLICIT
    rules = CacheRules(heuristic_with_cookie=True)
    assert may_store(cookie, got, rules).reason is StoreReason.HEURISTIC


def test_the_operator_decides_over_set_cookie(ask: Ask, answer: Answers) -> None:
    got = answer(HOUR, "Set-Cookie: a=b")
    for choice in (SetCookie.STRIP, SetCookie.KEEP):
        assert may_store(ask(), got, CacheRules(set_cookie=choice)).stores


def test_a_cookie_that_the_response_keeps_to_itself_is_no_hindrance(
    ask: Ask, answer: Answers
) -> None:
    got = answer('Cache-Control: max-age=60, no-cache="Set-Cookie"', "Set-Cookie: a=b")
    assert may_store(ask(), got, CacheRules()).stores


def test_a_private_that_names_fields_lets_the_rest_be_stored(ask: Ask, answer: Answers) -> None:
    assert may_store(ask(), answer('Cache-Control: private="X-A", max-age=9'), CacheRules()).stores


def test_the_operators_refusals_come_first(ask: Ask, answer: Answers) -> None:
    decision = may_store(ask(), answer(HOUR), CacheRules(store=False))
    assert decision.reason is StoreReason.OPERATOR_NO_STORE
    rules = CacheRules(bypass_cookies=(b"logged_in_*",))
    visitor = ask("Cookie: a=b; logged_in_7=yes")
    assert may_store(visitor, answer(HOUR), rules).reason is StoreReason.OPERATOR_BYPASS
    assert may_store(ask("Cookie: a=logged_in_7"), answer(HOUR), rules).stores


def test_every_reason_has_a_sentence_and_a_source() -> None:
    for reason in StoreReason:
        assert reason.text
        assert reason.source.startswith(("RFC ", "edgebox.toml"))
        assert reason.key == reason.key.lower()


FLAGS = st.sampled_from(
    [
        "no-store",
        "private",
        'private="a"',
        "public",
        "must-revalidate",
        "must-understand",
        "s-maxage=60",
        "no-cache",
        "proxy-revalidate",
    ]
)


@pytest.mark.slow
@given(st.lists(FLAGS, max_size=4, unique_by=lambda f: f.partition("=")[0]), st.booleans())
@settings(max_examples=150)
def test_another_reader_of_the_rfc_agrees(
    ask: Ask, answer: Answers, flags: list[str], authorized: bool
) -> None:
    text = ", ".join([*flags, "max-age=60"])
    request = ask("Authorization: x") if authorized else ask()
    ours = may_store(request, answer(f"Cache-Control: {text}", 'ETag: "a"'), CacheRules())
    assert ours.stores == ccdirectives.may_store(
        ccdirectives.parse(text), shared=True, authorized=authorized, understood_status=True
    )
