"""The rows of the table, as data: which load, on which object, with the log on or off.

A row's `method` names the function in `measure` that does it. The sizes are those of two
reports that started this: a 449-octet index page under `ab -n 100000 -c 1000`, and a
26,890-octet file that one server sent three times slower than its predecessor. Where a row
is proxied, the servers stand as caches before an upstream instead of serving files.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

SMALL = 449
PAGE = 26_890
PATHS = 200  # of the rows with browser-like heads; `heads.lua` counts to the same number


class Method(Enum):
    """How a row is measured."""

    CPU = "CPU per request"
    IDLE = "memory of idle connections"
    DOWNLOADS = "memory of slow downloads"
    STALL = "latency beside cold reads"
    CACHED = "CPU per request, every answer from the cache"
    RELAYED = "CPU per request, every answer from the upstream"


class Unit(Enum):
    """What a row's figure counts; the value is what a reader sees."""

    MICROSECONDS = "µs"
    OCTETS = "octets"
    RATIO = "×"


@dataclass(frozen=True)
class Load:
    """What is asked of a server.

    `tool` is wrk (for `seconds`), ab (for `requests`), or what a row that makes its own
    connections needs beside; "" is nothing.
    """

    tool: str = "wrk"
    connections: int = 64
    seconds: float = 4.0
    requests: int = 0
    keep_alive: bool = True
    heads: str = ""  # of heads.lua: "pool" or "unique" browser-like heads, or "distinct" targets
    target: str = "/small.html"
    size: int = SMALL  # of each answer's body, in octets

    def part(self, parts: int) -> Load:
        """One of so many, which together are this."""
        return replace(self, seconds=self.seconds / parts, requests=self.requests // parts)


@dataclass(frozen=True)
class Row:
    """One line of the table; `peers` empty means every peer that can."""

    key: str
    title: str
    load: Load
    method: Method = Method.CPU
    unit: Unit = Unit.MICROSECONDS
    log: bool = True
    peers: tuple[str, ...] = ()
    default: bool = True

    @property
    def is_proxied(self) -> bool:
        """Whether the servers stand before an upstream; the files are its answers then."""
        return self.method in (Method.CACHED, Method.RELAYED)

    @property
    def takes_turns(self) -> bool:
        """Whether the servers stand side by side, each in turn at work on a part of the load."""
        return self.unit is Unit.MICROSECONDS

    @property
    def tools(self) -> frozenset[str]:
        """Programs that it takes beside the servers."""
        compiler = "gcc" if self.is_proxied else ""
        return frozenset((self.load.tool, compiler)) - {""}


ROWS = (
    Row("hot", "449 B, keep-alive, 64 connections", Load()),
    Row("hot-nolog", "449 B, keep-alive, 64 connections, no log", Load(), log=False),
    Row("page", "26,890 B, keep-alive, 64 connections", Load(target="/page.html", size=PAGE)),
    Row(
        "connect",
        "449 B, a connection each: ab -n 100000 -c 1000",
        Load(tool="ab", connections=1000, requests=100_000, keep_alive=False),
    ),
    Row(
        "ab-keep",
        "449 B, HTTP/1.0 keep-alive: ab -k -n 200000 -c 64",
        Load(tool="ab", requests=200_000),
    ),
    Row("cookies", "449 B, 500 cookies × 200 paths", Load(heads="pool", target="/paths/1.html")),
    Row("unique", "449 B, every head unique", Load(heads="unique", target="/paths/1.html")),
    Row(
        "cached",
        "cached upstream answer, 449 B, keep-alive, 64 connections",
        Load(target="/c/small.html"),
        method=Method.CACHED,
    ),
    Row(
        "miss",
        "miss relayed, 449 B, every URL new and private, 64 connections",
        Load(heads="distinct", target="/p/small.html"),
        method=Method.RELAYED,
    ),
    Row(
        "idle",
        "an idle keep-alive connection, 10,000 held",
        Load(tool="", connections=10_000),
        method=Method.IDLE,
        unit=Unit.OCTETS,
    ),
    Row(
        "downloads",
        "a download, 1000 at once at 110 kB/s each: processes and server-side sockets",
        Load(tool="ss", connections=1000, seconds=6.0, target="/big.bin", size=1 << 30),
        method=Method.DOWNLOADS,
        unit=Unit.OCTETS,
        log=False,
        peers=("edgebox", "nginx", "lighttpd", "h2o"),
        default=False,
    ),
    Row(
        "stall",
        "hot p99 beside cold reads, over hot p99 alone",
        Load(target="/small.html"),
        method=Method.STALL,
        unit=Unit.RATIO,
        peers=("edgebox", "nginx", "lighttpd", "h2o"),
        default=False,
    ),
)


def quick(row: Row) -> Row:
    """The same row with a load of about a second: to see that it works, not to quote from."""
    load = row.load
    small = replace(
        load,
        seconds=min(load.seconds, 1.0),
        requests=min(load.requests, 5_000),
        connections=min(load.connections, 200),
    )
    return replace(row, load=small)
