"""May an answer be stored to be used for others (RFC 9111 §3)?

A function of its arguments and nothing else: no clock, no store, no connection. The answer
bears the reason. What may be stored, the stores may still find no room for.
"""

from __future__ import annotations

from fnmatch import fnmatchcase

from msgspec import Struct

from edgebox.cache.answer import Answer
from edgebox.cache.directives import parse_request
from edgebox.cache.fields import SET_COOKIE, storable_fields
from edgebox.cache.freshness import (
    EXPLICIT,
    HEURISTICALLY_CACHEABLE,
    Basis,
    Freshness,
    assess,
    initial_age,
)
from edgebox.cache.reasons import StoreReason
from edgebox.cache.rules import CacheRules, SetCookie
from edgebox.cache.targeted import Control, select_control
from edgebox.cache.vary import vary_names
from edgebox.http.headers import OWS, Headers
from edgebox.http.message import Request

# All final statuses of RFC 9110 but 206 and 304, whose rules for caches are not followed
# when they come alone. For must-understand (RFC 9111 §5.2.2.3).
_UNDERSTOOD = frozenset(
    {200, 201, 202, 203, 204, 205, 300, 301, 302, 303, 305, 307, 308}
    | {400, 401, 402, 403, 404, 405, 406, 407, 408, 409, 410, 411, 412, 413, 414, 415, 416, 417}
    | {421, 422, 426, 500, 501, 502, 503, 504, 505}
)
# Answers to a range or a condition of one request: others ask for the same URL without it.
_NEVER_WHOLE = {
    206: StoreReason.PARTIAL,
    304: StoreReason.NOT_MODIFIED,
    412: StoreReason.CONDITION,
    416: StoreReason.CONDITION,
}
# RFC 9111 §3.5: with one of these an answer to a request with Authorization is for others too.
_FOR_ALL = frozenset((b"public", b"s-maxage", b"must-revalidate"))
_BY_BASIS = {Basis.HEURISTIC: StoreReason.HEURISTIC, Basis.OPERATOR: StoreReason.OPERATOR_FRESHNESS}


class StoreDecision(Struct, frozen=True):
    """Whether an answer may be stored, and what its fields say of its freshness.

    `freshness` is there whatever the reason: who may use it once, may want to know.
    """

    reason: StoreReason
    freshness: Freshness

    @property
    def stores(self) -> bool:
        return self.reason.stores


def may_store(request: Request, answer: Answer, rules: CacheRules) -> StoreDecision:
    """Whether `answer`, complete, may be stored to be used for others (RFC 9111 §3)."""
    control = select_control(answer.headers, rules.targets)
    guess = (
        rules.heuristic_with_cookie
        or b"cookie" not in request.headers
        or b"public" in control.directives
    )
    freshness = assess(answer, control, rules, guess)
    reason = (
        _refused_by_request(request, answer, rules)
        or _refused_by_response(request, answer, control, rules)
        or _use_of_storing(answer, control, freshness, guess)
    )
    if request.method == b"POST" and reason is not StoreReason.EXPLICIT:
        reason = StoreReason.METHOD  # RFC 9110 §9.3.3: explicit freshness or nothing
    return StoreDecision(reason, freshness)


def _refused_by_request(request: Request, answer: Answer, rules: CacheRules) -> StoreReason | None:
    if not rules.store:
        return StoreReason.OPERATOR_NO_STORE
    if bypasses(request.headers, rules):
        return StoreReason.OPERATOR_BYPASS
    if request.method != b"GET" and not _is_posted_representation(request, answer):
        return StoreReason.METHOD
    if request.method == b"GET" and _has_content(request.headers):
        return StoreReason.REQUEST_CONTENT
    if rules.request_directives and b"no-store" in parse_request(request.headers):
        return StoreReason.REQUEST_NO_STORE
    return None


def _refused_by_response(
    request: Request, answer: Answer, control: Control, rules: CacheRules
) -> StoreReason | None:
    directives, headers = control.directives, answer.headers
    if answer.status < 200:
        return StoreReason.NOT_FINAL
    if answer.status in _NEVER_WHOLE:
        return _NEVER_WHOLE[answer.status]
    if b"must-understand" in directives:
        if answer.status not in _UNDERSTOOD:
            return StoreReason.NOT_UNDERSTOOD
    elif b"no-store" in directives:
        return StoreReason.NO_STORE
    if directives.covers_all(b"private"):
        return StoreReason.PRIVATE
    if b"authorization" in request.headers and not directives.has_any(_FOR_ALL):
        return StoreReason.AUTHORIZATION
    if vary_names(headers) is None:
        return StoreReason.VARY_ANYTHING
    if rules.set_cookie is SetCookie.REFUSE and any(
        name.lower() == SET_COOKIE
        for name, _ in storable_fields(headers, control, rules.set_cookie)
    ):
        return StoreReason.SET_COOKIE
    return None


def _use_of_storing(
    answer: Answer, control: Control, freshness: Freshness, guess: bool
) -> StoreReason:
    """What a response that may be stored would be good for, if anything."""
    basis = freshness.basis
    stated = basis in EXPLICIT or b"public" in control.directives
    if not stated and answer.status not in HEURISTICALLY_CACHEABLE:
        return StoreReason.STATUS_NEEDS_FRESHNESS
    if freshness.lifetime > initial_age(answer) and not freshness.ask_always:
        return _BY_BASIS.get(basis, StoreReason.EXPLICIT)
    dated = answer.date_in(b"last-modified") is not None
    if dated and basis is Basis.NONE and not guess and b"etag" not in answer.headers:
        # A date is a poor judge of pages made for one visitor each.
        return StoreReason.COOKIE
    if dated or b"etag" in answer.headers:
        return StoreReason.TO_REVALIDATE
    if basis is Basis.NONE:
        return StoreReason.NO_FRESHNESS
    if freshness.while_revalidate or freshness.if_error:
        return _BY_BASIS.get(basis, StoreReason.EXPLICIT)
    return StoreReason.STALE_ON_ARRIVAL


def _has_content(headers: Headers) -> bool:
    """Content that the key does not cover may yet have made the answer (RFC 9110 §9.3.1)."""
    return b"transfer-encoding" in headers or headers.get(b"content-length") not in (None, b"0")


def _is_posted_representation(request: Request, answer: Answer) -> bool:
    """A POST answered with what a GET of the same URL would give (RFC 9110 §9.3.3)."""
    if request.method != b"POST" or answer.status != 200:
        return False
    target = request.target
    path = target.path_and_query
    authority = target.authority or request.headers.get(b"host") or request.host
    own = {path, *(b"%s://%s%s" % (s, authority, path) for s in (b"http", b"https"))}
    return answer.headers.get(b"content-location") in own


def bypasses(headers: Headers, rules: CacheRules) -> bool:
    """Whether a cookie that the operator named keeps this request away from the cache."""
    if not rules.bypass_cookies:
        return False
    pairs = [pair for line in headers.all(b"cookie") for pair in line.split(b";")]
    names = {pair.partition(b"=")[0].strip(OWS) for pair in pairs}
    return any(fnmatchcase(name, pattern) for name in names for pattern in rules.bypass_cookies)
