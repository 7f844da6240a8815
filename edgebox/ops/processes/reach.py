"""Which files a worker has any business with, by its configuration. No file is opened here.

`inside` is the configuration as it reads from within the chroot; `readable` and `writable` are
what landlock lets a worker open: its roots, its caches and logs, and what Python, TLS and the
resolver need to work at all.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from msgspec.structs import replace

from edgebox.config.schema import Config, Route, Site
from edgebox.config.upstreams import Upstream, UpstreamServer
from edgebox.observe.syslog import is_path

# Program text, name service, certificates, time zones, and our own process.
SYSTEM = ("/usr", "/lib", "/lib64", "/bin", "/etc", "/run/systemd/resolve", "/run/resolvconf")
DEVICES = ("/dev/null", "/dev/zero", "/dev/random", "/dev/urandom")


def inside(config: Config) -> Config:
    """`config` for a worker below `server.chroot`: its paths without that prefix.

    Nothing can be executed in there, and so there are neither new variants nor a disk cache.
    """
    chroot = config.server.chroot
    if not chroot:
        return config

    def path(outside: str) -> str:
        if not is_path(outside):
            return outside
        relative = os.path.relpath(os.path.normpath(outside), os.path.normpath(chroot))
        return os.path.normpath(f"/{relative}")

    def route(route: Route) -> Route:
        return replace(route, accel=path(route.accel), upstream=url(route.upstream))

    def site(site: Site) -> Site:
        return replace(site, root=path(site.root), route=tuple(map(route, site.route)))

    def url(url: str) -> str:
        return f"unix:{path(url.removeprefix('unix:'))}" if url.startswith("unix:") else url

    def server(server: str | UpstreamServer) -> str | UpstreamServer:
        return url(server) if isinstance(server, str) else replace(server, url=url(server.url))

    def upstream(upstream: Upstream) -> Upstream:
        tls = replace(upstream.tls, ca=path(upstream.tls.ca))
        return replace(upstream, servers=tuple(map(server, upstream.servers)), tls=tls)

    return replace(
        config,
        site=tuple(map(site, config.site)),
        upstream={name: upstream(record) for name, record in config.upstream.items()},
        log=replace(config.log, access=path(config.log.access), error=path(config.log.error)),
        compression=replace(config.compression, enabled=False),
        cache=replace(config.cache, dir=""),
    )


def readable(config: Config) -> list[str]:
    """Files and directories that a worker with this configuration may read."""
    paths = [*SYSTEM, "/proc", *_python()]
    for site in config.site:
        if site.symlinks == "follow":
            paths.append("/")  # the operator trusts whoever makes links below the root
        paths += _with_its_next(site.root)
        for route in site.route:
            paths += _with_its_next(route.accel)
    paths += [upstream.tls.ca for upstream in config.upstream.values()]
    return _distinct(paths)


def writable(config: Config) -> list[str]:
    """The same for what it may write, make and remove."""
    logs = [config.log.access, config.log.error]
    directories = [os.path.dirname(log) for log in logs if is_path(log)]
    return _distinct([*DEVICES, config.compression.dir, config.cache.dir, *directories])


def owned(config: Config) -> list[str]:
    """The directories among these that are made for the worker if they are not there."""
    caches = [config.compression.dir if config.compression.enabled else "", config.cache.dir]
    return _distinct(caches)


def _python() -> list[str]:
    package = str(Path(__file__).parents[2])
    return [package, sys.prefix, sys.base_prefix, *(path for path in sys.path if path)]


def _with_its_next(root: str) -> list[str]:
    """A root; behind a link also what lies beside its target, where the next release will."""
    real = os.path.realpath(root) if root else ""
    if real == os.path.normpath(root or "."):
        return [root]
    beside = os.path.dirname(real)
    return [root] if beside in ("", "/") else [root, beside]


def _distinct(paths: list[str] | list[str | None]) -> list[str]:
    return list(dict.fromkeys(path for path in paths if path))
