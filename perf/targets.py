"""What edgebox must reach, as data: the one place where a bound is written down.

A bound is a ratio of edgebox's median to another median of the same run, or a plain
number in the row's own unit. Nothing here is measured; `results` compares.
"""

from __future__ import annotations

from dataclasses import dataclass

SUBJECT = "edgebox"
FLOOR = "floor"
BEST = "the best peer"  # the smallest median among the servers that are neither edgebox nor floor
NOTHING = ""  # the bound is a number, not a ratio


@dataclass(frozen=True)
class Target:
    """`row` must stay at or under `at_most` × the median of `against`, or at or under `at_most`."""

    row: str
    at_most: float
    against: str = NOTHING


TARGETS = (
    Target("hot", 0.80, "nginx"),
    Target("hot", 1.0, BEST),
    Target("hot", 1.35, FLOOR),
    Target("page", 1.1, BEST),
    Target("connect", 1.0, "nginx"),
    Target("ab-keep", 0.80, "nginx"),
    Target("cookies", 0.85, "nginx"),
    Target("unique", 1.3, "nginx"),
    Target("cached", 0.60, "nginx"),  # its proxy_cache, as in every proxied row
    Target("cached", 0.90, "haproxy"),
    Target("miss", 3.0, "nginx"),
    Target("idle", 1_500),
    Target("downloads", 24_000),
    Target("stall", 2.0),
)


def targets_of(row: str) -> tuple[Target, ...]:
    """The bounds of one row, in the order in which they are told."""
    return tuple(target for target in TARGETS if target.row == row)
