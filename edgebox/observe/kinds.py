"""Which way an answer went, in the four words that metrics and the status page use.

    hit    from the cache, fresh
    stale  from the cache, though stale: while it is renewed, or since the upstream fails
    miss   the upstream was asked
    file   from a file, or made up here: a redirect, a 404

Failures of our own (a 502, a 503) are none of these.
"""

from __future__ import annotations

from edgebox.cache.reasons import ServeReason
from edgebox.http.message import Response

KINDS = ("hit", "miss", "stale", "file")

_KEPT = {
    ServeReason.FRESH: "hit",
    ServeReason.MAX_STALE: "stale",
    ServeReason.WHILE_REVALIDATE: "stale",
    ServeReason.STALE_IF_ERROR: "stale",
    ServeReason.DISCONNECTED: "stale",
}
_BY_LABEL = {reason.key: _KEPT.get(reason, "miss") for reason in ServeReason}


def kind_of(response: Response) -> str:
    """One of KINDS; "" for a failure."""
    if response.label == "-":
        return "file" if response.status < 500 else ""
    return _BY_LABEL.get(response.label, "miss")
