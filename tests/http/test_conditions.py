"""Preconditions: RFC 9110 §13.2.2's order, and nothing matches by accident."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgebox.http.conditions import Verdict, evaluate, if_range_holds
from edgebox.http.dates import format_date
from edgebox.http.headers import Field, Headers

PROCEED, NOT_MODIFIED, FAILED = Verdict.PROCEED, Verdict.NOT_MODIFIED, Verdict.FAILED

NOW = 1_795_000_000
CHANGED = NOW - 5000
ETAG = b'"v1"'
BEFORE, SAME, AFTER = (format_date(CHANGED + step) for step in (-1, 0, 1))
FUTURE = format_date(NOW + 86_400)

IM, INM = b"If-Match", b"If-None-Match"
IMS, IUS = b"If-Modified-Since", b"If-Unmodified-Since"

# RFC 9110 §8.8.3: visible octets but the quote, and obs-text
opaque = st.lists(
    st.one_of(st.just(0x21), st.integers(0x23, 0x7E), st.integers(0x80, 0xFF)), max_size=12
).map(bytes)
strong = opaque.map(lambda octets: b'"%s"' % octets)
weak = strong.map(lambda tag: b"W/" + tag)
tags = strong | weak


def ask(
    *fields: Field,
    method: bytes = b"GET",
    etag: bytes | None = ETAG,
    changed: int | None = CHANGED,
) -> Verdict:
    return evaluate(method, Headers(fields), etag, changed, NOW)


def test_without_conditions_the_request_proceeds() -> None:
    assert ask((b"Host", b"x")) is PROCEED


@pytest.mark.parametrize(
    ("etag", "value", "verdict"),
    [
        (ETAG, b'"v1"', PROCEED),
        (ETAG, b'"v0", "v1"', PROCEED),
        (ETAG, b', ,"v0"\t ,"v1" ,', PROCEED),
        (ETAG, b"*", PROCEED),
        (None, b"*", PROCEED),
        (ETAG, b'"v0"', FAILED),
        (ETAG, b'W/"v1"', FAILED),  # RFC 9110 §13.1.1: strong comparison
        (b'W/"v1"', b'W/"v1"', FAILED),
        (None, b'"v1"', FAILED),
        (ETAG, b"", FAILED),
        (ETAG, b"v1", FAILED),
    ],
)
def test_if_match_compares_strongly(etag: bytes | None, value: bytes, verdict: Verdict) -> None:
    assert ask((IM, value), etag=etag) is verdict


@pytest.mark.parametrize(
    ("etag", "value", "verdict"),
    [
        (ETAG, b'"v1"', NOT_MODIFIED),
        (ETAG, b'W/"v1"', NOT_MODIFIED),  # RFC 9110 §13.1.2: weak comparison
        (b'W/"v1"', b'"v1"', NOT_MODIFIED),
        (b'W/"v1"', b'W/"v1"', NOT_MODIFIED),
        (ETAG, b'"v0" , W/"v1","v2"', NOT_MODIFIED),
        (ETAG, b"*", NOT_MODIFIED),
        (None, b"*", NOT_MODIFIED),
        (b'"a,b"', b'"x", "a,b"', NOT_MODIFIED),
        (b'"a\\"', b'"a\\", "b"', NOT_MODIFIED),  # a backslash escapes nothing in a tag
        (b'"\xe9\xff"', b'"\xe9\xff"', NOT_MODIFIED),
        (b'""', b'""', NOT_MODIFIED),
        (ETAG, b'"v0"', PROCEED),
        (ETAG, b'"V1"', PROCEED),
        (None, b'"v1"', PROCEED),
        (ETAG, b"", PROCEED),
    ],
)
def test_if_none_match_compares_weakly(etag: bytes | None, value: bytes, verdict: Verdict) -> None:
    assert ask((INM, value), etag=etag) is verdict


@pytest.mark.parametrize(
    "value",
    [
        b"v1",
        b'"v1',
        b'v1"',
        b'w/"v1"',  # RFC 9110 §8.8.3: W/ is case-sensitive
        b'W"v1"',
        b'W/ "v1"',
        b'"x"v1"',
        b'"x" "v1"',
        b'"v1";q=1',
        b'"x"v1"y"',
        b'"v1", x',
        b'x, "v1"',
        b'"v1" x',
        b'*, "v1"',
        b"**",
        b"*, *",
        b'"*"',
        b'"a\x00", "v1"',
        b'"a b", "v1"',
    ],
)
def test_a_malformed_list_holds_no_tag(value: bytes) -> None:
    assert ask((INM, value)) is PROCEED
    assert ask((IM, value)) is FAILED


def test_lines_of_one_field_make_one_list() -> None:
    assert ask((INM, b'"v0"'), (INM, b'"v1"')) is NOT_MODIFIED
    assert ask((INM, b"*"), (INM, b'"v0"')) is PROCEED


@pytest.mark.parametrize("method", [b"PUT", b"DELETE", b"POST", b"PATCH"])
def test_if_none_match_fails_what_would_change_something(method: bytes) -> None:
    assert ask((INM, b"*"), method=method) is FAILED
    assert ask((INM, ETAG), method=method) is FAILED
    assert ask((INM, b'"v0"'), method=method) is PROCEED


@pytest.mark.parametrize("method", [b"GET", b"HEAD"])
@pytest.mark.parametrize(
    ("value", "verdict"),
    [
        (BEFORE, PROCEED),
        (SAME, NOT_MODIFIED),
        (AFTER, NOT_MODIFIED),
        (FUTURE, NOT_MODIFIED),  # RFC 9110 §13.1.3 has no rule against it
        (b"yesterday", PROCEED),
        (b"", PROCEED),
        (SAME + b", " + SAME, PROCEED),
    ],
)
def test_if_modified_since(method: bytes, value: bytes, verdict: Verdict) -> None:
    assert ask((IMS, value), method=method) is verdict
    assert ask((IMS, value), method=method, changed=None) is PROCEED


def test_if_modified_since_is_for_get_and_head_only() -> None:
    assert ask((IMS, AFTER), method=b"PUT") is PROCEED


@pytest.mark.parametrize("value", [ETAG, b'"v0"', b"garbage", b""])
def test_if_none_match_decides_beside_if_modified_since(value: bytes) -> None:
    alone = ask((INM, value))
    assert ask((INM, value), (IMS, AFTER)) is alone
    assert ask((INM, value), (IMS, BEFORE)) is alone


@pytest.mark.parametrize(
    ("value", "verdict"),
    [(BEFORE, FAILED), (SAME, PROCEED), (AFTER, PROCEED), (b"soon", PROCEED)],
)
@pytest.mark.parametrize("method", [b"GET", b"HEAD", b"PUT"])
def test_if_unmodified_since(method: bytes, value: bytes, verdict: Verdict) -> None:
    assert ask((IUS, value), method=method) is verdict
    assert ask((IUS, value), method=method, changed=None) is PROCEED


def test_if_match_decides_beside_if_unmodified_since() -> None:
    assert ask((IM, ETAG), (IUS, BEFORE)) is PROCEED
    assert ask((IM, b'"v0"'), (IUS, AFTER)) is FAILED


def test_lost_update_conditions_come_before_cache_validation() -> None:
    assert ask((IM, b'"v0"'), (INM, ETAG)) is FAILED
    assert ask((IM, ETAG), (INM, ETAG)) is NOT_MODIFIED
    assert ask((IUS, BEFORE), (INM, ETAG)) is FAILED
    assert ask((IUS, AFTER), (IMS, SAME)) is NOT_MODIFIED


@pytest.mark.parametrize("method", [b"OPTIONS", b"TRACE", b"CONNECT"])
def test_methods_that_select_nothing_have_no_conditions(method: bytes) -> None:
    assert ask((IM, b'"v0"'), (INM, b"*"), (IUS, BEFORE), method=method) is PROCEED


@settings(max_examples=25)
@given(st.lists(tags, max_size=8), tags, st.sampled_from([b",", b", ", b" ,\t", b",,"]))
def test_a_list_matches_by_its_members(listed: list[bytes], etag: bytes, comma: bytes) -> None:
    value = comma.join(listed)
    found = etag.removeprefix(b"W/") in {tag.removeprefix(b"W/") for tag in listed}
    assert (ask((INM, value), etag=etag) is NOT_MODIFIED) == found
    found = etag in listed and not etag.startswith(b"W/")
    assert (ask((IM, value), etag=etag) is PROCEED) == found


@settings(max_examples=50)
@given(st.binary(max_size=60) | st.text('W/"*,\\ av', max_size=30).map(str.encode))
def test_no_octets_make_it_raise_or_match_a_tag_they_do_not_hold(value: bytes) -> None:
    etag = b'"not in there"'
    star = value.strip(b" \t") == b"*"
    assert (ask((INM, value), etag=etag) is NOT_MODIFIED) == star
    assert (ask((IM, value), etag=etag) is PROCEED) == star
    assert ask((IMS, value)) is ask((IUS, value)) is PROCEED
    assert not if_range_holds(value, etag, CHANGED, NOW)


def test_long_hostile_lists_are_read_in_one_pass() -> None:
    for value in (
        b'"a", ' * 20_000 + b"x",
        b'"' * 100_001,
        b" ,\t" * 40_000 + b"x",
        b'W/"' * 40_000,
    ):
        assert ask((INM, value)) is PROCEED


@pytest.mark.parametrize(
    ("value", "etag", "holds"),
    [
        (b'"v1"', ETAG, True),
        (b' "v1" ', ETAG, True),
        (b'"v0"', ETAG, False),
        (b'W/"v1"', ETAG, False),
        (b'W/"v1"', b'W/"v1"', False),
        (b'"v1"', b'W/"v1"', False),
        (b'"v1"', None, False),
        (b'"v1", "v2"', ETAG, False),
        (b'"a"b"', b'"a"b"', False),
        (b"v1", b"v1", False),
        (b"*", ETAG, False),
        (b"", ETAG, False),
    ],
)
def test_if_range_takes_one_strong_tag(value: bytes, etag: bytes | None, holds: bool) -> None:
    assert if_range_holds(value, etag, CHANGED, NOW) is holds


@pytest.mark.parametrize(
    ("value", "changed", "now", "holds"),
    [
        (SAME, CHANGED, NOW, True),
        (BEFORE, CHANGED, NOW, False),
        (AFTER, CHANGED, NOW, False),  # RFC 9110 §13.1.5: equal, not "not later"
        (SAME, None, NOW, False),
        (SAME, CHANGED, CHANGED + 1, True),
        (SAME, CHANGED, CHANGED, False),  # §8.8.2.2: it may change again in this second
        (SAME, CHANGED, CHANGED - 1, False),
        (b"whenever", CHANGED, NOW, False),
    ],
)
def test_if_range_takes_a_date_that_is_equal_and_strong(
    value: bytes, changed: int | None, now: int, holds: bool
) -> None:
    assert if_range_holds(value, ETAG, changed, now) is holds
