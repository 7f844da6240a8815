"""The request target: from octets on the wire to a host and a path on disk.

Placeholder of the record; the parser follows.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Target:
    """A request target taken apart (RFC 9112 §3.2).

    `raw` is the target as sent; `raw_path` its path, undecoded, without query;
    `path` is decoded exactly once and normalised, octets, starting with b"/";
    `query` is what follows the first "?", None if there is none; `authority` is
    host[:port] of an absolute-form target, None for origin form.
    `raw` == b"*" (OPTIONS only) has path b"*".
    """

    raw: bytes
    raw_path: bytes
    path: bytes
    query: bytes | None = None
    authority: bytes | None = None
