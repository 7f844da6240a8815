"""Codings: what goes in comes out of everybody's decoder."""

from __future__ import annotations

import random
import shutil
import subprocess
from collections.abc import Callable, Iterable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from edgebox.files.compression.coders import open_coder

CODINGS = [b"gzip", b"br", b"zstd"]
MIB = 1 << 20

Decode = Callable[[bytes, bytes], bytes]


def code(coding: bytes, level: int, pieces: Iterable[bytes], size: int) -> bytes:
    coder = open_coder(coding, level, size)
    return b"".join([*[coder.process(piece) for piece in pieces], coder.finish()])


def cut(octets: bytes, size: int) -> list[bytes]:
    return [octets[i : i + size] for i in range(0, len(octets), size)]


@pytest.fixture(scope="module")
def twelve_mebibytes() -> bytes:
    """Random words, so that a match may lie far back."""
    rng = random.Random(7)
    words = [rng.randbytes(rng.randrange(3, 200)) for _ in range(20_000)]
    octets = b"".join(rng.choices(words, k=140_000))
    assert len(octets) > 12 * MIB
    return octets[: 12 * MIB]


@pytest.mark.parametrize("coding", CODINGS)
@given(octets=st.binary(min_size=1, max_size=3000), size=st.integers(1, 3000))
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_every_decoder_gives_back_what_was_coded_however_it_was_cut(
    decode: Decode, coding: bytes, octets: bytes, size: int
) -> None:
    assert decode(coding, code(coding, 5, cut(octets, size), len(octets))) == octets


@pytest.mark.parametrize("coding", CODINGS)
def test_equal_input_gives_equal_output(coding: bytes, text: bytes) -> None:
    first, second = (code(coding, 9, cut(text, 1000), len(text)) for _ in range(2))
    assert first == second
    assert len(first) < len(text) / 3


def test_a_gzip_header_tells_neither_time_nor_name(text: bytes) -> None:
    """RFC 1952 §2.3: FLG and MTIME are zero."""
    assert code(b"gzip", 9, [text], len(text))[:8] == b"\x1f\x8b\x08\0\0\0\0\0"


@pytest.mark.parametrize(
    ("coding", "tool"), [(b"gzip", "gzip"), (b"br", "brotli"), (b"zstd", "zstd")]
)
def test_the_usual_tools_decode_it(coding: bytes, tool: str, text: bytes) -> None:
    if shutil.which(tool) is None:
        pytest.skip(f"needs {tool}: apt-get install {tool}")
    coded = code(coding, 9, cut(text, 777), len(text))
    done = subprocess.run([tool, "-dc"], input=coded, capture_output=True, check=True)
    assert done.stdout == text


def window_size(frame: bytes) -> int:
    """What a decoder must hold for a frame (RFC 8878 §3.1.1.1)."""
    assert frame[:4] == b"\x28\xb5\x2f\xfd"
    descriptor = frame[4]
    if descriptor & 0x20:  # single segment: the whole content
        flag = descriptor >> 6
        width = 1 << flag
        assert descriptor & 0x03 == 0
        size = int.from_bytes(frame[5 : 5 + width], "little")
        return size + 256 if flag == 1 else size
    exponent, mantissa = frame[5] >> 3, frame[5] & 7
    base = 1 << (10 + exponent)
    return base + base // 8 * mantissa


@pytest.mark.slow
@pytest.mark.parametrize("level", [1, 3, 15])
def test_zstd_asks_no_decoder_for_more_than_8_mebibytes(
    level: int, twelve_mebibytes: bytes, decode: Decode
) -> None:
    """RFC 9659 §3: beyond that a browser refuses."""
    frame = code(b"zstd", level, cut(twelve_mebibytes, 1 << 17), 12 * MIB)
    assert MIB <= window_size(frame) <= 8 * MIB
    assert decode(b"zstd", frame) == twelve_mebibytes


@pytest.mark.slow
@pytest.mark.parametrize("level", [19, 22])
def test_zstd_windows_stay_small_where_the_level_would_have_a_large_one(level: int) -> None:
    octets = bytes(12 * MIB)
    assert window_size(code(b"zstd", level, cut(octets, 1 << 17), 12 * MIB)) <= 8 * MIB


def test_zstd_tells_the_length_of_a_small_file_and_no_larger_window(text: bytes) -> None:
    assert window_size(code(b"zstd", 19, cut(text, 1000), len(text))) == len(text)


@pytest.mark.slow
@pytest.mark.parametrize("coding", CODINGS)
def test_large_files_survive(coding: bytes, twelve_mebibytes: bytes, decode: Decode) -> None:
    coded = code(coding, 1, cut(twelve_mebibytes, 1 << 17), 12 * MIB)
    assert decode(coding, coded) == twelve_mebibytes


@pytest.mark.parametrize(
    ("size", "window_bits"), [(1000, 16), (65520, 16), (65521, 17), (5 * MIB, 22)]
)
def test_a_brotli_window_is_no_larger_than_the_body_needs(size: int, window_bits: int) -> None:
    """The client allocates it (RFC 7932 §9.1: WBITS comes first)."""
    first = code(b"br", 5, cut(bytes(size), 1 << 17), size)[0]
    encoded = {16: 0b0, 17: 0b0000001, 22: 0b1011}[window_bits]
    width = {16: 1, 17: 7, 22: 4}[window_bits]
    assert first & ((1 << width) - 1) == encoded


def test_an_unknown_coding_is_refused() -> None:
    with pytest.raises(ValueError, match="deflate"):
        open_coder(b"deflate", 6, 100)
