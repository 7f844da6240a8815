"""edgebox.toml as the rules that the cache goes by."""

from __future__ import annotations

from edgebox.cache.rules import CacheRules, KeyRules, SetCookie
from edgebox.config.schema import Cache, Compression, Route
from edgebox.ops.worker.policies import cache_rules, coding_rules, key_rules


def test_defaults_are_those_of_the_policy() -> None:
    assert cache_rules(Cache(), Route()) == CacheRules()
    assert key_rules(Route()) == KeyRules()


def test_every_key_of_a_route_has_its_effect() -> None:
    route = Route(
        default_freshness=60.0, stale_while_revalidate=5.0, stale_if_error=6.0,
        set_cookie="strip", bypass_cookies=("sid",), drop_query=("utm_*",), sort_query=True,
    )  # fmt: skip
    cache = Cache(targets=("Edge-Control",), variants=3, request_directives=False)
    assert cache_rules(cache, route) == CacheRules(
        targets=(b"edge-control",),
        default_freshness=60,
        stale_while_revalidate=5,
        stale_if_error=6,
        set_cookie=SetCookie.STRIP,
        request_directives=False,
        bypass_cookies=(b"sid",),
        variants=3,
    )
    assert key_rules(route) == KeyRules(drop_query=(b"utm_*",), sort_query=True)


def test_nothing_is_coded_where_compression_is_off() -> None:
    assert coding_rules(Compression(enabled=False)).codings == ()
    rules = coding_rules(Compression(codings=("gzip",), min_size=0, max_size=9))
    assert (rules.codings, rules.smallest, rules.largest) == ((b"gzip",), 1, 9)
