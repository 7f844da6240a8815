"""Where a key's files lie: the same for everyone, and never two keys' at one place."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgebox.cache.disk.layout import (
    LEAVES,
    Place,
    directory_of,
    footprint,
    label_of,
    leaf_of,
    name_of,
    names_in,
    parse_file,
)
from edgebox.cache.vary import Variant

names = st.binary(min_size=16, max_size=16)
labels = st.just(b"") | st.binary(min_size=8, max_size=8)


@given(names, labels)
def test_a_place_can_be_told_from_its_path(name: bytes, label: bytes) -> None:
    place = Place(name, label)
    _, directory, file = place.path.split(b"/")
    assert directory == directory_of(place.leaf)
    assert parse_file(int(directory, 16), file) == place


@given(names)
def test_a_name_is_within_the_range_of_its_leaf_and_of_no_other(name: bytes) -> None:
    leaf = leaf_of(name)
    inside = [n for n in (leaf - 1, leaf, leaf + 1) if 0 <= n < LEAVES and in_range(name, n)]
    assert inside == [leaf]


def in_range(name: bytes, leaf: int) -> bool:
    low, high = names_in(leaf)
    return low <= name < high


@pytest.mark.parametrize("leaf", [0, 1, LEAVES - 1])
def test_the_ends_of_a_leaf_are_within_it(leaf: int) -> None:
    for tail in (b"\0" * 15, b"\xff" * 15):
        for nibble in (0, 15):
            name = (leaf << 4 | nibble).to_bytes(2, "big") + tail[:14]
            assert leaf_of(name) == leaf
            assert in_range(name, leaf)


@pytest.mark.parametrize(
    "file", [b"", b"a", b".new-1-1", b"0" * 28, b"0" * 30, b"0" * 29 + b"-", b"A" * 29,
             b"0" * 29 + b"-" + b"0" * 15, b"0" * 29 + b"\n"],
)  # fmt: skip
def test_other_names_are_none_of_ours(file: bytes) -> None:
    assert parse_file(0, file) is None


def test_keys_have_names_of_their_own() -> None:
    assert name_of(b"http://a/") != name_of(b"http://b/")
    assert name_of(b"http://a/") == name_of(b"http://a/")


def test_variants_that_select_alike_replace_each_other() -> None:
    english, german = ((b"accept-language", b"en"),), ((b"accept-language", b"de"),)
    assert label_of(Variant(english)) == label_of(Variant(english, language=b"en"))
    assert len({label_of(Variant(s)) for s in (english, german, ())}) == 3


@pytest.mark.parametrize(("size", "taken"), [(0, 4096), (1, 4096), (4096, 4096), (4097, 8192)])
def test_files_take_whole_blocks(size: int, taken: int) -> None:
    assert footprint(size) == taken
