"""Puts the cache and its upstreams together from the configuration."""

from __future__ import annotations

import os
from dataclasses import asdict

import trio

from edgebox.cache.answer import Instant
from edgebox.cache.disk.client import DiskStore
from edgebox.cache.disk.store import Settings
from edgebox.cache.disktier import DiskTier
from edgebox.cache.engine import Engine
from edgebox.cache.fetching import Fetcher, FetchLimits
from edgebox.cache.flight import RoutePolicy
from edgebox.cache.purges import RecentPurges
from edgebox.cache.shelf import Shelf
from edgebox.cache.siblings.asking import Asking
from edgebox.cache.siblings.claims import Claims
from edgebox.cache.siblings.telling import Telling
from edgebox.cache.tiers import Tiers
from edgebox.config.schema import Config, Route
from edgebox.epoch import Epoch
from edgebox.files.entry import Docroot
from edgebox.files.store import FileStore
from edgebox.handlers.accel import Accel
from edgebox.handlers.forward import SUPPLIED, ForwardRules, parse_networks
from edgebox.handlers.operator import Operator
from edgebox.handlers.proxy import Proxy
from edgebox.handlers.rules import ProxyRules
from edgebox.http.tracing import TracingRules
from edgebox.memory.workingset import WorkingSet
from edgebox.observe.error_log import ErrorLog
from edgebox.ops.worker.origins import Origins, host_of, upstream_of
from edgebox.ops.worker.policies import cache_rules, coding_rules, key_rules
from edgebox.upstream.group import UpstreamGroup

# Octets of an answer that is read from disk, checked and put into RAM at once, on the loop:
# what is larger goes out from its file.
MOST_AT_ONCE = 256 * 1024
LEAST_OPEN = 16  # files of large answers that may always be sent at once


class Caching:
    """The engine, and a group for each upstream that some route names."""

    def __init__(
        self, config: Config, working_set: WorkingSet, epoch: Epoch, errors: ErrorLog
    ) -> None:
        self._config = config
        self._errors = errors
        self._epoch = epoch
        purges = RecentPurges()
        self._disk = self._open_disk()
        disk = self._tier = self._make_tier()
        shelf = Shelf(working_set, whole_keys=disk is not None)
        tiers = Tiers(shelf, disk, epoch.forget)
        # The store takes nothing beyond half of its bound.
        largest = min(config.cache.largest, config.cache.dir_size // 2)
        limits = FetchLimits(config.cache.object_size, largest)
        fetcher = Fetcher(tiers, purges, self._now, limits, self._tell_bug)
        self._flights = fetcher.flights
        self.engine = Engine(tiers, fetcher, purges, self._now)
        self.operator = Operator(self.engine, parse_networks(config.cache.purge_from))
        self._groups: dict[str, UpstreamGroup] = {}

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Keep fetches and upstreams going until cancelled."""
        async with trio.open_nursery() as nursery:
            if self._disk is not None:
                await nursery.start(self._disk.run)
            await nursery.start(self.engine.run)
            for group in self._groups.values():
                await nursery.start(group.run)
            task_status.started()

    def join(self, file: int, family: bytes) -> Telling:
        """Ask for nothing that another worker of the `family` is asking for.

        `file` is one that all of them have inherited. What comes back is to be run, so that the
        others need not ask either.
        """
        self._flights.siblings = Asking(Claims(file, family), family)
        return Telling(self._flights, self.engine.recall, family, self._tell_bug)

    @property
    def groups(self) -> dict[str, UpstreamGroup]:
        """Those that some route is passed to, by name."""
        return self._groups

    def close(self) -> None:
        """When nothing is served any more."""
        if self._disk is not None:
            self._disk.close()

    def make_proxy(self, route: Route, store: FileStore) -> Proxy:
        """The handler of a route that an upstream answers; `store` has the files it may name."""
        cache = self._config.cache
        host = host_of(self._config, route)
        assert cache.via is not None  # settled
        forward = ForwardRules(cache.via.encode(), parse_networks(cache.trusted_proxies), host=host)
        docroot = Docroot(os.fsencode(route.accel)) if route.accel else None
        accel = Accel(docroot, store, lambda: self._epoch.moment, self._errors)
        log = self._config.log
        tracing = TracingRules(log.request_id, span=log.trace == "span")
        rules = ProxyRules(forward, self._policy(route), route.body_size, accel, tracing)
        return Proxy(rules, self._group(route), self.engine, self._errors)

    def statistics(self) -> dict[str, object]:
        groups = {name: group.statistics() for name, group in self._groups.items()}
        disk = asdict(self._disk.statistics()) if self._disk is not None else None
        tier = asdict(self._tier.statistics()) if self._tier is not None else None
        return {"cache": self.engine.statistics(), "disk": disk, "tier": tier, "upstreams": groups}

    def _make_tier(self) -> DiskTier | None:
        if self._disk is None:
            return None
        # As many as for large files, beside those: an answer that is sent from disk needs one.
        open_files = max(self._config.files.open_files or 0, LEAST_OPEN)
        return DiskTier(self._disk, self._now, open_files, Origins(self._config))

    def _open_disk(self) -> DiskStore | None:
        """The store on disk; None where it is switched off, or no route has an upstream."""
        cache = self._config.cache
        routes = [route for site in self._config.site for route in site.route]
        if not cache.dir or not any(route.upstream for route in routes):
            return None
        settings = Settings(
            os.fsencode(cache.dir),
            cache.dir_size,
            cache.variants,
            content_size=min(cache.object_size, MOST_AT_ONCE),
        )
        return DiskStore(settings, self._errors)

    def _policy(self, route: Route) -> RoutePolicy:
        cache = self._config.cache
        return RoutePolicy(
            cache_rules(cache, route), key_rules(route), cache.name.encode(), cache.pass_for,
            route.cache, SUPPLIED, coding_rules(self._config.compression),
        )  # fmt: skip

    def _group(self, route: Route) -> UpstreamGroup:
        name = route.upstream
        if name not in self._groups:
            upstream = upstream_of(self._config, route)
            self._groups[name] = UpstreamGroup(name, upstream, self._errors)
        return self._groups[name]

    def _now(self) -> Instant:
        # The epoch's, as the lane reads it: a stamp taken between two turns would be read
        # as a second younger than it is.
        return Instant(self._epoch.moment.wall, self._epoch.moment.steady)

    def _tell_bug(self, problem: Exception) -> None:
        self._errors("error", f"internal error in a fetch: {problem!r}")
