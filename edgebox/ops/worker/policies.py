"""What edgebox.toml says of the cache, as the rules that the cache goes by. Pure."""

from __future__ import annotations

from edgebox.cache.coding import NOTHING_CODED, CodingRules
from edgebox.cache.rules import CacheRules, KeyRules, SetCookie
from edgebox.config.schema import Cache, Compression, Route


def cache_rules(cache: Cache, route: Route) -> CacheRules:
    """How answers of a route are stored and used."""
    freshness = route.default_freshness
    return CacheRules(
        targets=tuple(name.lower().encode() for name in cache.targets),
        default_freshness=None if freshness is None else int(freshness),
        stale_while_revalidate=int(route.stale_while_revalidate),
        stale_if_error=int(route.stale_if_error),
        set_cookie=SetCookie(route.set_cookie),
        request_directives=cache.request_directives,
        bypass_cookies=tuple(name.encode() for name in route.bypass_cookies),
        variants=cache.variants,
    )


def key_rules(route: Route) -> KeyRules:
    """Which URLs of a route are the same page."""
    return KeyRules(
        drop_query=tuple(name.encode() for name in route.drop_query),
        sort_query=route.sort_query,
    )


def coding_rules(compression: Compression) -> CodingRules:
    """Which answers are coded here, and to what."""
    if not compression.enabled:
        return NOTHING_CODED
    return CodingRules(
        codings=tuple(coding.encode() for coding in compression.codings),
        types=compression.types,
        smallest=max(1, compression.min_size),
        largest=compression.max_size,
    )
