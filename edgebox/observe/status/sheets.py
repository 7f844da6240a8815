"""The sheets of all workers put together: one table each of what they tell.

What workers hold or count each by themselves adds up; of an upstream, which they all see, the
worst standing is shown.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

HOT = 20
ERRORS = 20
_WORST_FIRST = ("down", "ejected", "on trial", "drained", "up")
_ADDED = ("active", "idle", "connections", "reused", "answered", "failed", "ejected")


class Shelf(msgspec.Struct, frozen=True):
    """What lies in RAM of one site and type."""

    site: str
    type: str
    objects: int
    octets: int


class Server(msgspec.Struct):
    """One app server."""

    pool: str
    server: str
    standing: str = "up"
    active: int = 0
    idle: int = 0
    connections: int = 0
    reused: int = 0
    answered: int = 0
    failed: int = 0
    ejected: int = 0
    head_us: int = 0  # microseconds to the head of an answer, a mean of late


class Sheet(msgspec.Struct):
    """What a worker publishes for human eyes."""

    hot: list[tuple[str, int, int]] = []
    ram: list[Shelf] = []
    upstreams: list[Server] = []
    errors: list[tuple[int, str, str]] = []
    what_if: list[tuple[int, float]] = []
    ledger: dict[str, int] = {}


def read_sheet(told: dict[str, object]) -> Sheet:
    """The sheet, or an empty one where it is of a shape that is not known here."""
    try:
        return msgspec.convert(told, Sheet, strict=False)
    except msgspec.ValidationError:
        return Sheet()


def merge(sheets: Sequence[Sheet]) -> Sheet:
    """All of them as one, each table in the order in which it is to be read."""
    return Sheet(
        hot=_hot(sheets),
        ram=_ram(sheets),
        upstreams=_upstreams(sheets),
        errors=sorted((e for sheet in sheets for e in sheet.errors), reverse=True)[:ERRORS],
        what_if=_what_if(sheets),
        ledger=_ledger(sheets),
    )


def _hot(sheets: Sequence[Sheet]) -> list[tuple[str, int, int]]:
    urls: dict[str, tuple[int, int]] = {}
    for url, hits, octets in (row for sheet in sheets for row in sheet.hot):
        before = urls.get(url, (0, 0))
        urls[url] = before[0] + hits, before[1] + octets
    rows = [(url, hits, octets) for url, (hits, octets) in urls.items()]
    return sorted(rows, key=lambda row: (-row[1], row[0]))[:HOT]


def _ram(sheets: Sequence[Sheet]) -> list[Shelf]:
    sums: dict[tuple[str, str], tuple[int, int]] = {}
    for shelf in (shelf for sheet in sheets for shelf in sheet.ram):
        objects, octets = sums.get((shelf.site, shelf.type), (0, 0))
        sums[shelf.site, shelf.type] = objects + shelf.objects, octets + shelf.octets
    shelves = [Shelf(*names, *counts) for names, counts in sums.items()]
    return sorted(shelves, key=lambda shelf: (-shelf.octets, shelf.site, shelf.type))


def _upstreams(sheets: Sequence[Sheet]) -> list[Server]:
    servers: dict[tuple[str, str], Server] = {}
    for server in (server for sheet in sheets for server in sheet.upstreams):
        known = servers.setdefault((server.pool, server.server), Server(server.pool, server.server))
        for name in _ADDED:
            setattr(known, name, getattr(known, name) + getattr(server, name))
        known.head_us = max(known.head_us, server.head_us)
        known.standing = min(known.standing, server.standing, key=_badness)
    return [servers[key] for key in sorted(servers)]


def _badness(standing: str) -> int:
    return _WORST_FIRST.index(standing) if standing in _WORST_FIRST else len(_WORST_FIRST)


def _ledger(sheets: Sequence[Sheet]) -> dict[str, int]:
    accounts: dict[str, int] = {}
    for name, octets in (item for sheet in sheets for item in sheet.ledger.items()):
        accounts[name] = accounts.get(name, 0) + octets
    return accounts


def _what_if(sheets: Sequence[Sheet]) -> list[tuple[int, float]]:
    """RAM of all workers, and the mean of their hit ratios."""
    curves = [sheet.what_if for sheet in sheets if sheet.what_if]
    return [
        (sum(octets for octets, _ in points), sum(ratio for _, ratio in points) / len(points))
        for points in zip(*curves, strict=False)
    ]
