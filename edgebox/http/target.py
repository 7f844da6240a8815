"""The request target and the Host field: who is asked, and for which path.

Octets come in as sent; what goes out is a host in lower case and a path that was
decoded exactly once and holds no empty, `.` or `..` segment, so that route, stat cache
and file system cannot read it in three ways. Whatever two readers could take for
different paths is refused here (a backslash, NUL), or told in both readings: an encoded
slash is part of a name to npm and GitLab, and a separator to others. `raw` and `raw_path`
keep what was sent, for the log, the cache key and an upstream. Knows nothing of sites,
roots or files.

Octets from 0x80 up are refused although nginx 1.22 serves them: RFC 3986 has only ASCII,
h11 reads no others, and browsers and curl percent-encode them; so nobody who follows the
RFC loses, and a target has one spelling less.
"""

from __future__ import annotations

import re
from ipaddress import AddressValueError, IPv6Address

from msgspec import Struct

from edgebox.http.faults import Fault
from edgebox.http.headers import Headers


class Target(Struct, frozen=True):
    """A request target taken apart (RFC 9112 §3.2).

    `raw` is the target as sent; `raw_path` its path, undecoded, without query;
    `path` is decoded exactly once and normalised, octets, starting with b"/";
    `query` is what follows the first "?", None if there is none; `authority` is
    host[:port] of an absolute-form target, host in lower case, None for origin form.
    `raw` == b"*" (OPTIONS only) has path b"*".

    `separated`: where `raw_path` has a slash or backslash that is encoded, the path as it is
    for whoever takes that for a separator; in `path` it stays as it came.
    """

    raw: bytes
    raw_path: bytes
    path: bytes
    query: bytes | None = None
    authority: bytes | None = None
    separated: bytes | None = None

    @property
    def path_and_query(self) -> bytes:
        """As an origin-form target has them, undecoded."""
        return self.raw_path if self.query is None else self.raw_path + b"?" + self.query


_VISIBLE = re.compile(rb"[\x21\x22\x24-\x7e]+")  # no "#": a fragment is never sent
_ABSOLUTE = re.compile(rb"(?i:https?)://([^/?]*)(.*)")
_BAD_ESCAPE = re.compile(rb"%(?![0-9A-Fa-f]{2})")
_ESCAPE = re.compile(rb"%([0-9A-Fa-f]{2})")
_SEPARATOR = re.compile(rb"(?i)%(2f|5c)")
_FORBIDDEN = re.compile(rb"[\x00-\x1f\x7f\\]")
_ODD = re.compile(rb"%|//|/\.|\\")  # a path without these is already in normal form

_LABEL = rb"(?:[0-9A-Za-z\-_~!$&'()*+,;=]|%[0-9A-Fa-f]{2})+"  # reg-name but for the dot
_HOST = re.compile(
    rb"(?:\[(?P<ipv6>[0-9A-Fa-f:.]+)\]|(?P<name>" + _LABEL + rb"(?:\." + _LABEL + rb")*)\.?)"
    rb"(?::(?P<port>[0-9]{0,5}))?"
)


def parse_target(method: bytes, raw: bytes) -> Target | Fault:
    """Take a request target apart; `method` decides which forms are allowed.

    Faults: METHOD_CONNECT for CONNECT (its authority form included), TARGET where the
    form, the authority or a percent escape of the path is malformed, PATH where the path
    leaves the root, holds a control octet or a backslash, or dots beside an encoded slash.
    """
    if method == b"CONNECT":
        return Fault.METHOD_CONNECT
    if raw == b"*":
        return Target(raw, raw, raw) if method == b"OPTIONS" else Fault.TARGET
    if _VISIBLE.fullmatch(raw) is None:
        return Fault.TARGET
    authority, rest = None, raw
    if not raw.startswith(b"/"):
        absolute = _ABSOLUTE.fullmatch(raw)
        if absolute is None:
            return Fault.TARGET
        host = parse_host(absolute[1])
        if isinstance(host, Fault):
            return Fault.TARGET
        name, port = host
        authority = name if port is None else b"%b:%d" % (name, port)
        rest = absolute[2] if absolute[2].startswith(b"/") else b"/" + absolute[2]
    raw_path, mark, query = rest.partition(b"?")
    separated: bytes | Fault | None = None
    if b"%" in raw_path and _SEPARATOR.search(raw_path) is not None:
        separated = _separate(raw_path)
        path = normalise_path(_SEPARATOR.sub(rb"%25\1", raw_path))
    else:
        path = normalise_path(raw_path)
    if isinstance(path, Fault):
        return path
    if isinstance(separated, Fault):
        return separated
    return Target(raw, raw_path, path, query if mark else None, authority, separated)


