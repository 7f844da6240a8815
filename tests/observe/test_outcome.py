"""The word and the reason of the log agree with Cache-Status, whatever it says."""

from __future__ import annotations

import pytest

from edgebox.cache.reasons import ServeReason, StoreReason
from edgebox.cache.status import Handling, cache_status
from edgebox.observe.outcome import NO_PART, member_in, outcome_of

R = ServeReason


@pytest.mark.parametrize(
    ("handling", "status", "reason"),
    [
        (Handling(R.FRESH, remaining=9), "HIT", "fresh"),
        (Handling(R.WHILE_REVALIDATE, remaining=-1), "STALE", "while-revalidate"),
        (Handling(R.MAX_STALE), "STALE", "max-stale"),
        (Handling(R.STALE_IF_ERROR, 503), "STALE", "stale-if-error"),
        (Handling(R.DISCONNECTED), "STALE", "disconnected"),
        (Handling(R.NOTHING_STORED, 200, True, False, 60), "MISS", "nothing-stored"),
        (Handling(R.NOTHING_STORED, 200, False, True, 60), "COLLAPSED", "nothing-stored"),
        (Handling(R.NOTHING_STORED, 200, why=StoreReason.PRIVATE), "MISS", "private"),
        (Handling(R.NO_VARIANT, 200), "MISS", "no-variant"),
        (Handling(R.STALE, 200), "EXPIRED", "stale"),
        (Handling(R.STALE, 304, True), "REVALIDATED", "stale"),
        (Handling(R.MUST_REVALIDATE, 304), "REVALIDATED", "must-revalidate"),
        (Handling(R.REQUEST_NO_CACHE, 200), "BYPASS", "request-no-cache"),
        (Handling(R.REQUEST_NO_CACHE, 304), "REVALIDATED", "request-no-cache"),
        (Handling(R.METHOD, 201), "BYPASS", "method"),
        (Handling(R.OPERATOR_OFF, 304), "BYPASS", "operator-off"),
        (Handling(R.OPERATOR_BYPASS, 200), "BYPASS", "operator-bypass"),
        (Handling(R.ONLY_IF_CACHED), "MISS", "only-if-cached"),
    ],
)
def test_words_and_reasons(handling: Handling, status: str, reason: str) -> None:
    assert outcome_of(cache_status(b"box", handling)) == (status, reason)


@pytest.mark.parametrize("reason", ServeReason)
def test_every_reason_is_told(reason: ServeReason) -> None:
    for forward_status in (None, 200, 304, 503):
        outcome = outcome_of(cache_status(b"box", Handling(reason, forward_status)))
        assert outcome.reason == reason.key
        assert outcome.status


def test_no_member_no_part() -> None:
    assert outcome_of(b"") == NO_PART
    assert member_in((("A", b"b"),)) == b""  # type: ignore[arg-type]


def test_ours_is_the_last_member() -> None:
    fields = ((b"Cache-Status", b"far; hit"), (b"Cache-Status", b"box; fwd=uri-miss"))
    assert member_in((*fields, (b"X", b"y"))) == b"box; fwd=uri-miss"
