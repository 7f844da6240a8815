"""Why a URL is answered as it is: what is stored, what was decided, and by which rule. Pure.

For operators, so in words and whole seconds; the JSON of the EXPLAIN method and of
`edgebox explain`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from edgebox.cache.answer import Answer, Instant
from edgebox.cache.entry import StoredResponse
from edgebox.cache.freshness import Freshness, initial_age
from edgebox.cache.reasons import Reason
from edgebox.cache.rules import CacheRules
from edgebox.cache.serving import ServeDecision
from edgebox.cache.storing import may_store
from edgebox.cache.tags import parse_groups, parse_tags
from edgebox.cache.targeted import select_control
from edgebox.cache.vary import vary_names
from edgebox.http.dates import format_date
from edgebox.http.message import Request

Told = dict[str, object]


class Exhibit(NamedTuple):
    """A stored variant: `place` is "ram" or "disk", `coded` what it was coded to, in octets."""

    entry: StoredResponse
    size: int
    place: str
    coded: dict[str, int]


def explain_stored(
    variants: Sequence[Exhibit], chosen: int | None, decision: ServeDecision, now: Instant
) -> Told:
    """What would become of a request now; `chosen` is the variant that fits it."""
    return {
        "stored": len(variants),
        "decision": {"serve": decision.serve.value, **_reason(decision.reason)},
        "variants": [
            {"chosen": number == chosen, **_variant(variant, now)}
            for number, variant in enumerate(variants)
        ],
    }


def explain_answer(request: Request, answer: Answer, rules: CacheRules) -> Told:
    """What would become of an upstream's answer: whether it is stored, why, for how long."""
    decision = may_store(request, answer, rules)
    control = select_control(answer.headers, rules.targets)
    vary = vary_names(answer.headers)
    age = initial_age(answer)
    fresh_for = max(0, int(decision.freshness.lifetime - age))
    return {
        "status": answer.status,
        "stores": decision.stores,
        **_reason(decision.reason),
        "obeys": control.field.decode(),
        **_freshness(decision.freshness),
        "age": int(age),
        "fresh_for": fresh_for,
        "fresh_until": format_date(int(answer.received.wall) + fresh_for).decode(),
        "vary": ["*"] if vary is None else [name.decode() for name in vary],
        "tags": _words(parse_tags(answer.headers)),
        "groups": _words(parse_groups(answer.headers)),
    }


def _variant(variant: Exhibit, now: Instant) -> Told:
    entry = variant.entry
    remaining = int(entry.remaining(now))
    return {
        "status": entry.status,
        "size": variant.size,
        "place": variant.place,
        "coded": variant.coded,
        "selected_by": {
            name.decode(): None if value is None else value.decode("latin-1")
            for name, value in entry.variant.selecting
        },
        "age": int(entry.age(now)),
        **_freshness(entry.freshness),
        "remaining": remaining,
        "fresh_until": format_date(int(now.wall) + remaining).decode(),
        "invalidated": entry.invalid,
        "etag": _text(entry.etag),
        "last_modified": _text(entry.last_modified),
        "tags": _words(entry.tags),
        "groups": _words(entry.groups),
    }


def _freshness(freshness: Freshness) -> Told:
    return {
        "lifetime": freshness.lifetime,
        "lifetime_from": freshness.basis.value,
        "asks_always": freshness.ask_always,
        "never_stale": freshness.must_revalidate,
        "stale_while_revalidate": freshness.while_revalidate,
        "stale_if_error": freshness.if_error,
        "stale_if_unreachable": freshness.if_unreachable,
    }


def _reason(reason: Reason) -> Told:
    return {"reason": reason.key, "text": reason.text, "source": reason.source}


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode("latin-1")


def _words(values: Sequence[bytes]) -> list[str]:
    return [value.decode("latin-1") for value in values]
