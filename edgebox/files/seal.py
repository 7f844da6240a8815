"""The end of a file that we wrote ourselves, by which it is known to be whole and in its place.

Whoever finds a compressed variant under its name believes that it has the octets of its source.
A disk that forgot some, or an operator who copied files about, would make that a lie for each
client. So a checksum of name and content stands behind the content, and is compared whenever a
file is loaded or opened anew, not for each request. Pure.
"""

from __future__ import annotations

from struct import Struct
from zlib import crc32

_SEAL = Struct(">4sI")
_MAGIC = b"ebx\n"  # not what a coded body ends with, or one in four billion times

SIZE = _SEAL.size


def begin(name: bytes) -> int:
    """The checksum of a file of that name that has no content yet; crc32() goes on from there."""
    return crc32(name.lstrip(b"/"))


def seal(checksum: int) -> bytes:
    """What is to follow the content."""
    return _SEAL.pack(_MAGIC, checksum)


def is_right(checksum: int, end: bytes) -> bool:
    """Whether a file that ends so has the content of that checksum."""
    return end == seal(checksum)


def maybe_open(name: bytes, octets: bytes) -> bytes | None:
    """The content of a whole file; None where the file is damaged or of another name."""
    content = octets[:-SIZE]
    return content if is_right(crc32(content, begin(name)), octets[-SIZE:]) else None
