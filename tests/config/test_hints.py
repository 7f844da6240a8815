from __future__ import annotations

import pytest

from edgebox.config.hints import did_you_mean, unknown_key
from edgebox.config.keys import keys_of
from edgebox.config.marks import Record
from edgebox.config.schema import Config, Route, Site
from edgebox.config.toml import KeyPath
from edgebox.config.upstreams import Upstream


def test_a_word_that_is_nearly_a_known_one_is_asked_about() -> None:
    assert did_you_mean("Servres", ["queue", "servers"]) == '; did you mean "servers"?'
    assert did_you_mean("xyz", ["queue", "servers"]) == ""
    assert did_you_mean("xyz", []) == ""


@pytest.mark.parametrize(
    ("name", "table", "path", "told"),
    [
        # A slip comes before a key of that name elsewhere: a route has "host", too.
        ("host", Site, ("site", 0), 'unknown key; did you mean "hosts"?'),
        ("server", Upstream, ("upstream", "a"), 'unknown key; did you mean "servers"?'),
        ("route", Config, (), "unknown key here; write [[site.route]]"),
        ("headers", Config, (), "unknown key here; write [site.headers]"),
        ("health", Site, ("site", 0), "unknown key here; write [upstream.NAME.health]"),
        ("cache", Site, ("site", 0), "unknown key here; it belongs in [[site.route]]"),
        ("dir", Route, ("site", 0, "route", 0),
         "unknown key here; it belongs in [compression] or [cache]"),
        ("balance", Route, ("site", 0, "route", 0),
         "unknown key here; it belongs in [upstream.NAME]"),
        ("weight", Upstream, ("upstream", "a"),
         "unknown key here; it belongs in [[upstream.NAME.servers]]"),
        ("upstreams", Route, ("site", 0, "route", 0), 'unknown key; did you mean "upstream"?'),
        ("zzz", Route, ("site", 0, "route", 0),
         "unknown key; [[site.route]] takes path, upstream, cache, body_size, default_freshness,"
         " stale_while_revalidate, stale_if_error, set_cookie, bypass_cookies, drop_query,"
         " sort_query, host, accel"),
    ],
)  # fmt: skip
def test_an_unknown_key_is_told_what_was_meant_or_where_it_belongs(
    name: str, table: type[Record], path: KeyPath, told: str
) -> None:
    assert unknown_key(name, keys_of(table), path) == told
