"""Preconditions: whether a request that names validators is to be carried out (RFC 9110 §13).

Asked once it is known that the request would otherwise be answered 2xx (§13.2.1), so
there is a current representation and `*` is true of it. What cannot be understood is
never taken for a match: a bad list of tags holds none, a bad date is not there. Nothing
here knows what a file or a cache entry is.
"""

from __future__ import annotations

import re
from enum import Enum

from edgebox.http.dates import parse_date
from edgebox.http.headers import OWS, Headers

# §8.8.3. A backslash is an ordinary octet of a tag, unlike in a quoted string, so lists
# of tags cannot be split as other lists are. Possessive, so that no input makes the
# match go back over what it has read.
_TAG = rb'(?:W/)?"[\x21\x23-\x7e\x80-\xff]*+"'
_ENTITY_TAG = re.compile(_TAG)
_TAG_LIST = re.compile(rb"[ \t,]*+(?:" + _TAG + rb"[ \t]*+(?:,[ \t,]*+|\Z))*+")

# They select no representation, so there is nothing to hold conditions against (§13.2.1).
_UNCONDITIONAL = frozenset({b"CONNECT", b"OPTIONS", b"TRACE"})
_RETRIEVALS = frozenset({b"GET", b"HEAD"})


class Verdict(Enum):
    """What the preconditions say; the value is the status they ask for, if any."""

    PROCEED = None
    NOT_MODIFIED = 304
    FAILED = 412


def evaluate(
    method: bytes, headers: Headers, etag: bytes | None, last_modified: int | None, now: int
) -> Verdict:
    """All preconditions but If-Range, in the order of RFC 9110 §13.2.2.

    `etag` is the selected representation's entity tag as sent, quotes and W/ included,
    None if it has none; `last_modified` its date in seconds since 1970, None likewise.
    A date ahead of `now` counts like any other: §13.1.3 no longer calls it invalid.
    """
    if method in _UNCONDITIONAL:
        return Verdict.PROCEED
    tags = headers.get(b"if-match")
    if tags is not None:
        if not _match_strongly(tags, etag):
            return Verdict.FAILED
    elif _modified_since(headers.get(b"if-unmodified-since"), last_modified, now) is True:
        return Verdict.FAILED
    tags = headers.get(b"if-none-match")
    if tags is not None:
        if _match_weakly(tags, etag):
            return Verdict.NOT_MODIFIED if method in _RETRIEVALS else Verdict.FAILED
    elif (
        method in _RETRIEVALS
        and _modified_since(headers.get(b"if-modified-since"), last_modified, now) is False
    ):
        return Verdict.NOT_MODIFIED
    return Verdict.PROCEED


def if_range_holds(value: bytes, etag: bytes | None, last_modified: int | None, now: int) -> bool:
    """Whether a Range may be honoured beside this If-Range (RFC 9110 §13.1.5).

    A tag must be equal and strong. A date must be equal, and strong by §8.8.2.2: the
    second that it names is over, so no later change can bear the same date. (A client
    that fetched within that very second is itself forbidden to send the date.) For a
    stored response `now` is its Date.
    """
    value = value.strip(OWS)
    if b'"' in value[:3]:
        return value == etag and _ENTITY_TAG.fullmatch(value) is not None and not _is_weak(value)
    if last_modified is None or now <= last_modified:
        return False
    return parse_date(value, now) == last_modified


def _modified_since(value: bytes | None, last_modified: int | None, now: int) -> bool | None:
    """Whether it changed after the date in `value`; None where the field must be ignored."""
    if value is None or last_modified is None:
        return None
    date = parse_date(value, now)
    return None if date is None else last_modified > date


def _match_strongly(value: bytes, etag: bytes | None) -> bool:
    """If-Match: any representation for `*`, else a listed tag that is equal and not weak."""
    if value.strip(OWS) == b"*":
        return True
    return etag is not None and not _is_weak(etag) and etag in _entity_tags(value)


def _match_weakly(value: bytes, etag: bytes | None) -> bool:
    """If-None-Match: likewise, but W/ makes no difference (RFC 9110 §8.8.3.2)."""
    if value.strip(OWS) == b"*":
        return True
    if etag is None:
        return False
    opaque = etag.removeprefix(b"W/")
    return any(tag.removeprefix(b"W/") == opaque for tag in _entity_tags(value))


def _is_weak(etag: bytes) -> bool:
    return etag.startswith(b"W/")


def _entity_tags(value: bytes) -> list[bytes]:
    """The tags of a well-formed list; none of any other, lest half a tag pass for one."""
    return _ENTITY_TAG.findall(value) if _TAG_LIST.fullmatch(value) else []
