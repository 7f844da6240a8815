"""Which app servers answer for what is stored, by the configuration of this worker.

A cache directory outlives a configuration, and two boxes may share one. So each answer on disk
tells whose it is: every server of the pool that it came from, each with the Host that it was
asked with where that is not the client's. It is of use for as long as one of them still answers
for its URL: a pool that grows or shrinks keeps what it has, and another app in its place finds
nothing.
"""

from __future__ import annotations

from hashlib import blake2b

from edgebox.config.schema import Config, Route, Site
from edgebox.config.upstreams import Upstream
from edgebox.http.faults import Fault
from edgebox.http.target import parse_host, parse_target
from edgebox.route.paths import is_below
from edgebox.route.router import Router
from edgebox.upstream.origin import parse_origin

NAME = 8  # octets that stand for a server: each file bears those of a whole pool, twice

Origin = tuple[bytes, ...]


class Origins:
    """Built once from the configuration. Called with a primary key; () where none answers."""

    def __init__(self, config: Config) -> None:
        self._sites = Router((site.hosts, _routes(config, site)) for site in config.site)

    def __call__(self, key: bytes) -> Origin:
        authority, _, path = key.partition(b"://")[2].partition(b"/")
        target = parse_target(b"GET", b"/" + path)
        host = parse_host(authority) if authority else (b"", None)  # as HTTP/1.0 may have it
        if isinstance(target, Fault) or isinstance(host, Fault):
            return ()
        routes = self._sites.pick(host[0]) or ()
        return next((origin for prefix, origin in routes if is_below(target.path, prefix)), ())


def upstream_of(config: Config, route: Route) -> Upstream:
    """The upstream that a route names; a URL stands for one with this one server."""
    return config.upstream.get(route.upstream) or Upstream(servers=(route.upstream,))


def host_of(config: Config, route: Route) -> bytes | None:
    """The Host that a route's upstream is asked with; None: the client's."""
    if route.host == "client":
        return None
    first = upstream_of(config, route).servers[0]
    return parse_origin(first if isinstance(first, str) else first.url).authority.encode()


def _routes(config: Config, site: Site) -> list[tuple[bytes, Origin]]:
    """The longest prefix first."""
    routes = sorted(site.route, key=lambda route: len(route.path.encode()), reverse=True)
    return [(route.path.encode(), _origin(config, route)) for route in routes]


def _origin(config: Config, route: Route) -> Origin:
    if not route.upstream:
        return ()
    host = host_of(config, route) or b""
    servers = upstream_of(config, route).servers
    urls = {str(parse_origin(each if isinstance(each, str) else each.url)) for each in servers}
    return tuple(
        sorted(blake2b(b"%b %b" % (url.encode(), host), digest_size=NAME).digest() for url in urls)
    )
