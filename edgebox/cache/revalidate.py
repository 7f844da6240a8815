"""Asking the upstream whether what is stored still holds, and what its answer changes.

Conditional requests (RFC 9111 §4.3.1), the choice of what a 304 renews (§4.3.4), the
renewed record (§3.2), and what an answer to HEAD says of a stored GET (§4.3.5). Only
records change here; octets never do.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct, structs
from msgspec.structs import replace

from edgebox.cache.answer import Answer
from edgebox.cache.entry import StoredResponse, describe, with_date
from edgebox.cache.fields import SET_COOKIE, renew_fields, storable_fields
from edgebox.cache.reasons import Cause, HeadReason
from edgebox.cache.rules import CacheRules, SetCookie
from edgebox.cache.storing import StoreDecision, may_store
from edgebox.cache.targeted import select_control
from edgebox.cache.vary import fits, vary_names
from edgebox.http.headers import Field, Fields, Headers
from edgebox.http.message import Request

# A client's own conditions and ranges are met from the outcome; the upstream gets ours.
CONDITIONS = frozenset(
    {b"if-match", b"if-none-match", b"if-modified-since", b"if-unmodified-since"}
    | {b"if-range", b"range"}
)
MOST_TAGS = 8  # in one If-None-Match; a field of a kilobyte or so


def validation_fields(asked: Headers, candidates: Sequence[StoredResponse]) -> Fields | None:
    """The fields of a request that asks whether one of `candidates` still holds.

    `asked` are the client's fields, whose conditions and ranges are left out. With one
    candidate its Last-Modified goes along. Several are variants that the client could use
    if the upstream said so: none in a coding that it cannot decode, for there are servers
    that give all codings one tag. None if no candidate has a validator.
    """
    tags = list(dict.fromkeys(c.etag for c in candidates if c.etag is not None))[:MOST_TAGS]
    conditions: list[Field] = [(b"If-None-Match", b", ".join(tags))] if tags else []
    if len(candidates) == 1 and (modified := candidates[0].last_modified) is not None:
        conditions.append((b"If-Modified-Since", modified))
    if not conditions:
        return None
    return (*(field for field in asked if field[0].lower() not in CONDITIONS), *conditions)


def select_renewed(answered: Headers, candidates: Sequence[StoredResponse]) -> tuple[int, ...]:
    """Indices of the candidates that a 304 is about; none: ask again, without conditions.

    Tags are compared weakly, as If-None-Match compares them: servers that compress on the
    way out send W/"a" with a 200 and "a" with its 304. A strong tag renews all that bear
    it, any other the most recent. A 304 without validators, which is against RFC 9110
    §15.4.5 but common, is taken to be about the only response it can be about.
    """
    tag = next(iter(answered.all(b"etag")), None)
    modified = next(iter(answered.all(b"last-modified")), None)
    if tag is not None:
        if not tag.startswith(b"W/"):
            same = tuple(i for i, c in enumerate(candidates) if c.etag == tag)
            if same:
                return same
        found = [i for i, c in enumerate(candidates) if c.etag and _opaque(c.etag) == _opaque(tag)]
    elif modified is not None:
        found = [i for i, c in enumerate(candidates) if c.last_modified == modified]
    else:
        found = [0] if len(candidates) == 1 else []
    return (max(found, key=lambda i: candidates[i].date),) if found else ()


class Renewed(Struct, frozen=True):
    """A stored response after a 304 or an answer to HEAD.

    `entry` is what to answer with. `decision` says whether it may replace the stored one;
    if not, `drop` tells whether the stored one must go. `cookies` are for the client whose
    request it was, and for no other.
    """

    entry: StoredResponse
    decision: StoreDecision
    cookies: Fields = ()

    @property
    def drop(self) -> bool:
        """A refusal on the request's account leaves what is stored as it was."""
        return not self.decision.stores and self.decision.reason.cause is not Cause.REQUEST


def renew(request: Request, stored: StoredResponse, answer: Answer, rules: CacheRules) -> Renewed:
    """`stored` with the fields of `answer`, its age and its freshness (RFC 9111 §3.2, §4.3.4).

    Decided anew as a whole: a 304 may say private, or a Vary that was not there before.
    """
    own = answer.headers
    newer = storable_fields(own, select_control(own, rules.targets), rules.set_cookie)
    cookies: Fields = ()
    if rules.set_cookie is not SetCookie.KEEP:
        cookies = tuple(field for field in own if field[0].lower() == SET_COOKIE)
        newer = tuple(field for field in newer if field[0].lower() != SET_COOKIE)
    tag = next(iter(own.all(b"etag")), None)
    keep_etag = bool(tag and stored.etag and _opaque(tag) == _opaque(stored.etag))
    merged = renew_fields(stored.fields, with_date(newer, answer), keep_etag)
    age = [(b"Age", value) for value in own.all(b"age")]  # the older age went with the older head
    whole = replace(answer, status=stored.status, headers=Headers((*merged, *age)))
    decision = may_store(replace(request, method=b"GET"), whole, rules)
    entry = describe(request.headers, whole, decision.freshness, rules)
    return Renewed(_keep_variant(entry, stored, request), decision, cookies)


def judge_head(stored: StoredResponse, length: int | None, answer: Answer) -> HeadReason:
    """What an answer to HEAD says of a stored GET of `length` octets (RFC 9111 §4.3.5).

    RENEWS: `renew` it. OUTDATES: `invalidated()`. Only validators that came count.
    """
    if answer.status != 200 or stored.status != 200:
        return HeadReason.SAYS_NOTHING
    told = ((b"etag", stored.etag), (b"last-modified", stored.last_modified))
    if any(answer.headers.all(name)[:1] not in ([], [kept]) for name, kept in told):
        return HeadReason.OUTDATES
    lengths = answer.headers.all(b"content-length")
    if lengths and length is not None and lengths[0] != b"%d" % length:
        return HeadReason.OUTDATES
    return HeadReason.RENEWS


def _keep_variant(
    entry: StoredResponse, stored: StoredResponse, request: Request
) -> StoredResponse:
    """The variant stays the one it was if the request fits it and Vary names the same.

    A request in another spelling must not make a second variant of it.
    """
    names = tuple(name for name, _ in stored.variant.selecting)
    if vary_names(Headers(entry.fields)) != names or not fits(stored.variant, request.headers):
        return entry
    return structs.replace(entry, variant=stored.variant)


def _opaque(tag: bytes) -> bytes:
    return tag.removeprefix(b"W/")
