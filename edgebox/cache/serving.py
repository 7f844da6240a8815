"""May what is stored be used for a request (RFC 9111 §4, RFC 5861)?

Two questions: when a request comes, and when the upstream was asked and failed. Functions
of their arguments and nothing else; the answers bear the reason. Ranges and preconditions
are not asked about here: they change what is sent of a response, not whether it may be used.
"""

from __future__ import annotations

import math
from enum import Enum

from msgspec import Struct

from edgebox.cache.answer import Instant
from edgebox.cache.directives import Directives, parse_request
from edgebox.cache.entry import StoredResponse
from edgebox.cache.reasons import ServeReason
from edgebox.cache.rules import CacheRules
from edgebox.cache.storing import bypasses
from edgebox.http.message import Request

_RETRIEVALS = (b"GET", b"HEAD")
# RFC 9111 §4.2.4: no failure of the upstream makes up for the word of either side.
_NEVER_STALE = frozenset(
    {ServeReason.INVALIDATED, ServeReason.NO_CACHE, ServeReason.REQUEST_NO_CACHE}
    | {ServeReason.MUST_REVALIDATE}
)


class Serve(Enum):
    """What to do with a request."""

    FRESH = "fresh"  # send what is stored
    STALE = "stale"  # send what is stored, though stale
    STALE_AND_REFRESH = "stale-and-refresh"  # likewise, and ask the upstream meanwhile
    REVALIDATE = "revalidate"  # ask the upstream whether what is stored still holds
    MISS = "miss"  # ask the upstream; nothing stored can help
    REFUSE = "refuse"  # 504, without asking the upstream
    PASS_ON = "pass-on"  # the upstream's failure is the answer; 504 if it gave none


class ServeDecision(Struct, frozen=True):
    """`remaining`: whole seconds until what is stored gets stale, negative since it did."""

    serve: Serve
    reason: ServeReason
    remaining: int | None = None

    @property
    def sends_stored(self) -> bool:
        return self.serve in (Serve.FRESH, Serve.STALE, Serve.STALE_AND_REFRESH)


def may_serve(
    request: Request, found: StoredResponse | ServeReason, rules: CacheRules, now: Instant
) -> ServeDecision:
    """How to answer a request (RFC 9111 §4).

    `found` is the stored variant that fits it, or why there is none: NOTHING_STORED or
    NO_VARIANT. For only-if-cached a refusal takes the place of asking the upstream.
    """
    if request.method not in _RETRIEVALS:
        return ServeDecision(Serve.MISS, ServeReason.METHOD)
    if bypasses(request.headers, rules):
        return ServeDecision(Serve.MISS, ServeReason.OPERATOR_BYPASS)
    asked = parse_request(request.headers) if rules.request_directives else Directives({})
    if isinstance(found, ServeReason):
        decision = ServeDecision(Serve.MISS, found)
    else:
        decision = _judge(asked, found, now)
    if b"only-if-cached" in asked and not decision.sends_stored:
        return ServeDecision(Serve.REFUSE, ServeReason.ONLY_IF_CACHED, decision.remaining)
    return decision


def _judge(asked: Directives, stored: StoredResponse, now: Instant) -> ServeDecision:
    freshness, remaining = stored.freshness, stored.remaining(now)

    def decide(serve: Serve, reason: ServeReason) -> ServeDecision:
        return ServeDecision(serve, reason, math.floor(remaining))

    if stored.invalid:
        return decide(Serve.REVALIDATE, ServeReason.INVALIDATED)
    if freshness.ask_always:
        return decide(Serve.REVALIDATE, ServeReason.NO_CACHE)
    if b"no-cache" in asked:
        return decide(Serve.REVALIDATE, ServeReason.REQUEST_NO_CACHE)
    most = asked.seconds(b"max-age")
    if most is not None and stored.age(now) > most:
        return decide(Serve.REVALIDATE, ServeReason.REQUEST_MAX_AGE)
    if remaining > 0:
        if remaining < (asked.seconds(b"min-fresh") or 0):
            return decide(Serve.REVALIDATE, ServeReason.REQUEST_MIN_FRESH)
        return decide(Serve.FRESH, ServeReason.FRESH)
    if freshness.must_revalidate:
        return decide(Serve.REVALIDATE, ServeReason.MUST_REVALIDATE)
    accepted = asked.max_stale()
    if accepted is not None and -remaining <= accepted:
        return decide(Serve.STALE, ServeReason.MAX_STALE)
    if freshness.while_revalidate and -remaining <= freshness.while_revalidate:
        return decide(Serve.STALE_AND_REFRESH, ServeReason.WHILE_REVALIDATE)
    return decide(Serve.REVALIDATE, ServeReason.STALE)


class Failure(Enum):
    """How the upstream failed to answer for a stored response."""

    UNREACHABLE = "unreachable"  # no connection, no head, or no head in time
    ERROR = "error"  # it answered 500, 502, 503 or 504


def failure_of(status: int) -> Failure | None:
    """The failure that a status is (RFC 5861 §4), if it is one."""
    return Failure.ERROR if status in (500, 502, 503, 504) else None


def may_serve_stale(
    first: ServeDecision, stored: StoredResponse, failure: Failure, now: Instant
) -> ServeDecision:
    """What to do when the upstream was asked about `stored` and failed: send it, or PASS_ON.

    `first` is the decision that led to asking. Only a REVALIDATE can end in a stale
    answer: what is not fit for the request's method or headers stays unfit.
    """
    freshness, remaining = stored.freshness, stored.remaining(now)

    def decide(serve: Serve, reason: ServeReason) -> ServeDecision:
        return ServeDecision(serve, reason, math.floor(remaining))

    if first.serve is not Serve.REVALIDATE or first.reason in _NEVER_STALE:
        return decide(Serve.PASS_ON, first.reason)
    if remaining > 0:  # only the client wished it fresher
        return decide(Serve.FRESH, ServeReason.FRESH)
    window, reason = freshness.if_error, ServeReason.STALE_IF_ERROR
    if failure is Failure.UNREACHABLE and freshness.if_unreachable > window:
        window, reason = freshness.if_unreachable, ServeReason.DISCONNECTED
    if window and -remaining <= window:
        return decide(Serve.STALE, reason)
    return decide(Serve.PASS_ON, ServeReason.TOO_STALE)
