"""Where things lie in the cache directory, and what files are called. No I/O.

A response lies in `objects/abc/`, a directory chosen by the first twelve bits of the hash of
its key, under the rest of the hash. As long as a key has one variant, that one has this name:
one open, or one ENOENT for a miss. With the second variant the name goes to a roster, a file
of a few octets that lists labels, and each variant gets the name with its label appended;
labels are hashes of what Vary selects by. The index and the housekeeper deal in names, that
is, in keys with all their variants.
"""

from __future__ import annotations

import re
from hashlib import blake2b
from typing import NamedTuple

import msgspec

from edgebox.cache.vary import Variant

OBJECTS = b"objects"
SPACE = b"space"
PURGES = b"purges"
INDEX = b"index.sqlite"
NOTES = b"notes"  # a socket
LOCK = b"housekeeper.lock"

# At a million objects 244 of them share a directory, which ext4 reads in three blocks.
LEAVES = 4096
BLOCK = 4096  # ext4, xfs and btrfs allocate by this
_FILE = re.compile(rb"([0-9a-f]{29})(?:-([0-9a-f]{16}))?")


class Place(NamedTuple):
    """One file: `name` is the hash of the key, `label` that of the variant, b"" for the base."""

    name: bytes
    label: bytes = b""

    @property
    def leaf(self) -> int:
        return leaf_of(self.name)

    @property
    def file(self) -> bytes:
        """The file's name within its directory."""
        base = self.name.hex()[3:]
        return (f"{base}-{self.label.hex()}" if self.label else base).encode()

    @property
    def path(self) -> bytes:
        """The path below `objects`, with a slash in front."""
        return b"/%s/%s" % (directory_of(self.leaf), self.file)


def name_of(key: bytes) -> bytes:
    return blake2b(key, digest_size=16, person=b"edgebox cache").digest()


def label_of(variant: Variant) -> bytes:
    """Equal for variants of a key that replace each other."""
    return blake2b(msgspec.msgpack.encode(variant.selecting), digest_size=8).digest()


def leaf_of(name: bytes) -> int:
    return name[0] << 4 | name[1] >> 4


def directory_of(leaf: int) -> bytes:
    return b"%03x" % leaf


def names_in(leaf: int) -> tuple[bytes, bytes]:
    """The least name of a leaf, and one that is greater than all of them."""
    low, high = leaf << 4, (leaf + 1) << 4
    return low.to_bytes(2, "big"), high.to_bytes(2, "big") if high < 1 << 16 else b"\xff" * 17


def parse_file(leaf: int, file: bytes) -> Place | None:
    """The place that a file name in a leaf stands for; None if it is none of ours."""
    found = _FILE.fullmatch(file)
    if found is None:
        return None
    name = bytes.fromhex((directory_of(leaf) + found[1]).decode())
    return Place(name, bytes.fromhex((found[2] or b"").decode()))


def footprint(size: int) -> int:
    """Octets that a file of `size` takes on disk; an empty one takes an inode at least."""
    return max(1, -(-size // BLOCK)) * BLOCK
