"""Byte ranges: exact spans, bounded work, and bodies that can be taken apart again."""

from __future__ import annotations

from email.parser import BytesParser
from email.policy import HTTP
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgebox.http.ranges import (
    MOST_RANGES,
    Outcome,
    Span,
    boundary_for,
    content_range,
    multipart,
    resolve,
)

IGNORE, UNSATISFIABLE = Outcome.IGNORE, Outcome.UNSATISFIABLE


@pytest.mark.parametrize(
    ("value", "spans"),
    [
        # RFC 9110 §14.1.2's examples, on 10,000 octets
        (b"bytes=0-499", [(0, 499)]),
        (b"bytes=500-999", [(500, 999)]),
        (b"bytes=-500", [(9500, 9999)]),
        (b"bytes=9500-", [(9500, 9999)]),
        (b"bytes=0-0,-1", [(0, 0), (9999, 9999)]),
        (b"bytes= 0-999, 4500-5499, -1000", [(0, 999), (4500, 5499), (9000, 9999)]),
        (b"bytes=500-600,601-999", [(500, 600), (601, 999)]),
        (b"bytes=500-700,601-999", [(500, 700), (601, 999)]),
        # as sent in the field
        (b"bytes=0-", [(0, 9999)]),
        (b"Bytes=0-0", [(0, 0)]),
        (b"bytes=9999-9999", [(9999, 9999)]),
        (b"bytes=0-10000", [(0, 9999)]),
        (b"bytes=-10001", [(0, 9999)]),
        (b"bytes=-1", [(9999, 9999)]),
        (b"bytes=0000-0009", [(0, 9)]),
        (b"bytes=, ,1-2,\t,", [(1, 2)]),
        (b"bytes=9000-9999,0-99", [(9000, 9999), (0, 99)]),
        # what cannot be had is left out of a set
        (b"bytes=0-0,10000-,-0", [(0, 0)]),
        # larger than any number of the machine
        (b"bytes=0-" + b"9" * 10_000, [(0, 9999)]),
        (b"bytes=-" + b"9" * 10_000, [(0, 9999)]),
        (b"bytes=0-18446744073709551616", [(0, 9999)]),
        (b"bytes=" + b"0" * 10_000 + b"-5", [(0, 5)]),
    ],
)
def test_ranges_are_served_as_asked(value: bytes, spans: list[tuple[int, int]]) -> None:
    assert resolve(value, 10_000) == tuple(spans)


@pytest.mark.parametrize(
    "value",
    [
        b"bytes=10000-",
        b"bytes=10000-10001",
        b"bytes=-0",
        b"bytes=-000",
        b"bytes=10000-,-0,20000-30000",
        b"bytes=" + b"9" * 10_000 + b"-",
        b"bytes=18446744073709551616-",
        b"bytes=18446744073709551616-18446744073709551617",
    ],
)
def test_ranges_beyond_the_end_are_unsatisfiable(value: bytes) -> None:
    assert resolve(value, 10_000) is UNSATISFIABLE


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"bytes",
        b"bytes=",
        b"bytes=,",
        b"bytes=-",
        b"bytes=1",
        b"bytes=a-b",
        b"bytes=2-1",
        b"bytes=20000-10000",
        b"bytes=9" + b"9" * 10_000 + b"-1",
        b"bytes=0-1,2-1",
        b"bytes=0-1,x",
        b"bytes=0-1;2-3",
        b"bytes=--1",
        b"bytes=-1-",
        b"bytes=+0-1",
        b"bytes=0x0-0x1",
        b"bytes=1_0-2_0",
        b"bytes=0 - 1",
        b"bytes=0-1\n",
        b"bytes=0-\xb2",
        b"bytes =0-1",
        b"bytes:0-1",
        b"octets=0-1",
        b"items=0-1",
        b"0-1",
    ],
)
def test_what_is_not_understood_is_ignored(value: bytes) -> None:
    assert resolve(value, 10_000) is IGNORE


@pytest.mark.parametrize("value", [b"bytes=0-", b"bytes=0-0", b"bytes=-1", b"bytes=5-9"])
def test_an_empty_file_has_no_ranges(value: bytes) -> None:
    assert resolve(value, 0) is IGNORE


def test_too_many_ranges_are_ignored() -> None:
    members = [b"%d-%d" % (n, n) for n in range(0, 200, 2)]
    found = resolve(b"bytes=" + b",".join(members[:MOST_RANGES]), 10_000)
    assert found == tuple(Span(n, n) for n in range(0, 2 * MOST_RANGES, 2))
    assert resolve(b"bytes=" + b",".join(members[: MOST_RANGES + 1]), 10_000) is IGNORE
    assert resolve(b"bytes=0-0,2-2,4-4", 10_000, 2) is IGNORE
    assert resolve(b"bytes=0-0" + b"," * 100_000, 10_000) is IGNORE


