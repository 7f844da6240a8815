"""Names to purge by are read from the fields, bounded in number and length."""

from __future__ import annotations

from collections.abc import Callable

from edgebox.cache.tags import (
    LONGEST_NAME,
    MOST_NAMES,
    parse_groups,
    parse_invalidated_groups,
    parse_tags,
)
from edgebox.http.headers import Headers

Make = Callable[..., Headers]


def test_surrogate_keys_are_words(headers: Make) -> None:
    assert parse_tags(headers("Surrogate-Key: a  B a", "Surrogate-Key: c")) == (b"a", b"B", b"c")
    assert parse_tags(headers()) == ()


def test_groups_are_strings_and_nothing_else(headers: Make) -> None:
    assert parse_groups(headers('Cache-Groups: "a";p=1, "b c"', 'Cache-Groups: "a"')) == (
        b"a",
        b"b c",
    )
    assert parse_groups(headers("Cache-Groups: a, b")) == ()
    assert parse_groups(headers('Cache-Groups: "a')) == ()
    assert parse_invalidated_groups(headers('Cache-Group-Invalidation: "a"')) == (b"a",)


def test_number_and_length_are_bounded(headers: Make) -> None:
    many = headers("Surrogate-Key: " + " ".join(map(str, range(MOST_NAMES + 9))))
    assert len(parse_tags(many)) == MOST_NAMES
    long = headers("Surrogate-Key: " + "x" * (LONGEST_NAME + 1) + " y")
    assert parse_tags(long) == (b"y",)
