"""gzip, Brotli and Zstandard behind one shape: feed pieces, then finish.

Memory is the coder's window and tables, whatever the file's length. Equal input gives equal
output: the gzip header carries no time and no name. Zstandard frames never ask for a window
above 8 MiB, beyond which browsers refuse them (RFC 9659 §3), and tell the length of
their content. Knows no files and no HTTP.
"""

from __future__ import annotations

import sys
import zlib
from typing import Protocol

import brotli

if sys.version_info >= (3, 14):  # pragma: no cover
    from compression.zstd import CompressionParameter, ZstdCompressor
else:
    from backports.zstd import CompressionParameter, ZstdCompressor

ZSTD_WINDOW_LOG = 23  # 8 MiB
ZSTD_SMALLEST_LOG = 10
BROTLI_WINDOW_LOG = 22  # 4 MiB, the library's own choice
BROTLI_SMALLEST_LOG = 16
GZIP_FORMAT = 16 + zlib.MAX_WBITS  # RFC 1952 wrapper, 32 KiB window


class Coder(Protocol):
    """One body on its way through a coding."""

    def process(self, piece: bytes) -> bytes:
        """Take the next octets; return what is ready, perhaps nothing."""
        ...

    def finish(self) -> bytes:
        """Return the rest. ZstdError if zstd got other than the `size` promised to it."""
        ...


class _Gzip:
    def __init__(self, level: int) -> None:
        coder = zlib.compressobj(level, zlib.DEFLATED, GZIP_FORMAT, zlib.DEF_MEM_LEVEL + 1)
        self.process = coder.compress
        self.finish = coder.flush


class _Zstd:
    def __init__(self, level: int, size: int) -> None:
        # The window is set rather than left to the level: unset, level 20 and up take more.
        window_log = min(ZSTD_WINDOW_LOG, max(ZSTD_SMALLEST_LOG, (size - 1).bit_length()))
        coder = ZstdCompressor(
            options={
                CompressionParameter.compression_level: level,
                CompressionParameter.window_log: window_log,
            }
        )
        coder.set_pledged_input_size(size)
        self.process = coder.compress
        self.finish = coder.flush


def _open_brotli(level: int, size: int) -> Coder:
    # A window no larger than the body (RFC 7932 §9.1 takes 16 octets off): a 4 kB file cost
    # 5.1 ms with 4 MiB, nearly all of it page faults, and 0.2 ms with 64 KiB (2026-11-30).
    # The client, too, allocates what is announced.
    window_log = min(BROTLI_WINDOW_LOG, max(BROTLI_SMALLEST_LOG, (size + 15).bit_length()))
    return brotli.Compressor(quality=level, lgwin=window_log)  # type: ignore[no-any-return]


def open_coder(coding: bytes, level: int, size: int) -> Coder:
    """A coder for a body of exactly `size` octets; ValueError for an unknown coding."""
    if coding == b"gzip":
        return _Gzip(level)
    if coding == b"zstd":
        return _Zstd(level, size)
    if coding == b"br":
        return _open_brotli(level, size)
    raise ValueError(f"unknown content coding {coding!r}")
