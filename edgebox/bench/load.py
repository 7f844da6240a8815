"""What to ask, how often and by how many: the load as an operator describes it. Pure.

The options are ab's (ab(1)); the request is HTTP/1.1, for that is what servers are tuned
for, where ab speaks 1.0.
"""

from __future__ import annotations

import re
from base64 import b64encode
from urllib.parse import urlsplit

from msgspec import Struct

from edgebox import __version__

_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+").fullmatch  # RFC 9110 §5.6.2
_BAD_VALUE = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]").search


class BadLoad(ValueError):
    """A load that cannot be put on anything; the message says why."""


class Target(Struct, frozen=True):
    """Where a URL points. `host` is without the brackets of an IPv6 address."""

    host: str
    port: int
    authority: str  # as the Host field wants it
    path: str  # with the query


class Load(Struct, frozen=True, kw_only=True):
    """`requests` of one kind, `concurrency` at a time.

    `requests` None: as many as fit into `seconds`; with both, what comes first ends it.
    `timeout`: seconds for one request, connecting included. `same_length`: an answer whose
    length is not that of the first is a failure.
    """

    target: Target
    octets: bytes  # the whole request
    requests: int | None
    concurrency: int
    seconds: float | None
    keep_alive: bool
    timeout: float
    same_length: bool
    body_length: int = 0


def parse_target(url: str) -> Target:
    """The parts of an http:// URL; the scheme may be left out. Raises BadLoad."""
    if "://" not in url:
        url = f"http://{url}"
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port or 80
    except ValueError as problem:
        raise BadLoad(f"{url}: {problem}") from problem
    if parts.scheme != "http":
        raise BadLoad(f"{url}: only http:// can be asked")
    if not host or not url.isascii() or re.search(r"[\x00-\x20\x7f]", url):
        raise BadLoad(f"{url}: not a URL")
    authority = parts.netloc.rpartition("@")[2]
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return Target(host, port, authority, path)


def render_request(
    target: Target, method: str, fields: list[tuple[str, str]], body: bytes, keep_alive: bool
) -> bytes:
    """The octets of a request; `fields` go before what would be sent unasked. Raises BadLoad."""
    for name, value in fields:
        if not _TOKEN(name) or _BAD_VALUE(value):
            raise BadLoad(f"not a header field: {name}: {value}")
    given = {name.lower() for name, _ in fields}
    own = [
        ("Host", target.authority),
        ("User-Agent", f"edgebox-bench/{__version__}"),
        ("Accept", "*/*"),
    ]
    if not keep_alive:
        own.append(("Connection", "close"))
    if body or method in ("POST", "PUT"):
        own.append(("Content-Length", str(len(body))))
    lines = [f"{method} {target.path} HTTP/1.1"]
    lines += [f"{name}: {value}" for name, value in own if name.lower() not in given]
    lines += [f"{name}: {value}" for name, value in fields]
    try:
        return "\r\n".join([*lines, "", ""]).encode("latin-1") + body
    except UnicodeEncodeError as problem:
        raise BadLoad(f"not a header field: {problem.object}") from problem


def parse_field(line: str) -> tuple[str, str]:
    """ "Name: value" as name and value. Raises BadLoad."""
    name, colon, value = line.partition(":")
    if not colon or not _TOKEN(name):
        raise BadLoad(f"not a header field: {line}")
    return name, value.strip(" \t")


def basic_credentials(pair: str) -> str:
    """The Authorization value for "USER:PASSWORD" (RFC 7617). Raises BadLoad."""
    if ":" not in pair:
        raise BadLoad("want USER:PASSWORD")
    return f"Basic {b64encode(pair.encode()).decode()}"
