"""Why a response is kept, used or passed over: one member for each way it can go.

A decision of this room is a member, never a bare bool, so that Cache-Status, the log and
`edgebox explain` can all say the same thing. `.text` is a sentence for the operator,
`.source` the section that asks for it, `.key` the short form for fields and logs.
Nothing here decides.
"""

from __future__ import annotations

from enum import Enum
from typing import Any, NamedTuple


class Cause(Enum):
    """Whose doing it is: the same answer to somebody else's request might go otherwise."""

    REQUEST = "request"
    RESPONSE = "response"
    OPERATOR = "operator"


class Reason(Enum):
    """What all reasons offer.

    Plain attributes, told apart once: each request asks for some of them, and `.value` of an
    enumeration is a call.
    """

    key: str
    text: str
    source: str

    def __init__(self, *value: object) -> None:
        self.key = self._name_.lower().replace("_", "-")
        told: Any = self.value
        vars(self).update(told._asdict())


class _Store(NamedTuple):
    stores: bool
    cause: Cause
    text: str
    source: str


class StoreReason(Reason):
    """Why an answer of the upstream is stored, or is not.

    `cause` REQUEST: another client's request for the same thing may well be stored, so the key
    must not be remembered as uncacheable.
    """

    stores: bool
    cause: Cause

    EXPLICIT = _Store(
        True, Cause.RESPONSE, "the response says how long it stays fresh", "RFC 9111 §4.2.1"
    )
    HEURISTIC = _Store(
        True, Cause.RESPONSE, "freshness is guessed from Last-Modified", "RFC 9111 §4.2.2"
    )
    OPERATOR_FRESHNESS = _Store(
        True, Cause.OPERATOR, "the default freshness of this route applies", "edgebox.toml"
    )
    TO_REVALIDATE = _Store(
        True, Cause.RESPONSE, "kept for its validator: each use asks first", "RFC 9111 §4.3"
    )

    METHOD = _Store(False, Cause.REQUEST, "answers to this method are not stored", "RFC 9111 §3")
    NOT_FINAL = _Store(False, Cause.RESPONSE, "an interim response is not stored", "RFC 9111 §3")
    PARTIAL = _Store(False, Cause.REQUEST, "a part is not stored as the whole", "RFC 9111 §3.3")
    NOT_MODIFIED = _Store(
        False, Cause.REQUEST, "a 304 renews what is stored and is nothing by itself", "RFC 9111 §3"
    )
    REQUEST_CONTENT = _Store(
        False, Cause.REQUEST, "the request had content, which no key covers", "RFC 9110 §9.3.1"
    )
    REQUEST_NO_STORE = _Store(
        False, Cause.REQUEST, "the request said no-store", "RFC 9111 §5.2.1.5"
    )
    AUTHORIZATION = _Store(
        False, Cause.REQUEST, "the request carried Authorization, and the response does not "
        "say public, s-maxage or must-revalidate", "RFC 9111 §3.5",
    )  # fmt: skip
    COOKIE = _Store(
        False, Cause.REQUEST, "the request carried a Cookie, and the response says nothing "
        "of freshness", "RFC 9111 §4.2.2",
    )  # fmt: skip
    CONDITION = _Store(
        False, Cause.REQUEST, "412 and 416 answer a condition or a range, not the URL",
        "RFC 9110 §15.5.13",
    )  # fmt: skip
    NO_STORE = _Store(False, Cause.RESPONSE, "the response says no-store", "RFC 9111 §5.2.2.5")
    PRIVATE = _Store(False, Cause.RESPONSE, "the response says private", "RFC 9111 §5.2.2.7")
    NOT_UNDERSTOOD = _Store(
        False, Cause.RESPONSE, "must-understand, and the status is not known", "RFC 9111 §5.2.2.3"
    )
    SET_COOKIE = _Store(False, Cause.RESPONSE, "the response sets a cookie", "RFC 9111 §7.3")
    VARY_ANYTHING = _Store(
        False, Cause.RESPONSE, "Vary: * says that no request is like another", "RFC 9111 §4.1"
    )
    STATUS_NEEDS_FRESHNESS = _Store(
        False, Cause.RESPONSE, "this status is stored only with explicit freshness", "RFC 9111 §3"
    )
    NO_FRESHNESS = _Store(
        False, Cause.RESPONSE, "neither freshness nor a validator is given", "RFC 9111 §3"
    )
    STALE_ON_ARRIVAL = _Store(
        False, Cause.RESPONSE, "stale already, and without a validator", "RFC 9111 §4.2.1"
    )
    OPERATOR_NO_STORE = _Store(
        False, Cause.OPERATOR, "this route is set not to store", "edgebox.toml"
    )
    TOO_LARGE = _Store(False, Cause.OPERATOR, "larger than this cache takes", "edgebox.toml")
    OPERATOR_BYPASS = _Store(
        False, Cause.REQUEST, "a cookie of the request bypasses the cache", "edgebox.toml"
    )


