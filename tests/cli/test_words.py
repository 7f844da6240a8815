"""Figures at a glance."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgebox.cli import words

numbers = st.floats(0, 1e15)


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        (words.count(0), "0"),
        (words.count(999), "999"),
        (words.count(999.9), "1.00 k"),
        (words.count(12_345), "12.3 k"),
        (words.count(1_200_000), "1.20 M"),
        (words.size(1023), "1.00 KiB"),
        (words.size(512), "512 B"),
        (words.size(256 * 2**20), "256 MiB"),
        (words.rate(118e6), "118 MB/s"),
        (words.bits(125e6), "1.00 Gbit/s"),
        (words.seconds(0), "-"),
        (words.seconds(0.000085), "85.0 µs"),
        (words.seconds(0.00125), "1.25 ms"),
        (words.seconds(3.2), "3.20 s"),
        (words.duration(45), "45 s"),
        (words.duration(725), "12 min 5 s"),
        (words.duration(11_400), "3 h 10 min"),
        (words.duration(187_200), "2 d 4 h"),
        (words.percent(1, 3), "33.3 %"),
        (words.percent(1, 0), "-"),
        (words.bar(0.5, 4), "██  "),
        (words.bar(0.0, 4), "    "),
        (words.bar(7.0, 4), "████"),
        (words.bar(0.125, 1), "▏"),
        (words.sparkline([0, 1, 2, 4], 10), "▁▂▄█"),
        (words.sparkline([0, 1, 2, 4], 2), "▄█"),
        (words.sparkline([0, 1], 5, ceiling=8), "▁▁"),
        (words.sparkline([], 5), ""),
        (words.sparkline([0, 0], 5), "▁▁"),
        (words.cut("abcdef", 4), "abc…"),
        (words.cut("abcd", 4), "abcd"),
        (words.printable("a\x1b[2J\nb"), "a�[2J�b"),
    ],
)
def test_figures(shown: str, expected: str) -> None:
    assert shown == expected


@given(numbers)
def test_a_figure_is_short_whatever_it_is(number: float) -> None:
    for show in (words.count, words.size, words.rate, words.seconds):
        assert len(show(number)) <= 24
    assert words.count(number)[0].isdigit()


@given(st.lists(numbers, max_size=30), st.integers(0, 20), numbers)
def test_a_sparkline_has_a_cell_a_value_and_no_more_than_fit(
    values: list[float], width: int, ceiling: float
) -> None:
    assert len(words.sparkline(values, width, ceiling)) == min(len(values), width)


@given(numbers, st.integers(1, 40))
def test_a_bar_has_its_width(share: float, width: int) -> None:
    assert len(words.bar(share, width)) == width
