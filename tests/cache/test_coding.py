"""Codings made here: of what, for whom, under which tag."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgebox.cache.coding import (
    NOTHING_CODED,
    CodingRules,
    Face,
    choose_face,
    dress,
    is_codable,
    name_originals,
    tag_of,
)
from edgebox.cache.entry import StoredResponse
from edgebox.http.headers import Headers
from edgebox.http.negotiate import acceptable

Keep = Callable[..., StoredResponse]
MakeHeaders = Callable[..., Headers]
HOUR = "Cache-Control: max-age=3600"
TEXT = "Content-Type: text/html; charset=utf-8"
RULES = CodingRules((b"br", b"zstd", b"gzip"), ("text/*", "application/json"), 100, 10_000)


@pytest.mark.parametrize(
    ("lines", "size", "codable"),
    [
        ((TEXT,), 100, True),
        ((TEXT,), None, True),  # still coming in
        (("Content-Type: application/json",), 5000, True),
        (("Content-Type: image/png",), 5000, False),
        ((), 5000, False),
        ((TEXT,), 99, False),
        ((TEXT,), 10_001, False),
        ((TEXT, "Content-Encoding: gzip"), 5000, False),
        ((TEXT, "Content-MD5: rL0Y20zC+Fzt72VPzMSk2A=="), 5000, False),
        ((TEXT, "Repr-Digest: sha-256=:AA==:"), 5000, False),
        ((TEXT, "Cache-Control: no-transform"), 5000, False),
        ((TEXT, "CDN-Cache-Control: max-age=60, no-transform"), 5000, False),
    ],
)
def test_what_may_be_coded(
    keep: Keep, lines: tuple[str, ...], size: int | None, codable: bool
) -> None:
    entry = keep(HOUR, *lines)
    assert is_codable(entry, size, RULES) is codable
    assert not is_codable(entry, size, NOTHING_CODED)


def test_only_a_200_is_coded(keep: Keep) -> None:
    assert not is_codable(keep(HOUR, TEXT, status=404), 5000, RULES)


@pytest.mark.parametrize(
    ("asked", "coded", "face"),
    [
        ((), {}, Face(True, b"", b'"1"')),
        (("Accept-Encoding: gzip, br",), {}, Face(True, b"", b'"1"', b"br")),
        (("Accept-Encoding: gzip",), {b"br": b"b"}, Face(True, b"", b'"1"', b"gzip")),
        # While the better one is made, another will do.
        (("Accept-Encoding: gzip, br",), {b"gzip": b"g"}, Face(True, b"gzip", b'"1-gzip"', b"br")),
        (("Accept-Encoding: gzip, br",), {b"br": b"b"}, Face(True, b"br", b'"1-br"')),
        # What saved nothing is not tried again.
        (("Accept-Encoding: br",), {b"br": None}, Face(True, b"", b'"1"')),
        (("Accept-Encoding: br, gzip",), {b"br": None}, Face(True, b"", b'"1"', b"gzip")),
        (("Accept-Encoding: br;q=0, *",), {b"br": b"b"}, Face(True, b"", b'"1"', b"zstd")),
        (("Accept-Encoding: br", "Cache-Control: no-transform"), {b"br": b"b"},
         Face(True, b"", b'"1"')),
        # Whoever has it gets the tag that it is known by there, as long as it can be decoded.
        (("Accept-Encoding: br", 'If-None-Match: "0", W/"1-br"'), {},
         Face(True, b"", b'"1-br"', b"br")),
        (("Accept-Encoding: gzip", 'If-None-Match: "1-br"'), {}, Face(True, b"", b'"1"', b"gzip")),
        (('If-None-Match: "1"', "Accept-Encoding: br"), {b"br": b"b"}, Face(True, b"br", b'"1"')),
        # Parts are cut from the original, but for who names another.
        (("Accept-Encoding: br", "Range: bytes=0-1"), {b"br": b"b"}, Face(True, b"", b'"1"')),
        (("Range: bytes=0-1", 'If-Range: "1-br"'), {b"br": b"b"}, Face(True, b"br", b'"1-br"')),
        (("Range: bytes=0-1", 'If-Range: "1-br"'), {}, Face(True, b"", b'"1"')),
        (("Range: bytes=0-1", 'If-Range: "1"'), {b"br": b"b"}, Face(True, b"", b'"1"')),
    ],
)  # fmt: skip
def test_faces(
    keep: Keep,
    headers: MakeHeaders,
    asked: tuple[str, ...],
    coded: dict[bytes, bytes | None],
    face: Face,
) -> None:
    entry = keep(HOUR, TEXT, 'ETag: "1"')
    assert choose_face(headers(*asked), entry, coded, RULES) == face


@given(
    st.lists(st.sampled_from(["br", "gzip", "zstd", "identity", "*", "br;q=0", "gzip;q=0.5"])),
    st.dictionaries(st.sampled_from(RULES.codings), st.none() | st.just(b"x")),
)
def test_nobody_gets_or_asks_for_a_coding_that_cannot_be_decoded(
    keep: Keep, headers: MakeHeaders, accepted: list[str], coded: dict[bytes, bytes | None]
) -> None:
    asked = headers("Accept-Encoding: " + ", ".join(accepted))
    face = choose_face(asked, keep(HOUR, TEXT), coded, RULES)
    wanted = acceptable(asked.get(b"accept-encoding"))
    for coding in (face.coding, face.wish):
        assert not coding or wanted.weight(coding) > 0
    assert not face.coding or coded[face.coding] is not None
    assert face.wish is None or face.wish not in coded


@pytest.mark.parametrize(
    ("etag", "coded"),
    [
        (b'"a"', b'"a-br"'),
        (b'W/"a"', b'W/"a-br"'),
        (b'""', b'"-br"'),
        (None, None),
        (b"bare", None),
    ],
)
def test_tags(etag: bytes | None, coded: bytes | None) -> None:
    assert tag_of(etag, b"br") == coded


def test_each_face_is_told_from_the_others() -> None:
    fields = ((b"ETag", b'"1"'), (b"X", b"y"), (b"Vary", b"Cookie"))
    varied = (b"Vary", b"Accept-Encoding")
    assert dress(fields, Face(etag=b'"1"')) == fields
    assert dress(fields, Face(True, b"", b'"1"')) == (*fields, varied)
    assert dress(fields, Face(True, b"br", b'"1-br"')) == (
        (b"ETag", b'"1-br"'), *fields[1:], varied, (b"Content-Encoding", b"br"),
    )  # fmt: skip
    assert dress(((b"etag", b"bare"),), Face(True, b"br", None)) == (
        varied, (b"Content-Encoding", b"br"),
    )  # fmt: skip


def test_a_vary_that_says_so_already_says_it_once() -> None:
    fields = ((b"Vary", b"Cookie, ACCEPT-encoding"),)
    assert dress(fields, Face(True)) == fields


@pytest.mark.parametrize(
    ("given", "sent"),
    [
        (b'"1-br"', b'"1-br", "1"'),
        (b'"1-br", "2-gzip" , "3"', b'"1-br", "2-gzip" , "3", "1", "2"'),
        (b'"1"', b'"1"'),
        (b"*", b"*"),
        (b'"a-brr"', b'"a-brr"'),
    ],
)
def test_the_upstream_is_told_its_own_tags(given: bytes, sent: bytes) -> None:
    others = ((b"X", b'"1-br"'), (b"If-None-Match", b'"1-br"'))
    assert name_originals(((b"If-Match", given), *others)) == ((b"If-Match", sent), *others)
