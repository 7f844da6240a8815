"""Whether a request that failed is tried once more. A decision alone.

To connect is no request: a server that cannot be reached is passed over for the next. A
request that went out is sent again only if it cannot do anything twice: it is idempotent,
or not an octet of it left; and no octet of an answer came (RFC 9110 §9.2.2, RFC 9112 §9.3.1).
A server that took too long is not asked again, nor is another: the load would double just
when there is too much of it.
"""

from __future__ import annotations

from enum import Enum

from edgebox.upstream.errors import Reason, UpstreamError
from edgebox.upstream.outgoing import IDEMPOTENT

_NOT_REACHED = frozenset({Reason.CONNECT_FAILED, Reason.CONNECT_TIMEOUT, Reason.TLS_FAILED})


class Retry(Enum):
    """What to do next."""

    GIVE_UP = "tell the client"
    AGAIN = "the connection had grown old: send it again on a new one"
    ELSEWHERE = "send it again, to another server if there is one"
    NEXT = "this server cannot be reached: ask the next, if there is one"


def judge(error: UpstreamError, method: bytes, reused: bool, left: int) -> Retry:
    """What follows from `error`; `left`: how often the request may still be sent again.

    `reused`: the connection had served before.
    """
    if error.reason in _NOT_REACHED:
        return Retry.NEXT
    if error.reason is not Reason.RESET or not error.unanswered or not error.resendable:
        return Retry.GIVE_UP
    if left < 1 or not (error.unsent or method in IDEMPOTENT):
        return Retry.GIVE_UP
    return Retry.AGAIN if reused else Retry.ELSEWHERE
