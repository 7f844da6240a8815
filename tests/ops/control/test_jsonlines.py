from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgebox.ops.control.jsonlines import BadLine, LineReader, LineTooLong, decode, encode, refusal

values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)
messages = st.dictionaries(st.text(), values, max_size=4)


def pieces(octets: bytes, cuts: list[int]) -> list[bytes]:
    ends = sorted({min(cut, len(octets)) for cut in cuts} | {len(octets)})
    return [octets[a:b] for a, b in zip([0, *ends], ends, strict=False)]


@given(st.lists(messages, max_size=5), st.lists(st.integers(0, 400)))
def test_messages_come_out_as_they_went_in_however_they_are_cut(
    sent: list[dict[str, object]], cuts: list[int]
) -> None:
    octets = b"".join(encode(message) for message in sent)
    reader = LineReader(100_000)
    got = [decode(line) for piece in pieces(octets, cuts) for line in reader.feed(piece)]
    assert got == sent
    assert reader.last() == b""


@given(st.binary(max_size=200))
def test_what_is_no_message_has_a_name(line: bytes) -> None:
    with suppress(BadLine):
        assert isinstance(decode(line), dict)


@pytest.mark.parametrize("line", [b"[1]", b"7", b"null", b"{", b"", b"\xff", b"[" * 100_000])
def test_a_message_is_an_object(line: bytes) -> None:
    with pytest.raises(BadLine):
        decode(line)


def test_lines_before_one_that_is_too_long_are_heard() -> None:
    reader = LineReader(4)
    lines = reader.feed(b"abcd\nabcde")
    assert next(lines) == b"abcd"
    with pytest.raises(LineTooLong):
        next(lines)


def test_a_line_too_long_is_noticed_before_it_ends() -> None:
    reader = LineReader(4)
    assert list(reader.feed(b"abc")) == []
    with pytest.raises(LineTooLong):
        list(reader.feed(b"de"))


def test_what_comes_after_the_last_end_is_there() -> None:
    reader = LineReader(10)
    assert list(reader.feed(b"a\nb")) == [b"a"]
    assert reader.last() == b"b"
    assert reader.last() == b""


def test_a_refusal_is_not_ok() -> None:
    assert refusal("no") == {"ok": False, "error": "no"}
