"""Which site answers for a host. Pure; built once from the configuration.

Exact names win, then the longest "*.suffix", then "*". A trailing dot and the port
were taken off before (`http/target`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Generic, TypeVar

T = TypeVar("T")


class Router(Generic[T]):
    """Maps a host to whatever stands for its site."""

    def __init__(self, sites: Iterable[tuple[tuple[str, ...], T]]) -> None:
        """`sites`: (host patterns, site) pairs; earlier ones win where patterns are equal."""
        self._exact: dict[bytes, T] = {}
        self._suffixes: dict[bytes, T] = {}
        self._rest: T | None = None
        for patterns, site in sites:
            for pattern in patterns:
                name = pattern.lower().encode("idna" if not pattern.isascii() else "ascii")
                if name == b"*":
                    self._rest = site if self._rest is None else self._rest
                elif name.startswith(b"*."):
                    self._suffixes.setdefault(name[1:], site)
                else:
                    self._exact.setdefault(name, site)

    def pick(self, host: bytes) -> T | None:
        """The site for `host` (lower case, no port); None if nobody answers for it."""
        site = self._exact.get(host)
        if site is not None:
            return site
        dot = host.find(b".") if self._suffixes else -1
        while dot >= 0:
            site = self._suffixes.get(host[dot:])
            if site is not None:
                return site
            dot = host.find(b".", dot + 1)
        return self._rest
