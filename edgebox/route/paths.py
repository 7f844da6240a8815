"""Which paths a route's prefix takes. Pure."""

from __future__ import annotations


def is_below(path: bytes, prefix: bytes) -> bool:
    """Whether `path` lies at or below `prefix`.

    A prefix that ends in "/" is a directory of paths; any other matches whole segments, so
    that "/app" is "/app" and "/app/x" but not "/apple".
    """
    if not path.startswith(prefix):
        return False
    return prefix.endswith(b"/") or path[len(prefix) : len(prefix) + 1] in (b"", b"/")
