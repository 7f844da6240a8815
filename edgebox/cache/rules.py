"""What the operator may set for the cache of a route, with the defaults and their reasons.

Plain values: how they are written in edgebox.toml, and which route they belong to, is
known elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class SetCookie(Enum):
    """What becomes of an answer that sets a cookie. HTTP would store it (RFC 9111 §7.3)."""

    REFUSE = "refuse"  # never stored: most who set a cookie did not think of caches
    STRIP = "strip"  # stored without the field; only who fetched it gets the cookie
    KEEP = "keep"  # stored and repeated as it came, as HTTP has it


@dataclass(frozen=True, slots=True)
class CacheRules:
    """Times are whole seconds, names of fields lower case."""

    # Fields that speak to this cache before Cache-Control does (RFC 9213).
    targets: tuple[bytes, ...] = (b"cdn-cache-control",)

    # Freshness where the response states none. None: guess, and only from Last-Modified.
    default_freshness: int | None = None
    heuristic_fraction: float = 0.1  # the typical setting that RFC 9111 §4.2.2 speaks of
    heuristic_limit: int = 24 * 3600
    # Nothing is guessed for a request with a Cookie: its answer may be for that one visitor.
    heuristic_with_cookie: bool = False

    # Windows where the response names none and does not forbid stale use.
    stale_while_revalidate: int = 0
    stale_if_error: int = 0
    stale_if_unreachable: int = 24 * 3600  # a cache cut off may serve stale, RFC 9111 §4.2.4

    set_cookie: SetCookie = SetCookie.REFUSE
    request_directives: bool = True  # off: clients cannot make the upstream work
    store: bool = True
    bypass_cookies: tuple[bytes, ...] = ()  # names; * and ? as in the shell

    # Content codings that variants are told apart by, in the server's order of preference.
    codings: tuple[bytes, ...] = (b"br", b"zstd", b"gzip")
    variants: int = 32  # of one URL; the least recent go first


@dataclass(frozen=True, slots=True)
class KeyRules:
    """How URLs become keys. `scheme` is the one that clients used."""

    scheme: bytes = b"http"
    drop_query: tuple[bytes, ...] = ()  # names of parameters; * and ? as in the shell
    sort_query: bool = False
