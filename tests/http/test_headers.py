"""Header fields: looked up without regard to case, kept as they came; lists come apart right."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgebox.http.headers import Headers, split_list

names = st.text("aAbB-", min_size=1, max_size=3).map(str.encode)
values = st.binary(max_size=8)

FIELDS = ((b"Accept", b"a"), (b"Host", b"x"), (b"ACCEPT", b"B, c"))


def test_names_are_found_without_regard_to_case_and_lines_are_joined() -> None:
    headers = Headers(FIELDS)
    assert headers.get(b"accept") == b"a, B, c"
    assert headers.get(b"host") == b"x"
    assert headers.get(b"cookie") is None
    assert headers.all(b"accept") == [b"a", b"B, c"]
    assert headers.all(b"cookie") == []
    assert headers.tokens(b"accept") == [b"a", b"b", b"c"]
    assert headers.tokens(b"cookie") == []
    assert b"accept" in headers
    assert b"cookie" not in headers


def test_fields_keep_their_order_and_spelling() -> None:
    headers = Headers(iter(FIELDS))
    assert tuple(headers) == headers.fields == FIELDS
    assert len(headers) == 3
    assert headers == Headers(FIELDS)
    assert hash(headers) == hash(Headers(FIELDS))
    assert headers != Headers(FIELDS[:2])
    assert headers != FIELDS
    assert repr(headers) == f"Headers({FIELDS!r})"


def test_an_empty_line_is_there() -> None:
    headers = Headers([(b"Accept-Encoding", b"")])
    assert headers.get(b"accept-encoding") == b""
    assert b"accept-encoding" in headers
    assert headers.tokens(b"accept-encoding") == []


@settings(max_examples=40)
@given(st.lists(st.tuples(names, values), max_size=8))
def test_every_line_is_found_once_in_order(fields: list[tuple[bytes, bytes]]) -> None:
    headers = Headers(fields)
    for name in {name.lower() for name, _ in fields}:
        lines = [value for n, value in fields if n.lower() == name]
        assert headers.all(name) == lines
        assert headers.get(name) == b", ".join(lines)


@pytest.mark.parametrize(
    ("value", "members"),
    [
        # RFC 9110 §5.6.1.2's examples
        (b"foo,bar", [b"foo", b"bar"]),
        (b"foo ,bar,", [b"foo", b"bar"]),
        (b"foo , ,bar,charlie", [b"foo", b"bar", b"charlie"]),
        (b"", []),
        (b",", []),
        (b",   ,", []),
        # quoted strings
        (b'a="b, c", d', [b'a="b, c"', b"d"]),
        (b'"a\\",b", c', [b'"a\\",b"', b"c"]),
        (b'"a\\\\", "b"', [b'"a\\\\"', b'"b"']),
        (b'a"b,"c,d', [b'a"b,"c', b"d"]),
        (b'"",""', [b'""', b'""']),
        # a backslash outside quotes is an octet like any other
        (b'a\\,b\\"c,d"', [b"a\\", b'b\\"c,d"']),
        # a quote that is never closed quotes nothing
        (b'private="x, no-store', [b'private="x', b"no-store"]),
        (b'a="b,c", d="e, f', [b'a="b,c"', b'd="e', b"f"]),
        (b'x, "a\\", b', [b"x", b'"a\\"', b"b"]),
        (b'"', [b'"']),
        (b'"\\', [b'"\\']),
        # OWS is space and tab, nothing else (FAULTS: never str.strip)
        (b"\ta\t,\x0bb\x0c,\x85c\xa0", [b"a", b"\x0bb\x0c", b"\x85c\xa0"]),
    ],
)
def test_lists_come_apart_at_their_commas(value: bytes, members: list[bytes]) -> None:
    assert split_list(value) == members


tokens = st.text("abcXYZ-=;\\", min_size=1, max_size=6).map(str.encode)
quoted_octets = st.one_of(
    st.sampled_from([b",", b" ", b"\t", b";", b"a", b"\xe9"]),
    st.sampled_from([b'"', b"\\", b",", b"a"]).map(lambda octet: b"\\" + octet),
)
quoted = st.lists(quoted_octets, max_size=6).map(lambda octets: b'"%s"' % b"".join(octets))
members = st.one_of(tokens, quoted, st.builds(bytes.__add__, tokens, quoted))
commas = st.sampled_from([b",", b", ", b"\t,", b" , , ", b",,"])


@settings(max_examples=20)
@given(st.lists(members, max_size=8), commas)
def test_what_was_joined_comes_apart_again(listed: list[bytes], comma: bytes) -> None:
    assert split_list(comma.join(listed)) == listed
    assert split_list(comma + comma.join(listed) + comma) == listed


@settings(max_examples=60)
@given(st.one_of(st.binary(max_size=40), st.text('a", \\\t', max_size=30).map(str.encode)))
def test_any_octets_give_members_that_are_stripped_and_come_apart_no_further(
    value: bytes,
) -> None:
    found = split_list(value)
    assert all(member and member == member.strip(b" \t") for member in found)
    assert split_list(b", ".join(found)) == found
    assert b"".join(found).replace(b",", b"").translate(None, b" \t") == value.translate(
        None, b" \t,"
    )


def test_long_hostile_lists_are_read_in_one_pass() -> None:
    assert split_list(b'"\\' * 16_000 + b",a")[-1] == b"a"
    assert split_list(b'"' * 32_001 + b",a") == [b'"' * 32_001, b"a"]
