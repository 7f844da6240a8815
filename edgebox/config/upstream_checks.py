"""What an [upstream.NAME] of the right types can still get wrong; see `config/checks`."""

from __future__ import annotations

import re
from collections.abc import Iterator

from edgebox.config.problems import Finding, show
from edgebox.config.toml import KeyPath
from edgebox.config.upstreams import Upstream, UpstreamHealth, UpstreamServer, UpstreamTls
from edgebox.config.wrong import no_file, wrong_host
from edgebox.upstream.origin import parse_origin

# Not to be taken for a URL where a route names it.
_NAME = re.compile(r"[A-Za-z0-9_-]+")
_PATH = re.compile(r"/[!-~]*")


def check_upstream(upstream: Upstream, name: str) -> Iterator[Finding]:
    """Every problem of the upstream of that name."""
    path: KeyPath = ("upstream", name)
    if not _NAME.fullmatch(name):
        yield path, "is no name for an upstream: letters, digits, - and _ only"
    yield from _servers(upstream, (*path, "servers"))
    yield from _health(upstream.health, (*path, "health"))
    yield from _tls(upstream, (*path, "tls"))


def url_of(server: str | UpstreamServer) -> str:
    return server if isinstance(server, str) else server.url


def wrong_origin(url: str) -> str | None:
    """Why `url` is no server to ask; None if it is one."""
    try:
        parse_origin(url)
    except ValueError as error:
        return str(error)
    return None


def _servers(upstream: Upstream, path: KeyPath) -> Iterator[Finding]:
    if not upstream.servers:
        yield path, 'is empty: name at least one, as "http://127.0.0.1:8000"'
    elif all(isinstance(server, UpstreamServer) and server.backup for server in upstream.servers):
        yield path, "are all backups: at least one must not be"
    seen: set[str] = set()
    for index, server in enumerate(upstream.servers):
        url = url_of(server)
        where = (*path, index) if isinstance(server, str) else (*path, index, "url")
        if problem := wrong_origin(url):
            yield where, f"{show(url)} {problem}"
            continue
        address = str(parse_origin(url))
        if address in seen:
            yield where, f"{show(url)} is listed twice: give one a weight instead"
        seen.add(address)


def _health(health: UpstreamHealth, path: KeyPath) -> Iterator[Finding]:
    if health.path and (not _PATH.fullmatch(health.path) or "#" in health.path):
        yield (*path, "path"), f'{show(health.path)} is no path to GET, as "/healthz"'
    if not health.expect:
        yield (*path, "expect"), "is empty: no answer would ever be good"


def _tls(upstream: Upstream, path: KeyPath) -> Iterator[Finding]:
    tls = upstream.tls
    if tls.ca and (why := no_file(tls.ca)):
        yield (*path, "ca"), why
    if tls.server_name and ("*" in tls.server_name or wrong_host(tls.server_name.lower())):
        yield (*path, "server_name"), f"{show(tls.server_name)} is no name of a host"
    urls = [url_of(server) for server in upstream.servers]
    if tls != UpstreamTls() and not any(url.startswith("https:") for url in urls):
        yield path, "none of the servers is https"
