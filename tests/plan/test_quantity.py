"""Promises of how numbers are written: exact where it matters, short elsewhere."""

from __future__ import annotations

import pytest

from edgebox.plan.quantity import many, seconds, significant, size, written


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (None, "bytes", "unknown"),
        (True, "", "yes"),
        ("mq", "", "mq"),
        (0, "bytes", "0 B"),
        (26_890, "bytes", "26,890 B"),
        (99_999, "bytes", "99,999 B"),
        (512 * 1024, "bytes", "512 KiB"),
        (64 * 1024**2, "bytes", "64 MiB"),
        (int(1.5 * 1024**3), "bytes", "1.5 GiB"),
        (3 * 1024**4, "bytes", "3 TiB"),
        (117_685_000, "bytes/s", "117.7 MB/s"),
        (1000, "bytes/s", "1 kB/s"),
        (10**9, "bits/s", "1 Gbit/s"),
        (2_500_000_000, "bits/s", "2.5 Gbit/s"),
        (4377.2, "1/s", "4,377/s"),
        (0.749, "1/s", "0.749/s"),
        (0.1, "s", "100 ms"),
        (30.0, "s", "30 s"),
        (0, "s", "0 s"),
        (7.23, "µs", "7.23 µs"),
        (0.163, "ns", "0.163 ns"),
        (1_048_576, "", "1,048,576"),
    ],
)
def test_a_number_is_written_as_people_say_it(value: object, unit: str, text: str) -> None:
    assert written(value, unit) == text  # type: ignore[arg-type]


def test_no_number_is_written_as_a_power_of_ten() -> None:
    for value in (0.0001, 0.5, 3.14159, 23.18, 117.68, 99_999.5, 1e15):
        assert "e" not in significant(value)


def test_times_below_a_second_are_milliseconds() -> None:
    assert seconds(0.086) == "86 ms"
    assert seconds(1.5) == "1.5 s"


def test_one_is_singular() -> None:
    assert [many(n, "core") for n in (0, 1, 2)] == ["0 cores", "1 core", "2 cores"]
    assert many(2304, "directory", "directories") == "2,304 directories"


def test_sizes_just_below_a_unit_stay_below_it() -> None:
    assert size(1024**2 - 1).endswith("KiB")
