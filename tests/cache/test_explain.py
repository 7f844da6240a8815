"""Explanations say what is stored and what was decided, with the rule that asks for it."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from edgebox.cache.answer import Answer, Instant
from edgebox.cache.entry import StoredResponse
from edgebox.cache.explain import Exhibit, explain_answer, explain_stored
from edgebox.cache.reasons import ServeReason
from edgebox.cache.rules import CacheRules
from edgebox.cache.serving import may_serve
from edgebox.http.message import Request

Keep = Callable[..., StoredResponse]
Later = Callable[..., Instant]
RULES = CacheRules()


def test_a_stored_answer_is_told_with_its_age_its_end_and_the_rule(
    keep: Keep, later: Later, ask: Callable[..., Request], date: Callable[[int], str]
) -> None:
    entry = keep(
        "Cache-Control: max-age=100, stale-if-error=9", 'ETag: "1"', "Age: 5",
        "Vary: Accept-Language", "Surrogate-Key: a b", asked=("Accept-Language: de",),
    )  # fmt: skip
    now = later(10)
    decision = may_serve(ask("Accept-Language: de"), entry, RULES, now)
    told = explain_stored([Exhibit(entry, 42, "ram", {"br": 20})], 0, decision, now)
    assert told["stored"] == 1
    assert told["decision"] == {
        "serve": "fresh", "reason": "fresh", "text": ServeReason.FRESH.text,
        "source": "RFC 9111 §4.2",
    }  # fmt: skip
    (variant,) = told["variants"]
    assert variant["chosen"] is True
    assert variant["selected_by"] == {"accept-language": "de"}
    assert (variant["age"], variant["remaining"], variant["lifetime"]) == (15, 85, 100)
    assert variant["fresh_until"] == date(95)
    assert variant["lifetime_from"] == "max-age"
    assert (variant["tags"], variant["coded"], variant["size"]) == (["a", "b"], {"br": 20}, 42)
    msgspec.json.encode(told)


def test_nothing_stored_is_told_as_such(ask: Callable[..., Request], later: Later) -> None:
    decision = may_serve(ask(), ServeReason.NOTHING_STORED, RULES, later())
    told = explain_stored([], None, decision, later())
    assert told["variants"] == []
    assert told["decision"]["reason"] == "nothing-stored"


def test_an_answer_is_told_with_what_becomes_of_it(
    ask: Callable[..., Request], answer: Callable[..., Answer]
) -> None:
    told = explain_answer(
        ask(), answer("Cache-Control: s-maxage=60", "Age: 10", "Vary: Cookie, *"), RULES
    )
    assert (told["stores"], told["reason"]) == (False, "vary-anything")
    assert told["source"] == "RFC 9111 §4.1"
    assert told["vary"] == ["*"]
    told = explain_answer(ask(), answer("CDN-Cache-Control: max-age=60", "Age: 10"), RULES)
    assert (told["stores"], told["obeys"]) == (True, "cdn-cache-control")
    assert (told["lifetime"], told["age"], told["fresh_for"]) == (60, 10, 50)
    msgspec.json.encode(told)
