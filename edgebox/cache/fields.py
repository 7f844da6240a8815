"""Which fields of an answer are stored (RFC 9111 §3.1), and which a later one renews (§3.2)."""

from __future__ import annotations

from edgebox.cache.rules import SetCookie
from edgebox.cache.targeted import Control
from edgebox.http.headers import Fields, Headers

# They concern one connection (RFC 9110 §7.6.1) or one proxy (RFC 9111 §3.1).
_ONE_HOP = frozenset(
    {b"connection", b"keep-alive", b"proxy-connection", b"te", b"trailer", b"transfer-encoding"}
    | {b"upgrade", b"proxy-authenticate", b"proxy-authentication-info", b"proxy-authorization"}
)
# The length is that of the octets held, Age is reckoned anew for each use.
_RECKONED = frozenset({b"content-length", b"age"})
SET_COOKIE = b"set-cookie"
# The octets held are in the coding and the range that they came in; a 304 cannot recode them.
_BOUND_TO_OCTETS = frozenset({b"content-encoding", b"content-range"})


def storable_fields(headers: Headers, control: Control, cookies: SetCookie) -> Fields:
    """The fields to store, in order: all but those of one hop, those that the response
    itself reserves (`private="…"`, `no-cache="…"`), and cookies where they are stripped."""
    reserved = {*_ONE_HOP, *_RECKONED, *headers.tokens(b"connection")}
    for directive in (b"private", b"no-cache"):
        reserved.update(control.directives.field_names(directive))
    if cookies is SetCookie.STRIP:
        reserved.add(SET_COOKIE)
    return tuple(field for field in headers if field[0].lower() not in reserved)


def renew_fields(stored: Fields, newer: Fields, keep_etag: bool) -> Fields:
    """`stored` with every field that `newer` has replaced by it, but those bound to the octets.

    `newer` are storable fields of a 304 or of an answer to HEAD. `keep_etag`: the tags are
    the same but for W/, so the stored one, which the octets came with, stays.
    """
    kept = _BOUND_TO_OCTETS | {b"etag"} if keep_etag else _BOUND_TO_OCTETS
    update = tuple(field for field in newer if field[0].lower() not in kept)
    replaced = {name.lower() for name, _ in update}
    return tuple(field for field in stored if field[0].lower() not in replaced) + update
