"""Asking whether what is stored still holds, and believing the answer no further than it goes."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgebox.cache.answer import Answer, Instant
from edgebox.cache.entry import StoredResponse
from edgebox.cache.reasons import HeadReason, StoreReason
from edgebox.cache.revalidate import judge_head, renew, select_renewed, validation_fields
from edgebox.cache.rules import CacheRules, SetCookie
from edgebox.http.headers import Headers
from edgebox.http.message import Request

Ask = Callable[..., Request]
Answers = Callable[..., Answer]
Keep = Callable[..., StoredResponse]
Later = Callable[..., Instant]
Dates = Callable[[int], str]
RULES = CacheRules()
BRIEF = "Cache-Control: max-age=2"


def test_the_upstream_is_asked_with_both_validators(ask: Ask, keep: Keep, date: Dates) -> None:
    stored = keep(BRIEF, 'ETag: W/"a"', f"Last-Modified: {date(-9)}")
    fields = validation_fields(ask("Abc: 1").headers, [stored])
    assert fields is not None
    sent = Headers(fields)
    assert sent.get(b"if-none-match") == b'W/"a"'
    assert sent.get(b"if-modified-since") == date(-9).encode()
    assert sent.get(b"abc") == b"1"


def test_the_clients_own_conditions_and_ranges_stay_behind(ask: Ask, keep: Keep) -> None:
    request = ask(
        'If-None-Match: "x"', "If-Modified-Since: y", 'If-Match: "z"', "If-Unmodified-Since: y",
        "Range: bytes=0-1", 'If-Range: "x"', "Accept: */*",
    )  # fmt: skip
    fields = validation_fields(request.headers, [keep(BRIEF, 'ETag: "a"')])
    assert fields is not None
    assert [name.lower() for name, _ in fields] == [b"host", b"accept", b"if-none-match"]


def test_without_a_validator_there_is_nothing_to_ask_by(ask: Ask, keep: Keep) -> None:
    assert validation_fields(ask().headers, [keep(BRIEF)]) is None
    assert validation_fields(ask().headers, []) is None


def test_several_variants_are_asked_about_by_their_tags(ask: Ask, keep: Keep, date: Dates) -> None:
    modified = f"Last-Modified: {date(-9)}"
    variants = [keep(BRIEF, f'ETag: "{i % 10}"', modified) for i in range(12)]
    fields = validation_fields(ask().headers, variants)
    assert fields is not None
    sent = Headers(fields)
    assert sent.get(b"if-none-match") == b", ".join(b'"%d"' % i for i in range(8))
    assert b"if-modified-since" not in sent


@pytest.mark.parametrize(
    ("stored", "told", "selected"),
    [
        ([['ETag: "a"']], ['ETag: "a"'], (0,)),
        ([['ETag: "a"']], ['ETag: "b"'], ()),
        ([['ETag: W/"a"']], ['ETag: "a"'], (0,)),
        ([['ETag: "a"']], ['ETag: W/"a"'], (0,)),
        ([['ETag: "a"']], [], (0,)),
        ([["Last-Modified: {lm}"]], ["Last-Modified: {lm}"], (0,)),
        ([["Last-Modified: {lm}"]], ["Last-Modified: {other}"], ()),
        ([["Last-Modified: {lm}"]], [], (0,)),
        ([["Last-Modified: {lm}"]], ['ETag: "new"'], ()),
        ([['ETag: "a"'], ['ETag: "b"']], ['ETag: "b"'], (1,)),
        ([['ETag: "a"'], ['ETag: "b"']], [], ()),
        ([['ETag: "a"'], ['ETag: "b"'], ['ETag: "a"']], ['ETag: "a"'], (0, 2)),
        ([['ETag: W/"a"', "Date: {lm}"], ['ETag: W/"a"']], ['ETag: W/"a"'], (1,)),
        ([], ['ETag: "a"'], ()),
    ],
)
def test_a_304_renews_what_its_validators_name(
    keep: Keep,
    headers: Callable[..., Headers],
    date: Dates,
    stored: list[list[str]],
    told: list[str],
    selected: tuple[int, ...],
) -> None:
    dates = {"lm": date(-9), "other": date(-5)}
    candidates = [
        keep("Cache-Control: max-age=90", *(line.format(**dates) for line in lines))
        for lines in stored
    ]
    answered = headers(*(line.format(**dates) for line in told))
    assert select_renewed(answered, candidates) == selected


def test_a_304_renews_fields_freshness_and_age(
    ask: Ask, keep: Keep, answer: Answers, date: Dates, later: Later
) -> None:
    stored = keep(BRIEF, 'ETag: "a"', "A: 1", "B: 1", "Age: 1", "Content-Length: 36")
    told = answer(
        "Cache-Control: max-age=60", 'ETag: "a"', "A: 2", "Age: 7", "Content-Length: 0",
        status=304, at=100,
    )  # fmt: skip
    renewed = renew(ask(), stored, told, RULES)
    assert renewed.decision.stores
    assert renewed.entry.status == 200
    now = later(103)
    fields = Headers(renewed.entry.fields_at(now))
    assert [fields.all(name) for name in (b"a", b"b")] == [[b"2"], [b"1"]]
    assert fields.all(b"date") == [date(100).encode()]
    assert fields.all(b"age") == [b"10"]
    assert b"content-length" not in fields
    assert renewed.entry.remaining(now) == 50


def test_a_304_without_a_date_is_of_the_time_it_came(
    ask: Ask, keep: Keep, answer: Answers, date: Dates, later: Later
) -> None:
    stored = keep("Cache-Control: max-age=60", 'ETag: "a"')
    renewed = renew(ask(), stored, answer("Date: ", status=304, at=9000), RULES)
    assert Headers(renewed.entry.fields).all(b"date") == [date(9000).encode()]
    assert renewed.entry.age(later(9001)) == 1


def test_a_304_lifts_invalidation(ask: Ask, keep: Keep, answer: Answers) -> None:
    stored = keep("Cache-Control: max-age=60", 'ETag: "a"').invalidated()
    assert not renew(ask(), stored, answer(status=304), RULES).entry.invalid


@pytest.mark.parametrize(
    ("told", "reason"),
    [
        ("Cache-Control: private", StoreReason.PRIVATE),
        ("Cache-Control: no-store", StoreReason.NO_STORE),
        ("Vary: *", StoreReason.VARY_ANYTHING),
    ],
)
def test_a_304_can_take_back_the_leave_to_store(
    ask: Ask, keep: Keep, answer: Answers, told: str, reason: StoreReason
) -> None:
    renewed = renew(ask(), keep(BRIEF, 'ETag: "a"'), answer(told, status=304), RULES)
    assert renewed.decision.reason is reason
    assert renewed.drop


def test_a_request_that_may_not_store_leaves_what_others_stored(
    ask: Ask, keep: Keep, answer: Answers
) -> None:
    request = ask("Authorization: Basic eA==")
    renewed = renew(request, keep(BRIEF, 'ETag: "a"'), answer(status=304), RULES)
    assert renewed.decision.reason is StoreReason.AUTHORIZATION
    assert not renewed.drop


def test_a_visitor_with_a_cookie_does_not_take_what_was_guessed_from_others(
    ask: Ask, keep: Keep, answer: Answers, date: Dates
) -> None:
    stored = keep(f"Last-Modified: {date(-1000)}")
    renewed = renew(ask("Cookie: a=b"), stored, answer(status=304), RULES)
    assert renewed.decision.reason is StoreReason.COOKIE
    assert not renewed.drop


def test_a_cookie_of_a_304_is_for_the_client_that_asked(
    ask: Ask, keep: Keep, answer: Answers
) -> None:
    told = answer("Set-Cookie: a=b", "Set-Cookie: c=d", status=304)
    renewed = renew(ask(), keep(BRIEF, 'ETag: "a"'), told, RULES)
    assert renewed.decision.stores
    assert b"set-cookie" not in Headers(renewed.entry.fields)
    assert renewed.cookies == ((b"Set-Cookie", b"a=b"), (b"Set-Cookie", b"c=d"))
    kept = renew(ask(), keep(BRIEF, 'ETag: "a"'), told, CacheRules(set_cookie=SetCookie.KEEP))
    assert len(Headers(kept.entry.fields).all(b"set-cookie")) == 2
    assert kept.cookies == ()


def test_a_renewed_variant_stays_the_variant_it_was(ask: Ask, keep: Keep, answer: Answers) -> None:
    stored = keep(
        BRIEF, 'ETag: "a"', "Vary: Accept-Language", "Content-Language: de",
        asked=("Accept-Language: en, de",),
    )  # fmt: skip
    renewed = renew(ask("Accept-Language: de"), stored, answer(status=304), RULES)
    assert renewed.entry.variant == stored.variant
    wider = renew(
        ask("Accept-Language: de", "Foo: 1"), stored, answer("Vary: Foo", status=304), RULES
    )
    assert wider.entry.variant.selecting == ((b"foo", b"1"),)
    other = renew(ask("Accept-Language: fr"), stored, answer(status=304), RULES)
    assert other.entry.variant.selecting == ((b"accept-language", b"fr"),)


LINES = st.lists(
    st.sampled_from(
        [
            "Cache-Control: max-age=60",
            "Cache-Control: no-cache",
            "A: 1",
            "A: 2",
            "B: 1",
            "Age: 5",
            "Connection: b",
            "Content-Encoding: br",
            "Vary: Foo",
            "Content-Length: 9",
            "Date: x",
            "Set-Cookie: a=b",
            "Expires: 0",
            'ETag: W/"a"',
            "Content-Type: a/b",
        ]
    ),
    max_size=5,
)


@pytest.mark.slow
@given(LINES, LINES, st.sampled_from(list(SetCookie)))
@settings(max_examples=120)
def test_renewing_twice_with_one_answer_is_renewing_once(
    ask: Ask, keep: Keep, answer: Answers, old: list[str], new: list[str], cookies: SetCookie
) -> None:
    rules = CacheRules(set_cookie=cookies)
    old = [line for line in old if cookies is not SetCookie.REFUSE or "Cookie" not in line]
    request, told = ask("Foo: 1"), answer(*new, status=304, at=50)
    stored = keep('ETag: "a"', *old, rules=rules)
    once = renew(request, stored, told, rules)
    assert renew(request, once.entry, told, rules) == once


@pytest.mark.parametrize(
    ("told", "status", "verdict"),
    [
        ([], 200, HeadReason.RENEWS),
        (['ETag: "a"', "Content-Length: 9"], 200, HeadReason.RENEWS),
        (['ETag: "b"'], 200, HeadReason.OUTDATES),
        (["Last-Modified: {lm}"], 200, HeadReason.OUTDATES),
        (["Content-Length: 10"], 200, HeadReason.OUTDATES),
        (["Content-Length: 10"], 410, HeadReason.SAYS_NOTHING),
        ([], 304, HeadReason.SAYS_NOTHING),
    ],
)
def test_an_answer_to_head_renews_or_outdates(
    keep: Keep, answer: Answers, date: Dates, told: list[str], status: int, verdict: HeadReason
) -> None:
    stored = keep(BRIEF, 'ETag: "a"')
    lines = [line.format(lm=date(-9)) for line in told]
    assert judge_head(stored, 9, answer(*lines, status=status)) is verdict
    assert verdict.text
    assert verdict.source == "RFC 9111 §4.3.5"


def test_an_answer_to_head_renews_like_a_304(ask: Ask, keep: Keep, answer: Answers) -> None:
    stored = keep(BRIEF, "A: 1", "B: 1")
    told = answer("Cache-Control: max-age=1000", "A: 2", at=3)
    renewed = renew(ask(method=b"HEAD"), stored, told, RULES)
    assert renewed.decision.stores
    assert renewed.entry.freshness.lifetime == 1000
    assert Headers(renewed.entry.fields).get(b"b") == b"1"
