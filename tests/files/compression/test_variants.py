"""Names, worth and keeping: pure decisions about variants."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgebox.config.schema import Compression
from edgebox.files.compression.variants import (
    SIDECAR_SUFFIXES,
    Kept,
    Worth,
    judge,
    settled_at,
    variant_name,
    worth_compressing,
)
from edgebox.files.entry import Identity

numbers = st.integers(min_value=0, max_value=2**64 - 1)
identities = st.builds(Identity, numbers, numbers, numbers, numbers, numbers)
SECOND = 1_000_000_000


@given(identities, st.sampled_from(sorted(SIDECAR_SUFFIXES)))
def test_a_name_is_a_short_fanned_out_hash_that_tells_the_coding(
    identity: Identity, coding: bytes
) -> None:
    name = variant_name(identity, coding)
    assert re.fullmatch(rb"[0-9a-f]{2}/[0-9a-f]{38}\.(br|zst|gz)", name)
    assert name.endswith(SIDECAR_SUFFIXES[coding])
    assert name == variant_name(identity, coding)


@given(identities, st.integers(0, 4), numbers)
def test_any_change_of_the_source_changes_the_name(
    identity: Identity, field: int, value: int
) -> None:
    values = list(identity)
    values[field] = value
    changed = Identity(*values)
    same = variant_name(changed, b"br") == variant_name(identity, b"br")
    assert same == (changed == identity)


def test_names_stay_what_they_are_or_every_cache_is_lost() -> None:
    identity = Identity(1, 2, 3, 4, 5)
    assert variant_name(identity, b"br") == b"49/a769168b3112558e8653649feca1ed5c0ee3ba.br"


def test_an_unknown_coding_has_no_name() -> None:
    with pytest.raises(KeyError):
        variant_name(Identity(1, 2, 3, 4, 5), b"deflate")


@pytest.mark.parametrize(
    ("size", "content_type", "worth"),
    [
        (256, b"text/plain", Worth.OK),
        (16 << 20, b"text/html; charset=utf-8", Worth.OK),
        (255, b"text/plain", Worth.TOO_SMALL),
        ((16 << 20) + 1, b"text/plain", Worth.TOO_LARGE),
        (4096, b"image/png", Worth.TYPE),
        (4096, b"application/gzip", Worth.TYPE),
    ],
)
def test_worth_depends_on_size_and_type(size: int, content_type: bytes, worth: Worth) -> None:
    assert worth_compressing(size, content_type, Compression()) is worth


@pytest.mark.parametrize(
    "config", [Compression(enabled=False), Compression(codings=()), Compression(dir_size=0)]
)
def test_nothing_is_worth_it_where_no_variant_can_be_made(config: Compression) -> None:
    assert worth_compressing(4096, b"text/plain", config) is Worth.DISABLED


def test_an_empty_file_is_too_small_whatever_is_configured() -> None:
    """Else its variant could be taken for a marker."""
    config = Compression(min_size=0)
    assert worth_compressing(0, b"text/plain", config) is Worth.TOO_SMALL
    assert worth_compressing(1, b"text/plain", config) is Worth.OK


@given(st.integers(1, 1 << 32), st.integers(1, 1 << 32))
def test_what_is_kept_is_smaller_by_its_field_and_a_twentieth(before: int, after: int) -> None:
    if judge(before, after) is Kept.VARIANT:
        assert after + len(b"Content-Encoding: zstd\r\n") <= before
        assert after <= 0.95 * before + 1
    else:
        assert after > 0.94 * before or before - after < 24


@pytest.mark.parametrize(
    ("before", "after", "kept"),
    [
        (1000, 950, Kept.VARIANT),
        (1000, 951, Kept.MARKER),
        (300, 276, Kept.VARIANT),
        (300, 277, Kept.MARKER),
        (300, 400, Kept.MARKER),
    ],
)
def test_the_border_between_variant_and_marker(before: int, after: int, kept: Kept) -> None:
    assert judge(before, after) is kept


def test_a_fine_clock_settles_soon_and_a_coarse_one_late() -> None:
    fine = Identity(1, 2, 3, 4, 7 * SECOND + 1)
    coarse = Identity(1, 2, 3, 4, 7 * SECOND)
    assert 10_000_000 < settled_at(fine) - fine.ctime_ns < SECOND // 10
    assert settled_at(coarse) - coarse.ctime_ns == 2 * SECOND
