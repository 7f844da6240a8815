"""What an answer to an unsafe request makes invalid (RFC 9111 §4.4, RFC 9875 §3)."""

from __future__ import annotations

from msgspec import Struct

from edgebox.cache.answer import Answer
from edgebox.cache.key import primary_key, related_key
from edgebox.cache.rules import KeyRules
from edgebox.cache.tags import parse_invalidated_groups
from edgebox.http.message import Request

# RFC 9110 §9.2.1 and the registry of methods. One that is not known here is taken to be
# unsafe, as RFC 9111 §4.4 has it.
_SAFE = frozenset(
    {b"GET", b"HEAD", b"OPTIONS", b"TRACE", b"PROPFIND", b"REPORT", b"SEARCH", b"QUERY", b"PRI"}
)


class Invalidation(Struct, frozen=True):
    """`keys`: all variants stored under them. `groups`: what is in one of them, and of the
    same origin as the request."""

    keys: tuple[bytes, ...] = ()
    groups: tuple[bytes, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.keys or self.groups)


def is_safe(method: bytes) -> bool:
    return method in _SAFE


def find_invalidated(request: Request, answer: Answer, rules: KeyRules) -> Invalidation:
    """What to mark invalid, or drop, before the answer goes out.

    Nothing for safe methods and for errors. Location and Content-Location count where they
    name the same origin, so that no site can clear another's.
    """
    if is_safe(request.method) or not 200 <= answer.status < 400:
        return Invalidation()
    named = [
        related_key(request, reference, rules)
        for name in (b"location", b"content-location")
        for reference in answer.headers.all(name)[:1]
    ]
    keys = dict.fromkeys(key for key in (primary_key(request, rules), *named) if key is not None)
    return Invalidation(tuple(keys), parse_invalidated_groups(answer.headers))
