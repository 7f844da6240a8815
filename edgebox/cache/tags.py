"""Names that stored responses go by, so that many can be purged at once.

`Surrogate-Key` is the custom of CDNs: words, case-sensitive, valid for whoever purges.
`Cache-Groups` is RFC 9875: strings that mean something within one origin only, which
answers to unsafe requests can invalidate by `Cache-Group-Invalidation`.
"""

from __future__ import annotations

from edgebox.cache.structured import parse_strings
from edgebox.http.headers import Headers

# RFC 9875 §2 asks for 32 groups of 32 octets at least; CDNs allow 16 KiB of keys.
MOST_NAMES = 256
LONGEST_NAME = 1024


def parse_tags(headers: Headers) -> tuple[bytes, ...]:
    """The words of Surrogate-Key, each once, in order."""
    words = [word for line in headers.all(b"surrogate-key") for word in line.split()]
    return _bounded(words)


def parse_groups(headers: Headers) -> tuple[bytes, ...]:
    """The groups that a response belongs to; none if the field is malformed."""
    return _strings(headers, b"cache-groups")


def parse_invalidated_groups(headers: Headers) -> tuple[bytes, ...]:
    """The groups that a response declares out of date; ask only for unsafe methods (§3)."""
    return _strings(headers, b"cache-group-invalidation")


def _strings(headers: Headers, name: bytes) -> tuple[bytes, ...]:
    value = headers.get(name)
    return () if value is None else _bounded(parse_strings(value) or ())


def _bounded(names: list[bytes] | tuple[bytes, ...]) -> tuple[bytes, ...]:
    once = dict.fromkeys(name for name in names if 0 < len(name) <= LONGEST_NAME)
    return tuple(once)[:MOST_NAMES]
