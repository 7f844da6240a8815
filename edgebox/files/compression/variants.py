"""What a variant is called, which files deserve one, and which variants are kept.

A variant is a plain file in the cache directory, the coded body with a seal behind it, so
sendfile sends it as it is. Its name is a hash of the exact source identity and the
coding: a changed source has another name, hence an old variant can never be served for
a new file, and nothing needs to be invalidated. A file of zero octets under that name is
a marker: compressing was tried and does not pay, so nobody asks again. No coding turns a
non-empty file into nothing, so a marker is never mistaken for an answer.

The level is not part of the name: a changed level holds for what is compressed from then
on. Decisions only: no I/O, no clock.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from hashlib import blake2b
from types import MappingProxyType

from edgebox.config.schema import Compression
from edgebox.files.entry import Identity
from edgebox.http.mime import matches

FORMAT = 2  # raised when octets under a name would mean something else than before
FIELD = len(b"Content-Encoding: zstd\r\n")  # what a variant adds to every head

# Content coding (RFC 9110 §8.4.1, RFC 7932, RFC 8878) → what file names end in.
SIDECAR_SUFFIXES: Mapping[bytes, bytes] = MappingProxyType(
    {b"br": b".br", b"zstd": b".zst", b"gzip": b".gz"}
)


class Worth(Enum):
    """Whether a file is compressed at all, or why not; the value tells an operator."""

    OK = "ok"
    TOO_SMALL = "smaller than min_size"
    TOO_LARGE = "larger than max_size"
    TYPE = "type not listed"
    DISABLED = "compression is off"


class Kept(Enum):
    """What becomes of a coded body once its length is known."""

    VARIANT = "variant"  # it is kept and served
    MARKER = "marker"  # it is dropped; an empty file remembers that


def variant_name(identity: Identity, coding: bytes) -> bytes:
    """Path relative to the cache directory: b"ab/cdef….br".

    256 directories by the first octet of the hash. KeyError for an unknown coding.
    """
    facts = b"edgebox variant %d %s %d %d %d %d %d" % (FORMAT, coding, *identity)
    name = blake2b(facts, digest_size=20).hexdigest().encode()
    return name[:2] + b"/" + name[2:] + SIDECAR_SUFFIXES[coding]


def worth_compressing(size: int, content_type: bytes, config: Compression) -> Worth:
    """Judge a file of `size` octets; `content_type` may carry parameters."""
    if not (config.enabled and config.codings and config.dir_size):
        return Worth.DISABLED
    if size < max(config.min_size, 1):
        return Worth.TOO_SMALL
    if size > config.max_size:
        return Worth.TOO_LARGE
    return Worth.OK if matches(content_type, config.types) else Worth.TYPE


def judge(before: int, after: int) -> Kept:
    """Decide on a coded body of `after` octets made from `before`.

    It must save the field that announces it and a twentieth of the file: for less, a
    second copy in RAM and on disk and the client's decoding are not worth it.
    """
    return Kept.VARIANT if before - after >= max(FIELD, before // 20) else Kept.MARKER


def settled_at(identity: Identity) -> int:
    """From when on, in ns since 1970, no further change can hide behind this identity.

    Two writes within one tick of a file system's clock leave equal times. The kernel's tick
    is at most 10 ms; file systems that keep whole seconds (FAT: every other) show it in
    their ctime, which nobody can set. A variant lives as long as its source's identity, so
    what is read before this moment must not become one.
    """
    whole_seconds = identity.ctime_ns % 1_000_000_000 == 0
    return identity.ctime_ns + (2_000_000_000 if whole_seconds else 20_000_000)
