"""A seal holds for one content under one name."""

from __future__ import annotations

from zlib import crc32

from hypothesis import given
from hypothesis import strategies as st

from edgebox.files import seal

NAME = b"ab/cdef.br"


def sealed(content: bytes, name: bytes = NAME) -> bytes:
    return content + seal.seal(crc32(content, seal.begin(name)))


@given(st.binary(max_size=100))
def test_what_was_sealed_is_opened_under_its_name(content: bytes) -> None:
    assert seal.maybe_open(NAME, sealed(content)) == content
    assert seal.maybe_open(b"/" + NAME, sealed(content)) == content
    assert seal.maybe_open(b"ab/cdef.gz", sealed(content)) is None


@given(st.binary(max_size=100), st.data())
def test_a_single_bit_breaks_it(content: bytes, data: st.DataObject) -> None:
    octets = bytearray(sealed(content))
    bit = data.draw(st.integers(0, 8 * len(octets) - 1))
    octets[bit // 8] ^= 1 << bit % 8
    assert seal.maybe_open(NAME, bytes(octets)) is None


@given(st.binary(min_size=1, max_size=100), st.data())
def test_what_is_cut_short_is_not_opened(content: bytes, data: st.DataObject) -> None:
    octets = sealed(content)
    assert seal.maybe_open(NAME, octets[: data.draw(st.integers(0, len(octets) - 1))]) is None
