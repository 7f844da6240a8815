"""Cache-Control is read as RFC 9111 has it, and never less carefully than that."""

from __future__ import annotations

from collections.abc import Callable

import ccdirectives
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgebox.cache.directives import FOREVER, parse, parse_request
from edgebox.http.headers import Headers

NUMBERS = [b"max-age", b"s-maxage", b"min-fresh", b"stale-while-revalidate", b"stale-if-error"]


@pytest.mark.parametrize(
    ("line", "seconds"),
    [
        (b"max-age=60", 60),
        (b"MAX-AGE=60", 60),
        (b'max-age="60"', 60),
        (b"max-age=00060", 60),
        (b"a, max-age=60,b", 60),
        (b'ext="max-age=9, x", max-age=60', 60),
        (b'ext="a\\", max-age=9", max-age=60', 60),
        (b"max-age=2147483647", 2147483647),
        (b"max-age=2147483648", FOREVER),
        (b"max-age=" + b"9" * 5000, FOREVER),
    ],
)
def test_a_number_is_found_in_all_its_spellings(line: bytes, seconds: int) -> None:
    assert parse([line]).seconds(b"max-age") == seconds


@pytest.mark.parametrize(
    "line",
    [
        "max-age",
        "max-age=",
        "max-age=-1",
        "max-age=1.5",
        "max-age=x60",
        "max-age=60x",
        "max-age='60'",
        "max-age =60",
        "max-age= 60",
        'max-age="60',
        "max-age=60;x=1",
        "max-age 60",
        "max-age=6 0",
        "max-age=+60",
        "max-age=0x3c",
        "max-age=٦٠",
    ],
)
def test_what_is_no_number_counts_as_stale(line: str) -> None:
    assert parse([line.encode()]).seconds(b"max-age") == 0


def test_an_absent_number_is_none() -> None:
    assert parse([b"public"]).seconds(b"max-age") is None


def test_the_first_of_repeated_numbers_counts() -> None:
    assert parse([b"max-age=1, max-age=1800"]).seconds(b"max-age") == 1
    assert parse([b"max-age=1800", b"max-age=1"]).seconds(b"max-age") == 1800


def test_repeated_lists_are_all_obeyed() -> None:
    assert parse([b'private="a"', b'private="b"']).field_names(b"private") == (b"a", b"b")
    assert parse([b'private="a", private']).covers_all(b"private")
    assert parse([b'no-cache, no-cache="a"']).covers_all(b"no-cache")


@pytest.mark.parametrize(
    ("line", "names"),
    [
        (b'private="Set-Cookie, X-A"', (b"set-cookie", b"x-a")),
        (b"private=set-cookie", (b"set-cookie",)),
        (b"private", ()),
        (b'private=""', ()),
        (b'private="a b"', ()),
        (b'private="a, b', ()),
    ],
)
def test_a_list_that_is_none_covers_everything(line: bytes, names: tuple[bytes, ...]) -> None:
    directives = parse([line])
    assert directives.field_names(b"private") == names
    assert directives.covers_all(b"private") == (not names)


@pytest.mark.parametrize(
    "line",
    [
        b"no-store",
        b"No-StOrE",
        b"no-store=1",
        b"no-store; private",
        b'x="a, no-store',
        b",,no-store",
    ],
)
def test_no_store_survives_whatever_surrounds_it(line: bytes) -> None:
    assert b"no-store" in parse([line])


def test_max_stale_without_a_number_takes_anything() -> None:
    assert parse([b"max-stale"]).max_stale() == FOREVER
    assert parse([b"max-stale=5"]).max_stale() == 5
    assert parse([b"max-stale=x"]).max_stale() is None
    assert parse([]).max_stale() is None


def test_pragma_counts_only_without_cache_control(headers: Callable[..., Headers]) -> None:
    assert b"no-cache" in parse_request(headers("Pragma: no-cache"))
    assert b"no-cache" not in parse_request(headers("Pragma: no-cache", "Cache-Control: x"))
    assert b"no-cache" not in parse_request(headers("Pragma: x"))


@given(st.lists(st.binary(max_size=60), max_size=3))
@settings(max_examples=40)
def test_nothing_raises(lines: list[bytes]) -> None:
    directives = parse(lines)
    for name in (*NUMBERS, b"private", b"no-cache"):
        directives.seconds(name)
        directives.covers_all(name)
    directives.max_stale()


# What both readers must agree on: everything but blanks around "=" (which they forgive),
# quotes left open, and repeated lists (of which they take the first).
NAMES = st.sampled_from(
    [
        "max-age",
        "S-MaxAge",
        "min-fresh",
        "stale-while-revalidate",
        "no-store",
        "public",
        "must-revalidate",
        "x-a",
        "private",
        "No-Cache",
    ]
)
ARGUMENTS = st.one_of(
    st.none(),
    st.integers(0, 2**33).map(str),
    st.sampled_from(['"60"', "0060", "-1", "1.5", "abc", '"a, b"', '"a"', '""', "a"]),
)
MEMBERS = st.tuples(NAMES, ARGUMENTS).map(lambda m: m[0] if m[1] is None else f"{m[0]}={m[1]}")


@pytest.mark.slow
@given(st.lists(MEMBERS, max_size=5, unique_by=lambda m: m.partition("=")[0]))
@settings(max_examples=150)
def test_another_reader_of_the_rfc_agrees(members: list[str]) -> None:
    line = " , ".join(members)
    ours, theirs = parse([line.encode()]), ccdirectives.parse(line)
    for name in NUMBERS:
        expected = (theirs.seconds(name.decode()) or 0) if theirs.has(name.decode()) else None
        assert ours.seconds(name) == expected
    for flag in (b"no-store", b"public", b"must-revalidate", b"private", b"no-cache"):
        assert (flag in ours) == theirs.has(flag.decode())
    assert ours.field_names(b"private") == tuple(n.encode() for n in theirs.private_fields)
    assert ours.field_names(b"no-cache") == tuple(n.encode() for n in theirs.no_cache_fields)


@pytest.mark.slow
@given(st.text(st.sampled_from('no-store,="\\ a1;'), max_size=25))
@settings(max_examples=300)
def test_no_store_is_never_missed_where_another_reader_sees_it(line: str) -> None:
    if ccdirectives.parse(line).no_store:
        assert b"no-store" in parse([line.encode()])
