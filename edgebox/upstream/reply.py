"""An app server's response head: what it says, and how its body ends.

One strict expression reads what nearly every server sends; whatever it refuses goes to h11,
which forgives more (folded lines, bare LF, controls) or refuses it for good. A property
test holds that both read alike. What the head says of its connection is understood here
and left out of `fields`, for it is nobody else's (RFC 9110 §7.6.1).

A head of 240 octets with 8 fields took 8 µs, and h11, which must be told of a request first,
80 (2026-11-30, CPython 3.11).
"""

from __future__ import annotations

import re
from enum import Enum

import h11
from msgspec import Struct

from edgebox.http.gate import FIELD_LINE
from edgebox.http.headers import OWS, Fields, split_list
from edgebox.upstream.errors import Malformed

MAX_FIELDS = 256

_HEAD = re.compile(
    rb"HTTP/1\.([01]) ([1-5][0-9]{2})(?: [\t\x20-\x7e\x80-\xff]*+)?\r\n"
    rb"((?:%b)*+)\r\n" % FIELD_LINE
).fullmatch
# For a block that FIELD_LINE accepted; blanks at a line's end are rare, and stripped if any.
_FIELD = re.compile(rb"([^:\r]++):[\t ]*+([^\r]*+)\r\n").findall
_LENGTH = re.compile(rb"[0-9]{1,18}+").fullmatch  # below 2**63
_ONE_HOP = frozenset((
    b"connection", b"content-length", b"keep-alive", b"proxy-connection", b"te", b"trailer",
    b"transfer-encoding", b"upgrade",
))  # fmt: skip
_PLAIN_OPTIONS = frozenset((b"close", b"keep-alive"))  # name no field
_COMMON_OPTIONS = {o: frozenset((o.lower(),)) for o in (b"close", b"keep-alive", b"Keep-Alive")}


class Ending(Enum):
    """How the end of a body is found (RFC 9112 §6.3)."""

    AT_ONCE = "there is no body"
    LENGTH = "by its length"
    CHUNKED = "by its last chunk"
    CLOSE = "by the end of the connection"


class Reply(Struct, frozen=True):
    """A response head.

    `fields`: without Content-Length and whatever concerns the connection. `length` is what
    Content-Length says, even of a body that is not there (HEAD, 304). `keep_alive`: the
    connection may be used again, if the body does not end with it. `upgrade`: the protocol
    that a 101 switches to.
    """

    status: int
    fields: Fields
    ending: Ending
    length: int | None
    keep_alive: bool
    upgrade: bytes


def parse_reply(head: bytes, method: bytes) -> Reply | Malformed:
    """Read a whole head, through its empty line, as the answer to a `method` request."""
    parts = _HEAD(head)
    if parts is None:
        lenient = _read_with_h11(head)
        if isinstance(lenient, Malformed):
            return lenient
        minor, status, fields = lenient
    else:
        minor, status = parts[1] == b"1", int(parts[2])
        fields = split_fields(parts[3])
    if len(fields) > MAX_FIELDS:
        return Malformed.TOO_MANY_FIELDS
    kept = []
    aside: dict[bytes, list[bytes]] = {}
    for field in fields:
        name = field[0].lower()
        if name not in _ONE_HOP:
            kept.append(field)
        elif name in aside:
            aside[name].append(field[1])
        else:
            aside[name] = [field[1]]
    keep_alive, upgrade = minor, b""
    if connection := aside.get(b"connection"):
        options = _options(connection)
        keep_alive = b"close" not in options and (minor or b"keep-alive" in options)
        if not options <= _PLAIN_OPTIONS:
            kept = [field for field in kept if field[0].lower() not in options]
            if b"upgrade" in options:
                upgrade = b", ".join(aside.get(b"upgrade", ()))
    framing = _judge_framing(aside, minor)
    if isinstance(framing, Malformed):
        return framing
    ending, length = framing
    if status < 200 or status in (204, 304) or method == b"HEAD":
        ending = Ending.AT_ONCE
    return Reply(status, tuple(kept), ending, length, keep_alive, upgrade)


def split_fields(block: bytes) -> Fields:
    """Name and value of each line of a block that is nothing but FIELD_LINEs."""
    if b" \r" in block or b"\t\r" in block:
        return tuple([(name, value.rstrip(OWS)) for name, value in _FIELD(block)])
    return tuple(_FIELD(block))


def is_hopeless(buffer: bytes) -> bool:
    """Whether octets cannot be the beginning of a response, however they go on."""
    return buffer[:7] != b"HTTP/1."[: len(buffer)]


def strip_trailers(trailers: Fields) -> Fields:
    """Trailers without those that would frame a message or concern the connection."""
    return tuple(field for field in trailers if field[0].lower() not in _ONE_HOP)


def _options(connection: list[bytes]) -> frozenset[bytes]:
    """The connection options, in lower case (RFC 9110 §7.6.1)."""
    known = _COMMON_OPTIONS.get(connection[0]) if len(connection) == 1 else None
    return known or frozenset(o.lower() for value in connection for o in split_list(value))


def _judge_framing(
    aside: dict[bytes, list[bytes]], minor: bool
) -> tuple[Ending, int | None] | Malformed:
    """RFC 9112 §6.3, for a response that may have a body."""
    lengths, codings = aside.get(b"content-length"), aside.get(b"transfer-encoding")
    if codings:
        if lengths:
            return Malformed.LENGTH_AND_CODING
        if not minor:
            return Malformed.CODING_ON_1_0
        chunked = len(codings) == 1 and codings[0].lower() == b"chunked"
        return (Ending.CHUNKED, None) if chunked else Malformed.CODING
    if not lengths:
        return Ending.CLOSE, None
    number = lengths[0]
    if len(lengths) > 1 or b"," in number:  # told more than once, RFC 9110 §8.6
        told = {member for value in lengths for member in split_list(value)}
        if len(told) != 1:
            return Malformed.LENGTH
        number = told.pop()
    return (Ending.LENGTH, int(number)) if _LENGTH(number) else Malformed.LENGTH


def _read_with_h11(head: bytes) -> tuple[bool, int, Fields] | Malformed:
    """Whether it is HTTP/1.1, status and fields of a head that is not quite as it should be."""
    reader = h11.Connection(h11.CLIENT, max_incomplete_event_size=len(head) + 1)
    # With Upgrade, so that a 101 is read and not judged.
    reader.send(h11.Request(method="GET", target="/", headers=[("Host", "x"), ("Upgrade", "x")]))
    reader.send(h11.EndOfMessage())
    reader.receive_data(head)
    try:
        event = reader.next_event()
    except h11.RemoteProtocolError:
        return Malformed.HEAD
    if not isinstance(event, h11.InformationalResponse | h11.Response):
        return Malformed.HEAD
    if event.http_version not in (b"1.0", b"1.1"):
        return Malformed.VERSION
    if event.status_code > 599:
        return Malformed.STATUS
    return event.http_version == b"1.1", event.status_code, tuple(event.headers.raw_items())