def normalise_path(raw_path: bytes) -> bytes | Fault:
    """Decode a path once and remove empty, `.` and `..` segments (RFC 3986 §5.2.4).

    Escapes are decoded first, so `%2e%2e` is `..`; empty segments go before `..` is
    counted, as the file system does it. A trailing slash stays; `/.` and `/..` at the end
    leave one. RFC 3986 lets `..` stop at the root; here it is a fault, since nobody sends
    it with good intent. So is a slash or backslash that is encoded.
    """
    if _ODD.search(raw_path) is None:
        return raw_path
    if _BAD_ESCAPE.search(raw_path):
        return Fault.TARGET
    decoded = _ESCAPE.sub(_octet, raw_path)
    # An escape that decodes to a slash would be a separator to the file system and a part
    # of the name to an upstream.
    if _FORBIDDEN.search(decoded) or decoded.count(b"/") != raw_path.count(b"/"):
        return Fault.PATH
    kept: list[bytes] = []
    segments = decoded.split(b"/")
    for segment in segments:
        if segment == b"..":
            if not kept:
                return Fault.PATH
            kept.pop()
        elif segment not in (b"", b"."):
            kept.append(segment)
    slash = b"/" if kept and segments[-1] in (b"", b".", b"..") else b""
    return b"/" + b"/".join(kept) + slash


def _separate(raw_path: bytes) -> bytes | Fault:
    """A path in which an encoded slash or backslash separates segments.

    Dots among these are a fault: no upstream agrees with the next one on what is meant.
    """
    path = _SEPARATOR.sub(b"/", raw_path)
    segments = _ESCAPE.sub(_octet, path).split(b"/")
    return Fault.PATH if b"." in segments or b".." in segments else normalise_path(path)


def _octet(escape: re.Match[bytes]) -> bytes:
    return bytes.fromhex(escape[1].decode("ascii"))


def parse_host(value: bytes) -> tuple[bytes, int | None] | Fault:
    """Host in lower case and port of a Host field or authority (RFC 3986 §3.2.2).

    The port is None where none or an empty one is given. One trailing dot is dropped:
    `example.com.` is the same name, and must not be another cache key. IPv6 keeps its
    brackets. Refused with HOST: an empty host or label, userinfo, a port above 65535.
    """
    host = _HOST.fullmatch(value)
    if host is None:
        return Fault.HOST
    if host["ipv6"] is not None:
        try:
            IPv6Address(host["ipv6"].decode("ascii"))
        except AddressValueError:
            return Fault.HOST
        name = b"[" + host["ipv6"].lower() + b"]"
    else:
        name = host["name"].lower()
    port = int(host["port"]) if host["port"] else None
    if port is not None and port > 65535:
        return Fault.HOST
    return name, port


def judge_host(values: list[bytes], minor: int) -> bytes | Fault:
    """The host that the Host lines name; HTTP/1.1 must have exactly one (RFC 9112 §3.2).

    b"" for an HTTP/1.0 request that has none.
    """
    if len(values) != 1:
        return b"" if not values and minor == 0 else Fault.HOST
    host = parse_host(values[0])
    return host if isinstance(host, Fault) else host[0]


def effective_host(target: Target, headers: Headers, minor: int) -> bytes | Fault:
    """The host to route by, lower case, without port (RFC 9112 §3.3).

    An absolute-form target's authority wins over Host (RFC 9112 §3.2.2), yet Host must
    still be there and valid. b"" for an HTTP/1.0 request that names none.
    """
    host = judge_host(headers.all(b"host"), minor)
    if isinstance(host, Fault) or target.authority is None:
        return host
    authority = parse_host(target.authority)
    return authority if isinstance(authority, Fault) else authority[0]
