"""Byte ranges: from a Range field to spans of the content, and the parts that carry them.

A range set is taken at its word unless it costs more than the content it names (RFC 9110
§14.2, §17.15). Then, as for anything malformed, Range is ignored and the whole is sent:
the client is never worse off and the work is bounded. Spans are positions, not octets;
what holds the octets is somebody else's business.
"""

from __future__ import annotations

import re
from enum import Enum
from hashlib import blake2b
from typing import NamedTuple

from edgebox.http.headers import split_list

MOST_RANGES = 16  # viewers of paged documents ask for a handful; attacks ask for hundreds

_UNIT = b"bytes="
_SPECIFIER = re.compile(rb"(\d*)-(\d*)")
_DIGITS = 19  # hold any file's size (2**63); int() refuses 4,301 digits and is slow before


class Outcome(Enum):
    """Why there are no spans; the value is the status to answer with."""

    IGNORE = 200  # malformed, another unit, no content, or abusive
    UNSATISFIABLE = 416  # well-formed, but all of it beyond the end


class Span(NamedTuple):
    """Octets `first` to `last`, both included; never empty."""

    first: int
    last: int

    @property
    def length(self) -> int:
        return self.last - self.first + 1


def resolve(value: bytes, size: int, most: int = MOST_RANGES) -> tuple[Span, ...] | Outcome:
    """The spans of `size` octets that a Range field asks for, in the order asked.

    Unsatisfiable members of a set are left out (RFC 9110 §15.3.7.2). The set is ignored if
    one member is malformed, if it holds more than `most` (commas are counted, so padding
    counts too), if its spans add up to more than the whole, or if more than two of them
    overlap. Their order is no reason: an index at the end may be wanted first (§14.2).
    """
    if value[: len(_UNIT)].lower() != _UNIT or value.count(b",") >= most or size == 0:
        return Outcome.IGNORE
    specifiers = split_list(value[len(_UNIT) :])
    spans = []
    for specifier in specifiers:
        found = _SPECIFIER.fullmatch(specifier)
        if found is None:
            return Outcome.IGNORE
        span = _span(found[1], found[2], size)
        if span is Outcome.IGNORE:
            return span
        if isinstance(span, Span):
            spans.append(span)
    if not specifiers or _cost_too_much(spans, size):
        return Outcome.IGNORE
    return tuple(spans) or Outcome.UNSATISFIABLE


def _span(first: bytes, last: bytes, size: int) -> Span | Outcome:
    """One range specifier, as the digits on either side of its dash (RFC 9110 §14.1.2)."""
    if not first:
        if not last:
            return Outcome.IGNORE
        suffix = _number(last)
        return Span(max(size - suffix, 0), size - 1) if suffix else Outcome.UNSATISFIABLE
    start = _number(first)
    end = _number(last) if last else max(start, size - 1)
    if end < start:
        return Outcome.IGNORE
    return Span(start, min(end, size - 1)) if start < size else Outcome.UNSATISFIABLE


def _number(digits: bytes) -> int:
    """Their value; beyond any size they all count the same."""
    digits = digits.lstrip(b"0")
    return int(digits or b"0") if len(digits) <= _DIGITS else 10**_DIGITS


def _cost_too_much(spans: list[Span], size: int) -> bool:
    if sum(span.length for span in spans) > size:
        return True
    overlaps, reach = 0, -1
    for span in sorted(spans):
        overlaps += span.first <= reach
        reach = max(reach, span.last)
    return overlaps > 1


def content_range(span: Span | None, size: int) -> bytes:
    """Content-Range of a part of `size` octets; with None, that of a 416 (RFC 9110 §14.4)."""
    if span is None:
        return b"bytes */%d" % size
    return b"bytes %d-%d/%d" % (span.first, span.last, size)


def multipart(
    spans: tuple[Span, ...], size: int, content_type: bytes, boundary: bytes
) -> tuple[bytes | Span, ...]:
    """The body of multipart/byteranges in order: part heads, spans, closing delimiter.

    RFC 9110 §14.6 and RFC 2046 §5.1.1: the CRLF before a delimiter belongs to it.
    """
    pieces: list[bytes | Span] = []
    for span in spans:
        head = b"\r\n--%s\r\nContent-Type: %s\r\nContent-Range: %s\r\n\r\n" % (
            boundary,
            content_type,
            content_range(span, size),
        )
        pieces += head if pieces else head[2:], span
    return (*pieces, b"\r\n--%s--\r\n" % boundary)


def boundary_for(etag: bytes, value: bytes) -> bytes:
    """A boundary for the representation `etag` asked for by the Range field `value`.

    Equal requests get equal octets, so that the answer can be repeated. 96 bits of hash do not
    turn up in content by chance, and parts carry their length for whoever doubts.
    """
    return blake2b(etag + b"\0" + value, digest_size=12).hexdigest().encode()
