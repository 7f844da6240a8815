"""What a [[site]] and its routes can still get wrong; see `config/checks`."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

from edgebox.config.hints import did_you_mean
from edgebox.config.problems import Finding, show
from edgebox.config.schema import Route, Site
from edgebox.config.toml import KeyPath, write_header
from edgebox.config.upstream_checks import wrong_origin
from edgebox.config.wrong import (
    FIELD_VALUE,
    MEDIA_TYPE,
    no_directory,
    wrong_cookie,
    wrong_field_name,
    wrong_field_value,
    wrong_host,
    wrong_parameter,
)

# Fields that belong to one answer or one connection: a constant would break them.
OURS = frozenset((
    "accept-ranges", "age", "connection", "content-encoding", "content-length",
    "content-range", "content-type", "date", "etag", "keep-alive", "last-modified",
    "server", "te", "trailer", "transfer-encoding", "upgrade",
))  # fmt: skip


def check_site(site: Site, path: KeyPath) -> Iterator[Finding]:
    """Every problem of a site, which is at `path`."""
    if site.root and (why := no_directory(site.root)):
        yield (*path, "root"), why
    if not site.hosts:
        yield (*path, "hosts"), 'is empty: nobody would reach this site; "*" is whatever is left'
    for index, host in enumerate(site.hosts):
        if problem := wrong_host(host):
            yield (*path, "hosts", index), f"{show(host)} {problem}"
    for index, name in enumerate(site.index):
        if not name or "/" in name or "\0" in name or name in (".", ".."):
            yield (*path, "index", index), f'{show(name)} is no file name, as "index.html"'
    yield from _error_pages(site, (*path, "error_pages"))
    yield from _headers(site, (*path, "headers"))
    yield from _types(site, (*path, "types"))
    yield from _routes(site, (*path, "route"))


def check_hosts(sites: tuple[Site, ...]) -> Iterator[Finding]:
    """That each host has one site, and whatever host is left has one too."""
    owner: dict[str, int] = {}
    for number, site in enumerate(sites):
        for index, host in enumerate(site.hosts):
            if host in owner:
                other = "this" if owner[host] == number else f"site[{owner[host]}]"
                yield ("site", number, "hosts", index), f"{show(host)} is in {other} already"
            owner.setdefault(host, number)
    if not sites:
        yield ("site",), "there is none: add a [[site]]"
    elif "*" not in owner:
        yield (
            ("site",),
            'no site takes the hosts that are left: add "*" to the hosts of one of them',
        )


def check_upstreams_named(sites: tuple[Site, ...], names: Collection[str]) -> Iterator[Finding]:
    """That each route names one of the upstreams, or a server itself."""
    for number, site in enumerate(sites):
        for index, route in enumerate(site.route):
            name = route.upstream
            if not name or name in names:
                continue
            path: KeyPath = ("site", number, "route", index, "upstream")
            if any(mark in name for mark in ":/."):
                if problem := wrong_origin(name):
                    yield path, f"{show(name)} {problem}"
            else:
                header = write_header(("upstream", name))
                yield path, f"there is no {header}{did_you_mean(name, names)}"


# What can be wrong with a file. Whoever is refused before it is known what he asks for, or by
# an upstream, gets no page of a site.
WITH_PAGE = ("403", "404", "405", "406", "412", "416", "500", "501", "503")
_THESE = ", ".join(WITH_PAGE)


def _error_pages(site: Site, path: KeyPath) -> Iterator[Finding]:
    if site.error_pages and not site.root and site.is_proxied:
        yield path, "are files, but the site has no root"
    for status, page in site.error_pages.items():
        if not re.fullmatch("[45][0-9][0-9]", status):
            yield (*path, status), "is no error status, 400 to 599"
        elif status not in WITH_PAGE:
            yield (*path, status), f"is always told in our own words; a page can stand for {_THESE}"
        if not page.startswith("/") or not page.isprintable():
            yield (
                (*path, status),
                f'{show(page)} must be a path from the root of the site, as "/404.html"',
            )


def _headers(site: Site, path: KeyPath) -> Iterator[Finding]:
    seen: set[str] = set()
    for name, value in site.headers.items():
        if problem := wrong_field_name(name):
            yield (*path, name), problem
        elif name.lower() in OURS:
            yield (*path, name), "edgebox sets this field itself, for each answer"
        elif name.lower() in seen:
            yield (*path, name), "is there twice: names of fields have no upper or lower case"
        seen.add(name.lower())
        if problem := wrong_field_value(value):
            yield (*path, name), problem


def _types(site: Site, path: KeyPath) -> Iterator[Finding]:
    for extension, media_type in site.types.items():
        if not extension.startswith(".") or len(extension) < 2 or "/" in extension:
            yield (*path, extension), 'must start with a dot, as ".webmanifest"'
        if not MEDIA_TYPE.fullmatch(media_type) or not FIELD_VALUE.fullmatch(media_type):
            yield (*path, extension), f'{show(media_type)} is no media type, as "text/plain"'


def _routes(site: Site, path: KeyPath) -> Iterator[Finding]:
    seen: set[str] = set()
    for index, route in enumerate(site.route):
        where = (*path, index)
        if problem := wrong_prefix(route.path):
            yield (*where, "path"), f"{show(route.path)} {problem}"
        elif route.path in seen:
            yield (*where, "path"), f"{show(route.path)} has a route in this site already"
        seen.add(route.path)
        if not route.upstream and not site.root and site.is_proxied:
            yield (*where, "upstream"), "is empty, which means files, but the site has no root"
        yield from _route(route, where)


def wrong_prefix(path: str) -> str | None:
    """Why no request has a path that begins with `path`; None if one may.

    It is compared with paths that are decoded and in normal form (`http/target`).
    """
    if not path.startswith("/"):
        return 'must start with "/": it is a prefix of paths, as "/api/"'
    if path.endswith("*"):
        return 'is a prefix as it is: leave the "*" away'
    if "?" in path:
        return "must be a path alone, without a query"
    if re.search("%[0-9A-Fa-f]{2}", path):
        return "must be written decoded, a space as a space"
    if re.search(r"[\x00-\x1f\x7f\\]|//|/\.\.?(/|$)", path):
        return "matches no request: their paths come without //, /./, /../ and control characters"
    return None


def _route(route: Route, path: KeyPath) -> Iterator[Finding]:
    for name in ("default_freshness", "stale_while_revalidate", "stale_if_error"):
        seconds = getattr(route, name)
        if seconds is not None and seconds % 1:
            yield (*path, name), "must be whole seconds: HTTP counts in no others (RFC 9111 §1.2.2)"
    for index, pattern in enumerate(route.bypass_cookies):
        if problem := wrong_cookie(pattern):
            yield (*path, "bypass_cookies", index), f"{show(pattern)} {problem}"
    for index, pattern in enumerate(route.drop_query):
        if problem := wrong_parameter(pattern):
            yield (*path, "drop_query", index), f"{show(pattern)} {problem}"
    if route.accel and (why := no_directory(route.accel)):
        yield (*path, "accel"), why
