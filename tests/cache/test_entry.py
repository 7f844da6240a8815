"""The record of a stored response: complete, writable, and true after a restart."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgebox.cache.answer import Instant
from edgebox.cache.entry import StoredResponse, after_restart, encode, maybe_decode
from edgebox.cache.rules import CacheRules, SetCookie
from edgebox.http.headers import Headers

Keep = Callable[..., StoredResponse]
Later = Callable[..., Instant]
HOUR = "Cache-Control: max-age=3600"


def test_the_record_holds_what_policy_needs(keep: Keep, date: Callable[[int], str]) -> None:
    stored = keep(
        HOUR, 'ETag: W/"a"', f"Last-Modified: {date(-9)}", f"Date: {date(-2)}", "Age: 5",
        "Vary: Accept-Language", "Content-Language: de", "Surrogate-Key: k1 k2",
        'Cache-Groups: "g"', asked=("Accept-Language: de, en",), status=203,
    )  # fmt: skip
    assert stored.status == 203
    assert stored.etag == b'W/"a"'
    assert stored.last_modified == date(-9).encode()
    assert stored.date == 1_900_000_000 - 2
    assert stored.initial_age == 5
    assert stored.freshness.lifetime == 3600
    assert stored.variant.selecting == ((b"accept-language", b"de, en"),)
    assert (stored.tags, stored.groups) == ((b"k1", b"k2"), (b"g",))


def test_age_is_sent_to_the_second_and_only_once(keep: Keep, later: Later) -> None:
    stored = keep(HOUR, "Age: 30")
    assert Headers(stored.fields_at(later(2.9))).all(b"age") == [b"32"]
    assert Headers(stored.fields_at(later(3.0))).all(b"age") == [b"33"]


@pytest.mark.parametrize("given", ["Date: nonsense", "Date: "])
def test_a_date_that_is_none_becomes_that_of_receipt(
    keep: Keep, date: Callable[[int], str], given: str
) -> None:
    assert Headers(keep(HOUR, given).fields).all(b"date") == [date(0).encode()]


def test_a_good_date_stays_as_it_was_written(keep: Keep) -> None:
    odd = "Sunday, 06-Nov-94 08:49:37 GMT"
    stored = keep("Cache-Control: max-age=2147483648", f"Date: {odd}")
    assert Headers(stored.fields).all(b"date") == [odd.encode()]


def test_a_last_modified_that_is_no_date_is_no_validator(keep: Keep) -> None:
    assert keep(HOUR, "Last-Modified: once").last_modified is None


def test_cookies_are_gone_where_they_are_stripped(keep: Keep) -> None:
    stored = keep(HOUR, "Set-Cookie: a=b", rules=CacheRules(set_cookie=SetCookie.STRIP))
    assert b"set-cookie" not in Headers(stored.fields)


@given(st.lists(st.tuples(st.binary(min_size=1, max_size=9), st.binary(max_size=9)), max_size=4))
@settings(max_examples=30)
def test_what_is_written_is_read_back_equal(keep: Keep, fields: list[tuple[bytes, bytes]]) -> None:
    stored = msgspec.structs.replace(
        keep(HOUR, "Vary: A, B", asked=("A: 1",)), fields=tuple(fields)
    )
    assert maybe_decode(encode(stored)) == stored


@given(st.data())
@settings(max_examples=50)
def test_what_is_cut_or_damaged_is_read_as_nothing_or_as_a_record(
    keep: Keep, data: st.DataObject
) -> None:
    octets = bytearray(encode(keep(HOUR, 'ETag: "a"')))
    cut = data.draw(st.integers(0, len(octets) - 1))
    assert maybe_decode(bytes(octets[:cut])) is None
    octets[cut] ^= data.draw(st.integers(1, 255))
    assert isinstance(maybe_decode(bytes(octets)), StoredResponse | None)


def test_another_version_or_another_file_is_read_as_nothing(keep: Keep) -> None:
    octets = encode(keep(HOUR))
    assert maybe_decode(octets.replace(b"edgebox-entry-1", b"edgebox-entry-2")) is None
    assert maybe_decode(b"") is None
    assert maybe_decode(b"\x89PNG\r\n\x1a\n" * 9) is None


def test_after_a_restart_the_time_away_counts(keep: Keep, later: Later) -> None:
    stored = keep(HOUR, "Age: 10")
    boot = Instant(later(100).wall, 3.0)
    assert after_restart(stored, boot).age(Instant(boot.wall, 8.0)) == 115


def test_after_a_restart_in_the_past_nothing_is_believed(keep: Keep, later: Later) -> None:
    restarted = after_restart(keep(HOUR), Instant(later(-100).wall, 3.0))
    assert restarted.invalid
    assert restarted.age(Instant(0, 3.0)) == 0