@pytest.mark.parametrize(
    "value",
    [
        b"bytes=0-,0-",  # more than the whole
        b"bytes=0-6000,5000-",
        b"bytes=0-9,5-14,8-20",
        b"bytes=0-99,10-19,50-59",
        b"bytes=0-0,0-0,0-0",
        b"bytes=0-1,1-2,500-501,501-502",
    ],
)
def test_abusive_overlaps_are_ignored(value: bytes) -> None:
    assert resolve(value, 10_000) is IGNORE


numbers = st.one_of(st.integers(0, 60), st.integers(0, 10**30)).map(lambda n: b"%d" % n)
specifiers = st.one_of(
    st.tuples(numbers, numbers | st.just(b"")), st.tuples(st.just(b""), numbers)
).map(lambda pair: b"%s-%s" % pair)


@settings(max_examples=25)
@given(st.lists(specifiers, min_size=1, max_size=20), st.integers(0, 80))
def test_spans_lie_within_the_content_and_add_up_to_no_more(
    members: list[bytes], size: int
) -> None:
    found = resolve(b"bytes=" + b", ".join(members), size)
    if isinstance(found, Outcome):
        return
    assert 1 <= len(found) <= min(len(members), MOST_RANGES)
    assert all(0 <= span.first <= span.last < size for span in found)
    assert sum(span.length for span in found) <= size


@settings(max_examples=50)
@given(specifiers, st.integers(1, 80))
def test_one_range_is_a_slice(specifier: bytes, size: int) -> None:
    """An independent reading: which of the positions does the specifier name?"""
    first, last = specifier.split(b"-")
    if not first:
        named = list(range(size))[-int(last) :] if int(last) else []
    else:
        named = [n for n in range(size) if int(first) <= n and (not last or n <= int(last))]
    found = resolve(b"bytes=" + specifier, size)
    if found is IGNORE:
        assert first
        assert last
        assert int(last) < int(first)
    elif found is UNSATISFIABLE:
        assert not named
    else:
        assert found == (Span(named[0], named[-1]),)


@settings(max_examples=50)
@given(
    st.binary(max_size=60) | st.text("bytes=0123456789-, \t", max_size=40).map(str.encode),
    st.integers(0, 100),
)
def test_no_octets_make_it_raise(value: bytes, size: int) -> None:
    resolve(value, size)
    resolve(b"bytes=" + value, size)


def test_content_range() -> None:
    assert content_range(Span(42, 1233), 1234) == b"bytes 42-1233/1234"
    assert content_range(None, 1234) == b"bytes */1234"


def test_multipart_is_laid_out_as_the_rfc_draws_it() -> None:
    spans = (Span(500, 999), Span(7000, 7999))
    assert multipart(spans, 8000, b"application/pdf", b"SEPARATES") == (
        b"--SEPARATES\r\nContent-Type: application/pdf\r\n"
        b"Content-Range: bytes 500-999/8000\r\n\r\n",
        spans[0],
        b"\r\n--SEPARATES\r\nContent-Type: application/pdf\r\n"
        b"Content-Range: bytes 7000-7999/8000\r\n\r\n",
        spans[1],
        b"\r\n--SEPARATES--\r\n",
    )


@settings(max_examples=20)
@given(st.binary(min_size=30, max_size=200), st.data())
def test_a_multipart_body_comes_apart_into_its_spans(content: bytes, data: st.DataObject) -> None:
    size = len(content)
    cuts = data.draw(
        st.lists(st.integers(0, size - 1), min_size=2, max_size=8, unique=True).map(sorted)
    )
    spans = tuple(Span(a, b - 1) for a, b in pairwise(cuts))
    boundary = boundary_for(b'"v1"', b"bytes=whatever")
    kind = b"application/octet-stream"
    body = b"".join(
        piece if isinstance(piece, bytes) else content[piece.first : piece.last + 1]
        for piece in multipart(spans, size, kind, boundary)
    )
    start, *parts, end = (b"\r\n" + body).split(b"\r\n--" + boundary)
    assert start == b""
    assert end == b"--\r\n"
    for part, span in zip(parts, spans, strict=True):
        head, octets = part.removeprefix(b"\r\n").split(b"\r\n\r\n", 1)
        fields = BytesParser(policy=HTTP).parsebytes(head)
        assert fields["Content-Type"] == kind.decode()
        assert fields["Content-Range"] == content_range(span, size).decode()
        assert octets == content[span.first : span.last + 1]


def test_boundaries_are_the_same_for_the_same_request_only() -> None:
    asked = [(b'"v1"', b"bytes=0-1,3-4"), (b'"v2"', b"bytes=0-1,3-4"), (b'"v1"', b"bytes=0-1,3-5")]
    boundaries = {boundary_for(*a) for a in asked}
    assert boundaries == {boundary_for(*a) for a in asked}
    assert len(boundaries) == len(asked)
    assert boundary_for(b'"a', b'b"') != boundary_for(b'"', b'ab"')
    for boundary in boundaries:  # RFC 2046 §5.1.1; needs no quotes in Content-Type
        assert len(boundary) <= 70
        assert boundary.isalnum()
