"""How many descriptors a connection takes, all told, and how many connections fit into so many.

Pure, and from the configuration alone. A client's own socket is one. Where it may be passed on,
there is one to the app server as well, of which each upstream allows only so many; and where
answers are kept on disk, the file that is read for it or written. Files of the site are not
among them: those are shared, and are `files.open_files`.
"""

from __future__ import annotations

from collections.abc import Iterator

from edgebox.config.schema import Config
from edgebox.config.upstreams import Upstream
from edgebox.plan.assumptions import DESCRIPTORS_KEPT, DISK_TIER_KEPT
from edgebox.plan.facts import Record
from edgebox.plan.quantity import count

ADDRESS = Upstream(servers=("http://[::1]",))  # what counts for a route that names but an address


class Demand(Record, frozen=True, kw_only=True):
    """Descriptors: of each connection; to upstreams, of all workers; kept back in each worker."""

    each: int
    upstream: int
    kept: int


def demand(config: Config) -> Demand:
    """What this configuration asks for."""
    routes = [route for site in config.site for route in site.route if route.upstream]
    on_disk = config.cache.dir != "" and not config.server.chroot
    disk = on_disk and any(route.cache for route in routes)
    return Demand(
        each=2 if disk else 1,
        upstream=sum(_allowed(config, {route.upstream for route in routes})),
        kept=DESCRIPTORS_KEPT + (DISK_TIER_KEPT if disk else 0),
    )


def _allowed(config: Config, names: set[str]) -> Iterator[int]:
    """Connections that each upstream may have at once, in use and kept for later."""
    for name in names:
        upstream = config.upstream.get(name, ADDRESS)
        yield len(upstream.servers) * (upstream.connections + upstream.keep_alive)


def fitting(room: int, asked: Demand, workers: int) -> tuple[int, str]:
    """Connections that fit into `room` descriptors of one worker, and the end of the sum.

    Either each has one upstream, or all that upstreams allow are taken: what allows more is
    what happens.
    """
    upstream = -(-asked.upstream // workers)
    single, shared = room // (asked.each + bool(upstream)), (room - upstream) // asked.each
    parts = [f" − {count(upstream)} upstream"] if upstream and shared >= single else []
    parts.append(")")
    each = asked.each + (shared < single)
    if each > 1:
        needs = ["its socket"]
        needs += ["one upstream"] if shared < single else []
        needs += ["a file on disk"] if asked.each > 1 else []
        parts.append(f" ÷ {each}: {', '.join(needs[:-1])} and {needs[-1]}")
    return max(0, single, shared), "".join(parts)


def taken(connections: int, asked: Demand, workers: int) -> int:
    """Descriptors that so many connections of one worker take at most."""
    return connections * asked.each + min(connections, -(-asked.upstream // workers))
