"""What changes in a request on its way to an app server. Pure.

Fields of one hop end here (RFC 9110 §7.6.1), and so does what strangers say of where they
come from: an app server believes these fields, so only we, or a proxy that the operator
trusts, may set them. What is not part of the cache key must not change the answer.
"""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from msgspec.structs import replace

from edgebox.http.headers import Field, Fields, Headers, split_list
from edgebox.http.message import Request

Network = IPv4Network | IPv6Network

HOP_BY_HOP = frozenset((
    b"connection", b"keep-alive", b"proxy-authenticate", b"proxy-authorization",
    b"proxy-connection", b"te", b"trailer", b"transfer-encoding", b"upgrade", b"http2-settings",
    b"content-length", b"expect",
))  # fmt: skip

# Where the client is and what it asked for, as a proxy would tell: ours to say.
PROVENANCE = frozenset((
    b"forwarded", b"x-forwarded-for", b"x-forwarded-host", b"x-forwarded-proto",
    b"x-forwarded-port", b"x-forwarded-prefix", b"x-real-ip", b"x-original-url", b"x-rewrite-url",
    b"x-original-host", b"x-host", b"x-forwarded-server", b"x-http-host-override",
    b"x-forwarded-scheme",
))  # fmt: skip

# Of these, what a trusted proxy said goes on with our own part added.
REWRITTEN = frozenset((b"forwarded", b"x-forwarded-for"))

# What the app server gets differs from what the client sent: only with these set can it be
# told which answer fits.
SUPPLIED = PROVENANCE


# By these loops are found: no client may have them taken off as fields of its connection.
TRACES = frozenset((b"via", b"cdn-loop"))


@dataclass(frozen=True, slots=True)
class ForwardRules:
    """`name` is our name in Via and CDN-Loop; `host` replaces the client's Host where given."""

    name: bytes
    trusted: tuple[Network, ...] = ()
    scheme: bytes = b"http"
    host: bytes | None = None


def parse_networks(networks: tuple[str, ...]) -> tuple[Network, ...]:
    """ValueError where one is none."""
    return tuple(ip_network(network, strict=False) for network in networks)


def contains(networks: tuple[Network, ...], peer: bytes) -> bool:
    """Whether a client's address lies in one of `networks`; a Unix socket is this machine."""
    if not networks:
        return False
    if peer == b"unix:":
        return any(network.is_loopback for network in networks)
    try:
        address: IPv4Address | IPv6Address = ip_address(peer.partition(b"%")[0].decode())
    except ValueError:
        return False
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    return any(address in network for network in networks)


def is_looping(request: Request, name: bytes) -> bool:
    """Whether the request passed through here already (RFC 9110 §7.6.3, RFC 8586)."""
    for member in split_list(request.headers.get(b"cdn-loop") or b""):
        if member.partition(b";")[0].strip() == name:
            return True
    for member in split_list(request.headers.get(b"via") or b""):
        parts = member.split()
        if len(parts) >= 2 and parts[1] == name:
            return True
    return False


def forwarded(request: Request, peer: bytes, rules: ForwardRules) -> Request:
    """The request of the client at `peer` as the app server is to see it, but for Host and Via.

    The cache goes by this one, since it is these fields that an answer's Vary speaks of.
    """
    nominated = request.headers.tokens(b"connection")
    trusted = contains(rules.trusted, peer)
    dropped = HOP_BY_HOP.union(nominated)
    dropped |= REWRITTEN if trusted else PROVENANCE
    dropped -= TRACES
    kept = [field for field in request.headers if field[0].lower() not in dropped]
    asked = asked_host(request)
    if request.method == b"OPTIONS":
        kept = [_one_less(field) for field in kept]
    fields = (*kept, *_provenance(request.headers, peer, asked, trusted, rules))
    return replace(request, headers=Headers(fields))


def outgoing_fields(fields: Fields, request: Request, rules: ForwardRules) -> Fields:
    """The fields that go out for a `forwarded` request: `fields` are its own, or what the
    cache makes of them."""
    kept = [field for field in fields if field[0].lower() not in TRACES | {b"host"}]
    host = rules.host if rules.host is not None else asked_host(request)
    via = [value for name, value in fields if name.lower() == b"via"]
    via.append(b"1.%d %s" % (request.minor, rules.name))
    loop = [value for name, value in fields if name.lower() == b"cdn-loop"]
    loop.append(rules.name)
    traces = (b"Via", b", ".join(via)), (b"CDN-Loop", b", ".join(loop))
    return ((b"Host", host), *kept, *traces)


def asked_host(request: Request) -> bytes:
    """Host and port that the client asked for: the target's, if it names them (RFC 9112 §3.2.2)."""
    return request.target.authority or request.headers.get(b"host") or request.host


def ends_here(request: Request) -> bool:
    """Whether an OPTIONS may go no further (RFC 9110 §7.6.2)."""
    return request.method == b"OPTIONS" and request.headers.get(b"max-forwards") == b"0"


def _one_less(field: Field) -> Field:
    if field[0].lower() != b"max-forwards" or not field[1].isdigit() or len(field[1]) > 9:
        return field
    return field[0], b"%d" % max(0, int(field[1]) - 1)


def _provenance(
    headers: Headers, peer: bytes, host: bytes, trusted: bool, rules: ForwardRules
) -> list[Field]:
    """X-Forwarded-* and Forwarded (RFC 7239), with what a trusted proxy said before us."""
    node = b'"[%s]"' % peer if b":" in peer and peer != b"unix:" else peer
    node = b"unknown" if peer == b"unix:" else node
    own = b'for=%s;host="%s";proto=%s' % (node, host.replace(b'"', b""), rules.scheme)
    before = headers.get(b"x-forwarded-for") if trusted else None
    forwarded = headers.get(b"forwarded") if trusted else None
    fields = [
        (b"X-Forwarded-For", peer if before is None else before + b", " + peer),
        (b"Forwarded", own if forwarded is None else forwarded + b", " + own),
    ]
    if not trusted or b"x-forwarded-proto" not in headers:
        fields.append((b"X-Forwarded-Proto", rules.scheme))
    if not trusted or b"x-forwarded-host" not in headers:
        fields.append((b"X-Forwarded-Host", host))
    return fields
