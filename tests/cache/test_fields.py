"""What is stored of an answer's fields, and what a newer one may change."""

from __future__ import annotations

from collections.abc import Callable

from edgebox.cache.fields import renew_fields, storable_fields
from edgebox.cache.rules import SetCookie
from edgebox.cache.targeted import select_control
from edgebox.http.headers import Headers

Make = Callable[..., Headers]


def stored(headers: Headers, cookies: SetCookie = SetCookie.KEEP) -> list[bytes]:
    control = select_control(headers, ())
    return [name for name, _ in storable_fields(headers, control, cookies)]


def test_what_concerns_one_hop_is_not_stored(headers: Make) -> None:
    got = headers(
        "Connection: close, X-Nominated", "X-Nominated: 1", "Keep-Alive: 5", "TE: x",
        "Transfer-Encoding: chunked", "Upgrade: h2c", "Proxy-Authenticate: Basic",
        "Proxy-Authentication-Info: x", "Proxy-Connection: close", "Trailer: X", "X-Kept: 1",
    )  # fmt: skip
    assert stored(got) == [b"X-Kept"]


def test_length_and_age_are_reckoned_not_stored(headers: Make) -> None:
    assert stored(headers("Content-Length: 5", "Age: 3", "Date: x", "ETag: a")) == [
        b"Date",
        b"ETag",
    ]


def test_unknown_fields_are_stored_in_order_and_repeated(headers: Make) -> None:
    got = headers("B: 1", "A: 2", "b: 3", "Content-Range: odd")
    assert stored(got) == [b"B", b"A", b"b", b"Content-Range"]


def test_fields_that_the_response_reserves_are_left_out(headers: Make) -> None:
    got = headers('Cache-Control: private="A", no-cache="b, c"', "A: 1", "B: 1", "C: 1", "D: 1")
    assert stored(got) == [b"Cache-Control", b"D"]


def test_cookies_are_stripped_where_the_operator_says_so(headers: Make) -> None:
    got = headers("Set-Cookie: a=b", "SET-COOKIE: c=d", "A: 1")
    assert stored(got, SetCookie.STRIP) == [b"A"]
    assert stored(got) == [b"Set-Cookie", b"SET-COOKIE", b"A"]


def test_a_newer_field_replaces_all_lines_of_the_older(headers: Make) -> None:
    old, new = headers("A: 1", "B: 1", "a: 2"), headers("a: 3", "C: 1")
    assert renew_fields(old.fields, new.fields, False) == headers("B: 1", "a: 3", "C: 1").fields


def test_what_describes_the_octets_at_hand_stays(headers: Make) -> None:
    old = headers("Content-Encoding: gzip", "Content-Range: x", 'ETag: W/"a"', "Content-Type: a/b")
    new = headers("Content-Encoding: br", "Content-Range: y", 'ETag: "a"', "Content-Type: c/d")
    renewed = Headers(renew_fields(old.fields, new.fields, True))
    assert renewed.get(b"content-encoding") == b"gzip"
    assert renewed.get(b"content-range") == b"x"
    assert renewed.get(b"etag") == b'W/"a"'
    assert renewed.get(b"content-type") == b"c/d"
    assert Headers(renew_fields(old.fields, new.fields, False)).get(b"etag") == b'"a"'
