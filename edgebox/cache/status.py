"""Cache-Status: what this cache did with a request, and why (RFC 9211)."""

from __future__ import annotations

import re
from functools import lru_cache

from msgspec import Struct

from edgebox.cache.reasons import Reason, ServeReason
from edgebox.http.headers import Fields

_TOKEN = re.compile(rb"[A-Za-z*][!#$%&'*+\-.^_`|~0-9A-Za-z:/]*")
# They say no more than hit or fwd do.
_SELF_EVIDENT = frozenset({ServeReason.FRESH, ServeReason.NOTHING_STORED, ServeReason.NO_VARIANT})


class Handling(Struct, frozen=True):
    """How a request was handled.

    `forward_status` is what the upstream answered, if it was asked; `collapsed` whether
    the request shared another's fetch, None if it did not wait for one; `remaining` the
    seconds of freshness left of what is sent, where that is known; `why` a reason that
    says more than `reason` does, such as why the answer was not stored.
    """

    reason: ServeReason
    forward_status: int | None = None
    stored: bool = False
    collapsed: bool | None = None
    remaining: int | None = None
    why: Reason | None = None


def cache_status(name: bytes, handling: Handling) -> bytes:
    """One member of the list; `name` is the cache's, in any visible ASCII."""
    reason, forward = handling.reason, handling.reason.forward
    parts = [_identifier(name)]
    if forward is not None:
        parts.append(b"fwd=" + forward.encode())
        if handling.forward_status is not None:
            parts.append(b"fwd-status=%d" % handling.forward_status)
        if handling.stored:
            parts.append(b"stored")
        if handling.collapsed is not None:
            parts.append(b"collapsed" if handling.collapsed else b"collapsed=?0")
    elif reason is not ServeReason.ONLY_IF_CACHED:
        parts.append(b"hit")
    if handling.remaining is not None:
        parts.append(b"ttl=%d" % handling.remaining)
    detail = handling.why or (None if reason in _SELF_EVIDENT else reason)
    if detail is not None:
        parts.append(b"detail=" + detail.key.encode())
    return b"; ".join(parts)


def add_cache_status(fields: Fields, member: bytes) -> Fields:
    """`fields` with `member` behind what caches nearer to the origin said (RFC 9211 §2)."""
    return (*fields, (b"Cache-Status", member))


@lru_cache(maxsize=16)  # every answer asks for the same
def _identifier(name: bytes) -> bytes:
    """A token where it can be one, else a string."""
    if _TOKEN.fullmatch(name):
        return name
    return b'"%s"' % name.replace(b"\\", b"\\\\").replace(b'"', b'\\"')
