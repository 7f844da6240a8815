"""[upstream.NAME]: the app servers that a route can be passed to, as keys of edgebox.toml.

Frozen records like those of `config/schema`; no I/O. What a server's
address means is `upstream/origin`'s business, what the numbers do is the rest of that room's.
Defaults are meant for app servers on the same box or in the same rack.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, field

from edgebox.config.marks import Count, Positive, Record, Seconds, Timeout, about

Status = Annotated[int, Meta(ge=200, le=599)]
Balance = Literal["round-robin", "least-connections", "random-two", "hash"]


class UpstreamServer(Record, frozen=True, kw_only=True):
    """A server that needs more said of it than its address."""

    url: Annotated[str, about('"http://HOST:PORT", "https://HOST[:PORT]" or "unix:/path"')]
    weight: Annotated[Positive, about("its share, beside those of the others")] = 1
    backup: Annotated[bool, about("asked only while every other server is out")] = False


class UpstreamTls(Record, frozen=True, kw_only=True):
    """[upstream.NAME.tls]: how the certificates of https servers are judged."""

    verify: Annotated[bool, about("refuse certificates that are not valid for the name")] = True
    ca: Annotated[
        str, about('file of certificates to trust, PEM; "" trusts what the system does')
    ] = ""
    server_name: Annotated[
        str, about('name to ask for and to find in the certificate; "" is that of the URL')
    ] = ""


class UpstreamHealth(Record, frozen=True, kw_only=True):
    """[upstream.NAME.health]: asking servers how they are, besides watching how they answer."""

    path: Annotated[str, about('what to GET, as "/healthz"; "" asks nothing')] = ""
    interval: Annotated[
        float, Meta(extra={"unit": "time"}, ge=0.1), about("between two checks of a server")
    ] = 5.0
    timeout: Annotated[Timeout, about("for a whole check, connecting included")] = 2.0
    healthy_after: Annotated[Positive, about("good checks in a row that bring a server back")] = 2
    unhealthy_after: Annotated[Positive, about("bad checks in a row that take it out")] = 3
    expect: Annotated[tuple[Status, ...], about("statuses that count as good")] = (200, 204)


class Upstream(Record, frozen=True, kw_only=True):
    """[upstream.NAME]: servers that do the same work, and how they are asked."""

    servers: Annotated[
        tuple[str | UpstreamServer, ...],
        about('addresses, or tables { url = "...", weight = 2, backup = true }'),
    ]
    balance: Annotated[
        Balance, about("which server is asked next; hash: always the same one for a URL")
    ] = "round-robin"
    # An event stream or a WebSocket holds one for as long as it lives.
    connections: Annotated[Positive, about("in use at once, to each server")] = 1000
    queue: Annotated[
        Count, about("requests that may wait until a connection is free; 503 beyond")
    ] = 1000
    queue_timeout: Annotated[Seconds, about("how long a request may wait so; 503 afterwards")] = (
        10.0
    )
    keep_alive: Annotated[
        Count, about("unused connections kept to each server; 0 closes after each answer")
    ] = 64
    # Whoever closes first decides whose request is lost. gunicorn closes after 2 s, node,
    # uvicorn and Apache after 5; a new connection on the same box costs some 0.1 ms.
    keep_alive_idle: Annotated[
        Seconds, about("how long an unused one is kept: less than the server itself keeps it")
    ] = 1.5
    # Above 3 s, so that two lost SYNs, repeated after 1 and 2 s, do not end it.
    connect_timeout: Annotated[
        Timeout, about("for name, connection and TLS handshake; 504 beyond")
    ] = 5.0
    head_timeout: Annotated[
        Timeout, about("from the request's last octet to the answer's head; 504 beyond")
    ] = 60.0
    body_timeout: Annotated[
        Timeout, about("without an octet moving, of request or answer, in the middle of a body")
    ] = 60.0
    head_size: Annotated[
        int,
        Meta(extra={"unit": "size"}, ge=1024),
        about("head of an answer; 502 beyond"),
    ] = 32 * 1024
    retries: Annotated[
        Count, about("times that a request is sent again, where that cannot do anything twice")
    ] = 1
    fail_after: Annotated[
        Count, about("failures in a row that take a server out; 0 never does")
    ] = 3
    eject_for: Annotated[Seconds, about("how long it is left out before it is tried again")] = 10.0
    health: Annotated[
        UpstreamHealth, about("asking servers how they are: [upstream.NAME.health]")
    ] = field(default_factory=UpstreamHealth)
    tls: Annotated[UpstreamTls, about("how https servers are trusted: [upstream.NAME.tls]")] = (
        field(default_factory=UpstreamTls)
    )
