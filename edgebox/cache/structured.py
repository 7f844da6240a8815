"""Structured fields, as far as caches are told things in them (RFC 9651 §4.2).

Dictionaries for targeted cache control and lists of strings for groups. Unlike other
fields these are all or nothing: one misplaced octet and the field is not there. Values
stay octets; whoever reads them knows what they ought to be.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from edgebox.http.headers import OWS

_KEY = rb"[a-z*][a-z0-9_\-.*]*+"
_STRING = rb'"(?:[\x20\x21\x23-\x5b\x5d-\x7e]|\\["\\])*+"'
_TOKEN = rb"[A-Za-z*][!#$%&'*+\-.^_`|~0-9A-Za-z:/]*+"
_INTEGER = rb"-?[0-9]{1,15}"
_BARE = b"|".join(
    [
        rb"-?[0-9]{1,12}\.[0-9]{1,3}",  # before integers, which it begins like
        _INTEGER,
        _STRING,
        _TOKEN,
        rb":[A-Za-z0-9+/]*+={0,2}:",
        rb"\?[01]",
        rb"@-?[0-9]{1,15}",
        rb'%"(?:[\x20\x21\x23\x24\x26-\x7e]|%[0-9a-f]{2})*+"',
    ]
)
_PARAMETERS = rb"(?:; *+" + _KEY + rb"(?:=(?:" + _BARE + rb"))?)*+"
_ITEM = rb"(?:" + _BARE + rb")" + _PARAMETERS
_INNER_LIST = rb"\( *+(?:" + _ITEM + rb"(?: ++|(?=\))))*+\)"

_MEMBER = re.compile(
    rb"(?P<key>" + _KEY + rb")"
    rb"(?:=(?:(?P<bare>" + _BARE + rb")|" + _INNER_LIST + rb"))?" + _PARAMETERS
)
_STRING_ITEM = re.compile(rb"(?:(?P<string>" + _STRING + rb")|(?:" + _BARE + rb")|" + _INNER_LIST
                          + rb")" + _PARAMETERS)  # fmt: skip
_COMMA = re.compile(rb"[ \t]*+,[ \t]*+")
_ESCAPE = re.compile(rb"\\(.)")
_WHOLE_NUMBER = re.compile(_INTEGER)


class Value(NamedTuple):
    """A bare item as it was written; None for an inner list. True is b"?1"."""

    octets: bytes | None

    def is_true(self) -> bool:
        return self.octets == b"?1"

    def integer(self) -> int | None:
        if self.octets is None or not _WHOLE_NUMBER.fullmatch(self.octets):
            return None
        return int(self.octets)

    def string(self) -> bytes | None:
        if self.octets is None or self.octets[:1] != b'"':
            return None
        return _ESCAPE.sub(rb"\1", self.octets[1:-1])


def parse_dictionary(value: bytes) -> dict[bytes, Value] | None:
    """Members by key, parameters dropped, the last of equal keys; None if malformed."""
    found = _members(_MEMBER, value)
    if found is None:
        return None
    return {m["key"]: Value(m["bare"] if _has_value(m) else b"?1") for m in found}


def parse_strings(value: bytes) -> tuple[bytes, ...] | None:
    """The strings of a list, parameters dropped; members of other types make it None."""
    found = _members(_STRING_ITEM, value)
    if found is None or any(m["string"] is None for m in found):
        return None
    return tuple(_ESCAPE.sub(rb"\1", m["string"][1:-1]) for m in found)


def _has_value(found: re.Match[bytes]) -> bool:
    return found[0][len(found["key"]) :][:1] == b"="


def _members(pattern: re.Pattern[bytes], value: bytes) -> list[re.Match[bytes]] | None:
    """Matches of `pattern`, separated by commas, that make up all of `value`."""
    value = value.strip(OWS)
    found: list[re.Match[bytes]] = []
    position = 0
    while position < len(value):
        if found:
            comma = _COMMA.match(value, position)
            if comma is None:
                return None
            position = comma.end()
        member = pattern.match(value, position)
        if member is None:
            return None
        found.append(member)
        position = member.end()
    return found