class _Serve(NamedTuple):
    forward: str | None
    text: str
    source: str


class ServeReason(Reason):
    """Why a request is answered from the store, or goes forward.

    `forward`: the `fwd` value of RFC 9211 §2.2; None where the request did not go forward.
    """

    forward: str | None

    FRESH = _Serve(None, "the stored response is fresh", "RFC 9111 §4.2")
    MAX_STALE = _Serve(None, "stale, but the request's max-stale accepts it", "RFC 9111 §5.2.1.2")
    WHILE_REVALIDATE = _Serve(None, "stale, but within stale-while-revalidate", "RFC 5861 §3")

    NOTHING_STORED = _Serve("uri-miss", "nothing is stored for this URL", "RFC 9111 §4")
    NO_VARIANT = _Serve(
        "vary-miss", "no stored variant fits this request's headers", "RFC 9111 §4.1"
    )
    STALE = _Serve("stale", "the stored response is stale", "RFC 9111 §4.2.4")
    MUST_REVALIDATE = _Serve(
        "stale",
        "stale, and must-revalidate, proxy-revalidate or s-maxage forbids to use it so",
        "RFC 9111 §5.2.2.2",
    )
    NO_CACHE = _Serve(
        "stale", "the response says no-cache: each use asks first", "RFC 9111 §5.2.2.4"
    )
    INVALIDATED = _Serve("stale", "invalidated by an unsafe request", "RFC 9111 §4.4")
    REQUEST_NO_CACHE = _Serve("request", "the request said no-cache", "RFC 9111 §5.2.1.4")
    REQUEST_MAX_AGE = _Serve(
        "request", "older than the request's max-age allows", "RFC 9111 §5.2.1.1"
    )
    REQUEST_MIN_FRESH = _Serve(
        "request", "not fresh for as long as the request's min-fresh asks", "RFC 9111 §5.2.1.3"
    )
    METHOD = _Serve("method", "this method is not answered from the store", "RFC 9111 §4")
    CONTENT = _Serve("bypass", "the request has content, which no key covers", "RFC 9110 §9.3.1")
    OPERATOR_OFF = _Serve("bypass", "this route is set not to cache", "edgebox.toml")
    OPERATOR_BYPASS = _Serve("bypass", "a cookie of the request bypasses the cache", "edgebox.toml")

    ONLY_IF_CACHED = _Serve(
        None, "only-if-cached, and nothing stored may be used", "RFC 9111 §5.2.1.7"
    )
    STALE_IF_ERROR = _Serve(
        "stale", "stale, but the upstream failed and stale-if-error allows it", "RFC 5861 §4"
    )
    DISCONNECTED = _Serve("stale", "stale, but the upstream cannot be reached", "RFC 9111 §4.2.4")
    TOO_STALE = _Serve(
        "stale", "the upstream failed, and the stored response is too stale", "RFC 9111 §4.2.4"
    )


class _Told(NamedTuple):
    text: str
    source: str


class HeadReason(Reason):
    """What an answer to HEAD says of a stored GET."""

    RENEWS = _Told("HEAD found what is stored unchanged", "RFC 9111 §4.3.5")
    OUTDATES = _Told("HEAD found another representation than is stored", "RFC 9111 §4.3.5")
    SAYS_NOTHING = _Told("HEAD was not answered 200", "RFC 9111 §4.3.5")
