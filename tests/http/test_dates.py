"""HTTP dates: what is written can be read, in whatever of the three forms."""

from __future__ import annotations

from datetime import UTC, datetime
from email.utils import formatdate

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from edgebox.http.dates import format_date, parse_date

NOW = 1_795_000_000  # 2026-11-18
EXAMPLE = 784_111_777  # RFC 9110 §5.6.7: Sun, 06 Nov 1994 08:49:37 GMT

years_1_to_9999 = st.integers(-62_135_596_800, 253_402_300_799)


def at(
    year: int, month: int = 1, day: int = 1, hour: int = 0, minute: int = 0, second: int = 0
) -> int:
    return int(datetime(year, month, day, hour, minute, second, tzinfo=UTC).timestamp())


@pytest.mark.parametrize(
    "value",
    [
        b"Sun, 06 Nov 1994 08:49:37 GMT",
        b"Sunday, 06-Nov-94 08:49:37 GMT",
        b"Sun Nov  6 08:49:37 1994",
        b"sun, 06 NOV 1994 08:49:37 gmt",  # RFC 9111 §4.2: without regard to case
        b"Mon, 06 Nov 1994 08:49:37 GMT",  # the wrong day of the week does no harm
    ],
)
def test_all_forms_of_the_rfc_are_read(value: bytes) -> None:
    assert parse_date(value, NOW) == EXAMPLE


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"0",
        b"-1",
        b"784111777",
        b"Sun, 06 Nov 1994 08:49:37",
        b"Sun, 06 Nov 1994 08:49:37 UTC",  # RFC 9111 §4.2: no zone but GMT
        b"Sun, 06 Nov 1994 08:49:37 +0000",
        b"Sun, 06 Nov 1994 08:49:37 GMT\n",
        b" Sun, 06 Nov 1994 08:49:37 GMT",
        b"Sun,  06 Nov 1994 08:49:37 GMT",
        b"Sun 06 Nov 1994 08:49:37 GMT",
        b"Sun, 06-Nov-1994 08:49:37 GMT",
        b"Sun, 06 Nov 94 08:49:37 GMT",
        b"Sun, 6 Nov 1994 08:49:37 GMT",
        b"Sun, 06 Nov 1994 8:49:37 GMT",
        b"Sun, 06 Nov 1994 08.49.37 GMT",
        b"Sun, 06 Nov 1994 24:00:00 GMT",
        b"Sun, 06 Nov 1994 08:60:00 GMT",
        b"Sun, 06 Nov 1994 08:49:61 GMT",
        b"Sun, 00 Nov 1994 08:49:37 GMT",
        b"Wed, 30 Feb 1994 08:49:37 GMT",
        b"Wed, 29 Feb 2023 08:49:37 GMT",
        b"Sat, 01 Jan 0000 00:00:00 GMT",
        b"Sun, 06 Foo 1994 08:49:37 GMT",
        b"Son, 06 Nov 1994 08:49:37 GMT",
        b"Sun, 06-Nov-94 08:49:37 GMT",
        b"Sunday, 06-Nov-1994 08:49:37 GMT",
        b"Sun Nov 6 08:49:37 1994",
        b"Sun Nov  6 08:49:37 1994 GMT",
        b"Sun, 06 Nov 1994 08:49:37 GMT, Sun, 06 Nov 1994 08:49:37 GMT",
        "Sun, ٠٦ Nov 1994 08:49:37 GMT".encode(),
    ],
)
def test_anything_else_is_no_date(value: bytes) -> None:
    assert parse_date(value, NOW) is None


def test_a_leap_second_is_the_next_minute() -> None:
    assert parse_date(b"Sat, 31 Dec 2016 23:59:60 GMT", NOW) == at(2017)


@pytest.mark.parametrize(
    ("now", "value", "year"),
    [
        (at(2026, 11, 30), b"Sunday, 06-Nov-94 08:49:37 GMT", 1994),
        (at(2026, 11, 30), b"Friday, 06-Nov-26 08:49:37 GMT", 2026),
        (at(2026, 11, 30), b"Friday, 06-Nov-76 08:49:37 GMT", 2076),
        (at(2026, 11, 30), b"Friday, 06-Nov-77 08:49:37 GMT", 1977),
        (at(2090, 11, 30), b"Friday, 06-Nov-05 08:49:37 GMT", 2105),
        # the bound is an instant, not a year
        (at(2026, 11, 6, 8, 49, 37), b"Friday, 06-Nov-76 08:49:37 GMT", 2076),
        (at(2026, 11, 6, 8, 49, 36), b"Friday, 06-Nov-76 08:49:37 GMT", 1976),
    ],
)
def test_two_digit_years_over_50_years_ahead_are_in_the_past(
    now: int, value: bytes, year: int
) -> None:
    assert parse_date(value, now) == at(year, 11, 6, 8, 49, 37)


@given(years_1_to_9999)
@example(0)
@example(-1)
@example(-62_135_596_800)
@example(253_402_300_799)
def test_what_is_written_is_read_back(seconds: int) -> None:
    written = format_date(seconds)
    assert len(written) == 29
    assert parse_date(written, NOW) == seconds


@given(st.integers(at(1970), at(2300)))
def test_the_standard_library_writes_the_same(seconds: int) -> None:
    assert format_date(seconds) == formatdate(seconds, usegmt=True).encode()


@settings(max_examples=50)
@given(st.integers(at(1977), at(2076)))
def test_obsolete_forms_say_the_same_second(seconds: int) -> None:
    t = datetime.fromtimestamp(seconds, UTC)
    asctime = f"{t:%a %b} {t.day:2d} {t:%H:%M:%S %Y}"
    rfc850 = f"{t:%A, %d-%b-%y %H:%M:%S} GMT"
    assert parse_date(asctime.encode(), NOW) == seconds
    assert parse_date(rfc850.encode(), NOW) == seconds


@pytest.mark.parametrize(
    ("seconds", "end"),
    [(-(10**30), b"Mon, 01 Jan 0001 00:00:00 GMT"), (10**30, b"Fri, 31 Dec 9999 23:59:59 GMT")],
)
def test_times_that_four_digits_cannot_say_are_clamped(seconds: int, end: bytes) -> None:
    assert format_date(seconds) == end


@settings(max_examples=50)
@given(st.binary(max_size=40), st.integers())
def test_no_octets_make_it_raise(value: bytes, now: int) -> None:
    assert parse_date(value, now) is None


@settings(max_examples=20)
@given(
    st.from_regex(rb"[A-Z][a-z]{2,8}(, \d\d[- ]| )[A-Z][a-z]{2}[- ]\d{2,4} \d\d:\d\d:\d\d( GMT)?"),
    st.integers(),
)
def test_no_likely_text_makes_it_raise(value: bytes, now: int) -> None:
    assert isinstance(parse_date(value, now), int | None)
