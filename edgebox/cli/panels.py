"""What `edgebox status` and `edgebox top` show, made of the server's answer to `status`.

Pure: from that answer to rich's lines and to rows of tables. What a client may have chosen, as
URLs, is shown without its control characters.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from rich.text import Text

from edgebox.cli.control import Told
from edgebox.cli.words import (
    bar,
    bits,
    count,
    duration,
    percent,
    printable,
    rate,
    seconds,
    size,
    sparkline,
)

KINDS = ("hit", "miss", "stale", "file")
_LABEL = 10
_BAR = 20


@dataclass(frozen=True, slots=True)
class Column:
    """One of a table: numbers stand right and are sorted downwards."""

    title: str
    value: Callable[[Any], Any]
    show: Callable[[Any], str] = str

    @property
    def is_number(self) -> bool:
        return self.show is not str


@dataclass(frozen=True, slots=True)
class Listing:
    """A table: its key in `top`, its rows in the answer, its columns.

    `sort` and `down`: the column that it is ordered by at first, and whether downwards.
    """

    key: str
    title: str
    rows: Callable[[Told], Sequence[Any]]
    columns: tuple[Column, ...]
    sort: int
    down: bool = True


def headline(told: Told) -> Text:
    """Which server this is."""
    supervisor = told.get("supervisor", {})
    working = _serving(told)
    parts = [
        f"edgebox {told['version']}" + (f" on {told['host']}" if told.get("host") else ""),
        f"up {duration(told['uptime'])}",
        f"{len(working)} worker{'s' * (len(working) != 1)}",
    ]
    if working:
        parts.append(f"generation {max(worker['generation'] for worker in working)}")
    if addresses := supervisor.get("addresses"):
        parts.append(" ".join(addresses))
    return _line(" · ".join(parts), style="bold")


def lines(told: Told, width: int) -> list[Text]:
    """The figures that tell how the box is, a line each."""
    return [
        _link(told, width),
        _requests(told, width),
        _connections(told),
        _cache(told),
        _latency(told),
        _ram(told),
        *_troubles(told),
    ]


def _link(told: Told, width: int) -> Text:
    """How full the link is, of what the plan says that it carries."""
    plan = told["board"].get("plan") or {}
    now, curve = told["rates"]["octets"], told["curves"]["octets"]
    goodput = plan.get("goodput")
    line = _label("link")
    if goodput:
        share = now / goodput
        line.append(bar(share, _BAR), style=_alarm(share, 0.8, 0.95))
        line.append(f" {100 * share:5.1f} % of {bits(goodput)}")
        line.append(f" ({plan['interface']})" if plan.get("interface") else "")
    else:
        line.append("its speed is not known: set nic.speed")
    line.append(f", {rate(now)} ")
    return _with_curve(line, curve, width, goodput or 0.0)


def _requests(told: Told, width: int) -> Text:
    rates = told["rates"]
    line = _label("requests")
    line.append(f"{count(rates['requests'])}/s")
    if rates["requests"]:
        line.append(f", {percent(rates['express'], rates['requests'])} in the express lane")
    for name, style in (("4xx", "yellow"), ("5xx", "red")):
        if rates[name]:
            line.append(f", {count(rates[name])}/s {name}", style=style)
    line.append(" ")
    return _with_curve(line, told["curves"]["requests"], width, 0.0)


def _connections(told: Told) -> Text:
    gauges = told["gauges"]
    limit = gauges["connections_limit"]
    line = _label("clients")
    share = gauges["connections"] / limit if limit else 0.0
    line.append(f"{gauges['connections']} of {limit}", style=_alarm(share, 0.8, 0.95))
    line.append(f": {gauges['tasks']} being answered, {gauges['idle']} idle")
    line.append(f", {count(told['rates']['accepted'])} new/s")
    return line


def _cache(told: Told) -> Text:
    """Of what was asked of the cache, by requests and by bytes; stale answers are hits."""
    line = _label("cache")
    now, ever = told["rates"], told["totals"]
    if not any(ever[kind] for kind in ("hit", "miss", "stale")):
        return line.append("nothing was asked of it")
    for name, numbers in (("hits", now), ("in all", ever)):
        asked = sum(numbers[kind] for kind in ("hit", "miss", "stale"))
        octets = sum(numbers[f"{kind}_octets"] for kind in ("hit", "miss", "stale"))
        hit_octets = numbers["hit_octets"] + numbers["stale_octets"]
        line.append(f"{name} {percent(numbers['hit'] + numbers['stale'], asked)} ")
        line.append(f"({percent(hit_octets, octets)} of bytes) · ")
    line.append(f"stale {count(now['stale'])}/s · upstream {count(now['upstream_requests'])}/s")
    return line


def _latency(told: Told) -> Text:
    """To the last octet, of the last minute."""
    line = _label("latency")
    measured = [
        (kind, found["total"])
        for kind in ("all", *KINDS)
        if (found := told["latency"].get(kind)) and found["total"]["count"]
    ]
    if not measured:
        return line.append("nothing was asked in the last minute")
    line.append("p50/p95/p99 ")
    for number, (kind, latency) in enumerate(measured):
        line.append(f" · {kind} " if number else "")
        line.append("/".join(seconds(latency[name]) for name in ("p50", "p95", "p99")))
    return line


def _ram(told: Told) -> Text:
    gauges = told["gauges"]
    held, budget = gauges["ram_held"], gauges["ram_budget"]
    line = _label("RAM")
    line.append(bar(held / budget if budget else 0.0, _BAR))
    line.append(f" {size(held)} of {size(budget)}, {count(gauges['ram_objects'])} objects")
    if gauges.get("disk_limit"):
        line.append(f"; disk {size(gauges['disk_held'])} of {size(gauges['disk_limit'])}")
    return line


def _troubles(told: Told) -> list[Text]:
    """Lines that are there only when something is wrong."""
    found = [] if _serving(told) else ["nobody serves: see the error log, or reload"]
    for slot, silence in told.get("silent", {}).items():
        if silence > 3:
            found.append(f"worker {slot} has shown no sign of life for {silence:.0f} s")
    out = [s for s in told["sheet"]["upstreams"] if s["standing"] not in ("up", "drained")]
    found += [f"{server['server']} of {server['pool']} is {server['standing']}" for server in out]
    if told["gauges"]["lag_us"] > 250_000:
        found.append(f"a worker's loop is {told['gauges']['lag_us'] / 1000:.0f} ms late")
    if lost := told["totals"].get("log_lines_dropped"):
        found.append(f"{lost} log lines were dropped since the start")
    return [_label("trouble").append(printable(text), style="red") for text in found]


def _workers(told: Told) -> list[dict[str, Any]]:
    """Each with its `state`: starting, serving, draining, ending, hanging."""
    generations = told.get("supervisor", {}).get("generations", ())
    stages = {each["slot"]: each["stage"] for g in generations for each in g["workers"]}

    def state(row: dict[str, Any]) -> str:
        stage = stages.get(row["slot"], "ready")
        return "draining" if row["draining"] else "serving" if stage == "ready" else str(stage)

    return [{**row, "state": state(row)} for row in told["workers"]]


def _serving(told: Told) -> list[dict[str, Any]]:
    return [worker for worker in _workers(told) if worker["state"] == "serving"]


# --- tables -----------------------------------------------------------------------------------


def _ratio(row: Any) -> float:
    return row[2] / row[1] if row[1] else 0.0


LISTINGS = (
    Listing(
        "u",
        "hottest URLs, a minute",
        lambda told: told["sheet"]["hot"],
        (
            Column("URL", lambda row: printable(row[0])),
            Column("requests", lambda row: row[1], count),
            Column("octets", lambda row: row[2], size),
            Column("each", _ratio, size),
        ),
        1,
    ),
    Listing(
        "p",
        "upstreams",
        lambda told: told["sheet"]["upstreams"],
        (
            # Of a URL in a route the pool has no name of its own.
            Column("pool", lambda row: row["pool"] if row["pool"] != row["server"] else "-"),
            Column("server", lambda row: row["server"]),
            Column("standing", lambda row: row["standing"]),
            Column("active", lambda row: row["active"], count),
            Column("idle", lambda row: row["idle"], count),
            Column("answered", lambda row: row["answered"], count),
            Column("failed", lambda row: row["failed"], count),
            Column("head after", lambda row: row.get("head_us", 0) / 1e6, seconds),
        ),
        7,
    ),
    Listing(
        "w",
        "workers",
        _workers,
        (
            Column("slot", lambda row: row["slot"], lambda slot: f"{slot}"),
            Column("process", lambda row: row["pid"], lambda pid: f"{pid}"),
            Column("generation", lambda row: row["generation"], lambda number: f"{number}"),
            Column("up", lambda row: row["uptime"], duration),
            Column("requests", lambda row: row["requests"], count),
            Column("clients", lambda row: row["connections"], count),
            Column("RAM", lambda row: row["ram"], size),
            Column("late", lambda row: row["lag_ms"] / 1000, seconds),
            Column("state", lambda row: row["state"]),
        ),
        4,
    ),
    Listing(
        "r",
        "what is in RAM",
        lambda told: told["sheet"]["ram"],
        (
            Column("site", lambda row: printable(row["site"])),
            Column("type", lambda row: printable(row["type"])),
            Column("objects", lambda row: row["objects"], count),
            Column("octets", lambda row: row["octets"], size),
        ),
        3,
    ),
    Listing(
        "e",
        "last warnings and errors",
        lambda told: [
            (told["time"] - at, level, text) for at, level, text in told["sheet"]["errors"]
        ],
        (
            Column("ago", lambda row: row[0], duration),
            Column("level", lambda row: row[1]),
            Column("what", lambda row: printable(row[2])),
        ),
        0,
        down=False,
    ),
)


def ordered(
    listing: Listing, told: Told, sort: int, down: bool, wanted: str = ""
) -> list[list[str]]:
    """The cells of those rows in which `wanted` occurs, by column `sort`."""
    column = listing.columns[sort]
    rows = sorted(listing.rows(told), key=column.value, reverse=down)
    cells = [[each.show(each.value(row)) for each in listing.columns] for row in rows]
    low = wanted.lower()
    return [row for row in cells if not low or any(low in cell.lower() for cell in row)]


def _line(text: str = "", style: str = "") -> Text:
    """One line, whatever the width."""
    return Text(text, style=style, no_wrap=True, overflow="ellipsis")


def _label(name: str) -> Text:
    return _line().append(name.ljust(_LABEL), style="cyan")


def _with_curve(line: Text, curve: Sequence[float], width: int, ceiling: float) -> Text:
    return line.append(sparkline(curve, width - line.cell_len, ceiling), style="green")


def _alarm(share: float, warning: float, alarm: float) -> str:
    return "red" if share >= alarm else "yellow" if share >= warning else "green"
