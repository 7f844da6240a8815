"""What the cache did with a request, in a word and a reason, read from Cache-Status.

    HIT          stored, and fresh
    STALE        stored, used though stale: while it is renewed, or since the upstream fails
    REVALIDATED  stored, and the upstream said that it still holds
    COLLAPSED    came with the answer to another client's request for the same
    MISS         nothing stored fitted
    EXPIRED      what was stored could not be used, and the upstream sent anew
    BYPASS       this method, this route or this client's request is not answered from the store

The member is our own, as `cache/status` writes it, so it need not be parsed as a stranger's.
"""

from __future__ import annotations

from typing import NamedTuple

from edgebox.cache.reasons import ServeReason
from edgebox.http.headers import Fields

_STALE = frozenset(
    reason.key
    for reason in (
        ServeReason.MAX_STALE,
        ServeReason.WHILE_REVALIDATE,
        ServeReason.STALE_IF_ERROR,
        ServeReason.DISCONNECTED,
    )
)
_FORWARDED = {
    "uri-miss": ("MISS", ServeReason.NOTHING_STORED),
    "vary-miss": ("MISS", ServeReason.NO_VARIANT),
    "stale": ("EXPIRED", ServeReason.STALE),
    "request": ("BYPASS", ServeReason.REQUEST_NO_CACHE),
    "method": ("BYPASS", ServeReason.METHOD),
}


class Outcome(NamedTuple):
    """Both are "" where the cache had no part in the answer."""

    status: str
    reason: str


NO_PART = Outcome("", "")


def member_in(fields: Fields) -> bytes:
    """Our member of an answer's Cache-Status, which is the last; b"" where there is none."""
    for name, value in reversed(fields):
        if name == b"Cache-Status":
            return value
    return b""


def outcome_of(member: bytes) -> Outcome:
    """What a member tells; see above for the words."""
    if not member:
        return NO_PART
    told = {}
    for part in member.decode("latin-1").split("; ")[1:]:
        name, _, value = part.partition("=")
        told[name] = value
    reason = told.get("detail", "")
    if "hit" in told:
        return Outcome("STALE" if reason in _STALE else "HIT", reason or ServeReason.FRESH.key)
    if "fwd" not in told:
        return Outcome("MISS", reason)
    status, usual = _FORWARDED.get(told["fwd"], ("BYPASS", ServeReason.OPERATOR_OFF))
    if told.get("collapsed") == "":
        status = "COLLAPSED"
    elif reason in _STALE:
        status = "STALE"
    elif told.get("fwd-status") == "304" and told["fwd"] in ("stale", "request"):
        status = "REVALIDATED"
    return Outcome(status, reason or usual.key)
