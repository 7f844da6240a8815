from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgebox.config.units import (
    LARGEST,
    UNITS,
    Unit,
    format_quantity,
    format_rate,
    format_size,
    format_time,
    parse,
    parse_rate,
    parse_size,
    parse_time,
)

SECONDS = st.floats(min_value=0, max_value=1e9)
WHOLE = st.integers(min_value=0, max_value=LARGEST)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("64 MiB", 64 * 1024 * 1024),
        ("1.5 GiB", 1536 * 1024 * 1024),
        ("512 kB", 512_000),
        ("512kB", 512_000),
        ("0.1 GB", 100_000_000),
        ("7 B", 7),
        ("0", 0),
        ("4096", 4096),
        (4096, 4096),
        ("1.1 KiB", 1126),  # a fraction of an octet is cut off
    ],
)
def test_a_size_is_read_as_bytes(text: object, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("30s", 30),
        ("30 s", 30),
        ("500ms", 0.5),
        ("5m", 300),
        ("2h", 7200),
        ("1d", 86400),
        ("0.1s", 0.1),
        (30, 30),
        (0.1, 0.1),
        ("2", 2),
    ],
)
def test_a_time_is_read_as_seconds(text: object, seconds: float) -> None:
    assert parse_time(text) == seconds


@pytest.mark.parametrize(
    ("text", "rate"),
    [
        ("1 MB/s", 1_000_000),
        ("1 MiB/s", 1024 * 1024),
        ("100 kbit/s", 12_500),
        ("1 Gbit/s", 125_000_000),
        ("8 bit/s", 1),
        (1000, 1000),
        ("1000", 1000),
    ],
)
def test_a_rate_is_read_as_bytes_a_second(text: object, rate: int) -> None:
    assert parse_rate(text) == rate


@given(WHOLE)
def test_a_size_survives_being_written(size: int) -> None:
    assert parse_size(format_size(size)) == size


@given(WHOLE)
def test_a_rate_survives_being_written(rate: int) -> None:
    assert parse_rate(format_rate(rate)) == rate


@given(SECONDS)
def test_a_time_survives_being_written(seconds: float) -> None:
    assert parse_time(format_time(seconds)) == seconds


@pytest.mark.parametrize(
    ("written", "text"),
    [
        (format_size(0), "0 B"),
        (format_size(16384), "16 KiB"),
        (format_size(1_000_000), "1 MB"),
        (format_size(1023), "1023 B"),
        (format_time(0.0), "0s"),
        (format_time(90.0), "90s"),
        (format_time(86400.0), "1d"),
        (format_time(0.5), "500ms"),
        (format_time(0.00025), "0.00025s"),
        (format_rate(1000), "1 kB/s"),
        (format_rate(125_000_000), "1 Gbit/s"),
    ],
)
def test_numbers_are_written_in_the_largest_unit_that_divides_them(written: str, text: str) -> None:
    assert written == text


@pytest.mark.parametrize("unit", UNITS.values(), ids=UNITS)
@pytest.mark.parametrize(
    "value",
    ["", "MiB", "-1 B", "-1", -1, "1e3", "1 2", "\u0661 s", "1,5 s", " 1", True, None, [1],
     float("nan"), float("inf"), -0.5, LARGEST + 1, "9" * 30, "9" * 5000],
    ids=lambda value: repr(value)[:20],
)  # fmt: skip
def test_what_is_no_quantity_is_refused(unit: Unit, value: object) -> None:
    with pytest.raises(ValueError, match=r"write|negative|too large"):
        parse(value, unit)


@pytest.mark.parametrize(
    ("text", "unit", "hint"),
    [
        ("64 mb", "size", "64 MB"),
        ("64M", "size", "64 MiB"),
        ("1.5 kib", "size", "1.5 KiB"),
        ("5 min", "time", "5m"),
        ("30 seconds", "time", "30s"),
        ("30 S", "time", "30s"),
        ("100 Mbps", "rate", "100 Mbit/s"),
    ],
)
def test_a_unit_of_another_spelling_gets_a_hint(text: str, unit: str, hint: str) -> None:
    with pytest.raises(ValueError, match=re.escape(f'did you mean "{hint}"?')):
        parse(text, UNITS[unit])


def test_bits_or_bytes_are_not_guessed() -> None:
    with pytest.raises(ValueError) as refused:
        parse_rate("3 Mb/s")
    assert "did you mean" not in str(refused.value)
    assert "MB/s" in str(refused.value)
    assert "Mbit/s" in str(refused.value)


def test_less_than_a_byte_is_not_taken_for_none() -> None:
    with pytest.raises(ValueError, match="less than 1 B/s"):
        parse_rate("0.5 B/s")


def test_a_fraction_without_unit_is_no_number_of_bytes() -> None:
    with pytest.raises(ValueError, match="write a number of bytes"):
        parse_size(1.5)


@given(
    st.sampled_from(list(UNITS.values())), st.text(alphabet="0123456789. kMGiBbt/smhd", max_size=9)
)
def test_the_pattern_for_editors_allows_what_is_allowed(unit: Unit, text: str) -> None:
    try:
        parse(text, unit)
    except ValueError as error:
        allowed = "less than" in str(error)  # the one thing that no pattern can tell
    else:
        allowed = True
    assert bool(re.fullmatch(unit.pattern, text)) == allowed


@given(st.sampled_from(list(UNITS.values())), WHOLE)
def test_what_is_written_matches_the_pattern_for_editors(unit: Unit, number: int) -> None:
    assert re.fullmatch(unit.pattern, format_quantity(number, unit))
