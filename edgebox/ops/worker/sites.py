"""Puts the sites together from the configuration: which host gets which handler."""

from __future__ import annotations

import os

from edgebox.config.schema import Config, Site
from edgebox.files.compression.client import CompressionClient
from edgebox.files.store import Docroot, FileStore
from edgebox.handlers.site import SiteHandler
from edgebox.handlers.static import Static
from edgebox.handlers.variants import Variants
from edgebox.ops.worker.caching import Caching
from edgebox.route.router import Router


def make_router(
    config: Config, store: FileStore, client: CompressionClient | None, caching: Caching
) -> Router[SiteHandler]:
    """A router over all sites."""
    directory = config.compression.dir if config.compression.enabled else None
    cache = Docroot(os.fsencode(directory), "never", sealed=True) if directory else None
    variants = Variants(config.compression, cache, client)

    def make_site(site: Site) -> SiteHandler:
        static = None
        if site.root:
            docroot = Docroot(os.fsencode(site.root), site.symlinks)
            static = Static(site, docroot, store, variants)
        routes = [
            (route.path.encode(), caching.make_proxy(route, store) if route.upstream else None)
            for route in site.route
        ]
        return SiteHandler(static, routes, config.limits.body_discard, caching.operator)

    return Router([(site.hosts, make_site(site)) for site in config.site])
