"""Structured fields are all or nothing, and read as the reference parser reads them."""

from __future__ import annotations

import http_sf
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgebox.cache.structured import parse_dictionary, parse_strings


def test_a_dictionary_gives_values_as_written() -> None:
    members = parse_dictionary(b'max-age=60, a, b=?0;p=1, c="x\\"y", d=(1 2);q, e=tok/en')
    assert members is not None
    assert members[b"max-age"].integer() == 60
    assert members[b"a"].is_true()
    assert members[b"b"].octets == b"?0"
    assert members[b"c"].string() == b'x"y'
    assert members[b"d"].octets is None
    assert members[b"e"].octets == b"tok/en"


def test_the_last_of_equal_keys_counts() -> None:
    members = parse_dictionary(b"a=1, a=2")
    assert members is not None
    assert members[b"a"].integer() == 2


@pytest.mark.parametrize(
    "value",
    [
        "max-age=1,",
        "Max-Age=1",
        "max-age =1",
        "max-age= 1",
        "a, &&&",
        "a=",
        "a b",
        "a=1.",
        'a="x',
        "a=1234567890123456",
        "a=(1 2",
        "a;",
        "a=1;B",
        "a=ü",
        "\x00",
    ],
)
def test_one_wrong_octet_spoils_the_field(value: str) -> None:
    assert parse_dictionary(value.encode("latin-1")) is None


def test_a_list_of_strings_ignores_parameters_and_nothing_else() -> None:
    assert parse_strings(b'"a";x=1, "b c" , "d\\\\"') == (b"a", b"b c", b"d\\")
    assert parse_strings(b'"a", b') is None
    assert parse_strings(b'"a", ("b")') is None
    assert parse_strings(b"") == ()


PIECES = st.sampled_from(
    [
        "a",
        "max-age",
        "*x.y",
        "=",
        "=",
        ",",
        ", ",
        ";",
        ";p",
        " ",
        "\t",
        "1",
        "-7",
        "1.5",
        "60",
        '"s"',
        '"a\\"b"',
        '"',
        "tok",
        "?1",
        "?0",
        "?",
        "(",
        ")",
        "(a 1)",
        '("x" "y")',
        ":YQ==:",
        "@5",
        "A",
        "é",
    ]
)


@pytest.mark.slow
@given(st.lists(PIECES, max_size=9).map(lambda pieces: "".join(pieces).strip("\t ")))
@settings(max_examples=200)
def test_dictionaries_are_valid_exactly_when_the_reference_says_so(text: str) -> None:
    value = text.encode("latin-1")
    try:
        theirs = http_sf.parse(value, tltype="dictionary")
    except http_sf.StructuredFieldError:
        theirs = None
    ours = parse_dictionary(value)
    if theirs is None:
        assert ours is None
        return
    assert ours is not None
    assert [k.decode() for k in ours] == list(theirs)
    for key, (item, _) in theirs.items():
        value_of = ours[key.encode()]
        assert value_of.is_true() == (item is True)
        if isinstance(item, int) and not isinstance(item, bool):
            assert value_of.integer() == item


@pytest.mark.slow
@given(st.lists(PIECES, max_size=7).map(lambda pieces: "".join(pieces).strip("\t ")))
@settings(max_examples=100)
def test_lists_of_strings_are_those_of_the_reference(text: str) -> None:
    value = text.encode("latin-1")
    try:
        theirs = http_sf.parse(value, tltype="list")
    except http_sf.StructuredFieldError:
        theirs = None
    if theirs is not None and all(type(item) is str for item, _ in theirs):
        assert parse_strings(value) == tuple(item.encode() for item, _ in theirs)
    else:
        assert parse_strings(value) is None


@given(st.binary(max_size=80))
@settings(max_examples=60)
def test_nothing_raises(value: bytes) -> None:
    parse_dictionary(value)
    parse_strings(value)
