"""The gate before h11: a request head is judged as it came off the wire.

h11 0.16 reads more than RFC 9112 allows: bare LF, folded lines, Content-Length beside
Transfer-Encoding, Transfer-Encoding in HTTP/1.0, `HTTP/1.2`, controls in values, any
number of fields. Each of these is one server's message and another's two, so the gate
refuses them all, with a reason, before h11 sees an octet. What it lets pass, h11 reads
the same way; a property test holds the two together.

Every expression here is linear: each repeat is followed by an octet that it cannot match.
Possessive ones are of single octets only; of groups they are wrong before CPython 3.11.5
(python/cpython#100061). Knows nothing of connections, methods or what a target means.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NamedTuple

from msgspec import Struct

from edgebox.http.faults import Fault
from edgebox.http.headers import OWS, Fields, split_list
from edgebox.http.target import judge_host

TCHAR = rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]"  # RFC 9110 §5.6.2
FIELD_LINE = TCHAR + rb"++:[\t\x20-\x7e\x80-\xff]*+\r\n"  # RFC 9112 §5, without obs-fold

_END = re.compile(rb"\n\r?\n")  # what ends a head for h11, too
_BLANK_LINES = re.compile(rb"(?:\r\n)*")
_FIRST = re.compile(TCHAR)
_TOKEN = re.compile(TCHAR + rb"++")
_REQUEST_LINE = re.compile(rb"(" + TCHAR + rb"++) ([\x21-\x7e]++) HTTP/([0-9])\.([0-9])\r\n")
_ODD_TARGET = re.compile(TCHAR + rb"++ [\x21-\x7e\x80-\xff]++ HTTP/[0-9]\.[0-9]\r\n")
_CONTROL = re.compile(rb"[\x00-\x1f\x7f]")
_FIELD_LINES = re.compile(rb"(?:" + FIELD_LINE + rb")*")
_FIELD = re.compile(rb"([^:\r]++):([^\r]*+)\r\n")  # for a block that _FIELD_LINES accepted
_LENGTH = re.compile(rb"[0-9]{1,18}")  # below 2**63


@dataclass(frozen=True, slots=True)
class HeadLimits:
    """How much head one request may have: octets, fields, octets of the target."""

    size: int
    fields: int
    target_length: int


class Framing(NamedTuple):
    """How the end of a request's body is found (RFC 9112 §6.3).

    Neither chunked nor a length: there is no body.
    """

    chunked: bool
    length: int | None


NO_BODY = Framing(False, None)
CHUNKED = Framing(True, None)


class Head(Struct, frozen=True):
    """A head that may be read: `target` is raw, `fields` are as sent but for outer OWS.

    `minor` is 0 or 1. `framing` holds whatever the method: a GET may have a body, which
    must be read off or the connection closed (RFC 9110 §9.3.1). `expects_continue`: the
    client waits for a 100 before it sends the body; never so in HTTP/1.0 (§10.1.1). `host`
    is what Host says, as `parse_host` has it; b"" for an HTTP/1.0 request without one.
    """

    method: bytes
    target: bytes
    minor: int
    fields: Fields
    framing: Framing
    expects_continue: bool
    host: bytes


def skip_blank_lines(buffer: bytes | bytearray) -> int:
    """Octets of empty lines before a request line, to be ignored (RFC 9112 §2.2).

    Any number: the head's deadline bounds them, and they are never kept.
    """
    blank = _BLANK_LINES.match(buffer)
    return blank.end() if blank else 0


def find_end(buffer: bytes | bytearray, start: int) -> int:
    """The index past the head's empty line, -1 if it has not come yet.

    `start` is how much of `buffer` an earlier call has searched. An empty line of a bare
    LF ends a head as well, so that it is refused at once and not waited on.
    """
    end = _END.search(buffer, max(0, start - 2))
    return end.end() if end else -1


def maybe_refuse(buffer: bytes | bytearray, start: int, limits: HeadLimits) -> Fault | None:
    """Judge a head whose end has not come: is it hopeless already?

    So an HTTP/0.9 line, a TLS hello or an endless target is answered at once and not when
    the deadline strikes. `buffer` has no leading blank lines; `start` is how much of it an
    earlier call has judged. The verdict is the one `inspect` would give in the end.
    """
    if not buffer or buffer == b"\r":  # perhaps half a blank line
        return None
    end = buffer.find(b"\n") + 1
    if end == 0:
        if _FIRST.match(buffer) is None:
            return Fault.NOT_HTTP
        if _is_target_long(buffer, limits.target_length):
            return Fault.TARGET_TOO_LONG
    elif end > start:
        line = _read_request_line(bytes(buffer[:end]), limits)
        if isinstance(line, Fault):
            return line
    return Fault.HEAD_TOO_LARGE if len(buffer) > limits.size else None


def inspect(head: bytes, limits: HeadLimits) -> Head | Fault:
    """Judge a whole head, request line to empty line, as `find_end` cut it.

    Faults: those of the head's and the body's framing, the limits, HOST and EXPECTATION.
    The target is only measured; `parse_target` takes it apart.
    """
    line_end = head.find(b"\n") + 1 or len(head)
    line = _read_request_line(head[:line_end], limits)
    if isinstance(line, Fault):
        return line
    method, target, minor = line
    if len(head) > limits.size:
        return Fault.HEAD_TOO_LARGE
    if head.count(b"\n") - 2 > limits.fields:
        return Fault.TOO_MANY_FIELDS
    block = head[line_end:]
    valid = _FIELD_LINES.match(block)
    rest = block[valid.end() :] if valid else block
    if rest != b"\r\n":
        return _why_not_a_field(rest)
    fields = tuple([(name, value.strip(OWS)) for name, value in _FIELD.findall(block)])
    lengths, codings, hosts, expectations = _pick(fields)
    framing = _judge_framing(lengths, codings, minor)
    if isinstance(framing, Fault):
        return framing
    host = judge_host(hosts, minor)
    if isinstance(host, Fault):
        return host
    expected = [member.lower() for value in expectations for member in split_list(value)]
    if any(member != b"100-continue" for member in expected):
        return Fault.EXPECTATION
    return Head(method, target, minor, fields, framing, bool(expected) and minor == 1, host)


def _read_request_line(line: bytes, limits: HeadLimits) -> tuple[bytes, bytes, int] | Fault:
    """Method, raw target and minor version of a request line with its line end."""
    if _FIRST.match(line) is None:
        return Fault.NOT_HTTP
    if _is_target_long(line, limits.target_length):
        return Fault.TARGET_TOO_LONG
    if len(line) > limits.size:
        return Fault.HEAD_TOO_LARGE
    parts = _REQUEST_LINE.fullmatch(line)
    if parts is None:
        return _why_not_a_request_line(line)
    method, target, major, minor = parts.groups()
    # RFC 9112 §2.3 would read HTTP/1.2 as 1.1; no such protocol exists, so whoever sends
    # it is probing. HTTP/2.0 is the preface of an h2 client with prior knowledge.
    if major != b"1" or minor not in b"01":
        return Fault.VERSION
    return method, target, int(minor)


def _is_target_long(line: bytes | bytearray, limit: int) -> bool:
    start = line.find(b" ") + 1
    if start == 0:
        return False
    end = line.find(b" ", start)
    return (end if end >= 0 else len(line)) - start > limit


def _why_not_a_request_line(line: bytes) -> Fault:
    if not line.endswith(b"\r\n"):
        return Fault.BARE_LF if line.endswith(b"\n") else Fault.NOT_HTTP
    if b"\r" in line[:-2]:
        return Fault.BARE_CR
    if _CONTROL.search(line[:-2]):
        return Fault.CONTROL
    return Fault.TARGET if _ODD_TARGET.fullmatch(line) else Fault.NOT_HTTP


def _why_not_a_field(rest: bytes) -> Fault:
    """The reason for which `rest` does not begin with a field line."""
    line = rest[: rest.find(b"\n") + 1 or None]
    if line.startswith((b" ", b"\t")):
        return Fault.OBS_FOLD
    if not line.endswith(b"\r\n"):
        return Fault.BARE_LF
    if b"\r" in line[:-2]:
        return Fault.BARE_CR
    name, colon, _value = line.partition(b":")
    return Fault.CONTROL if colon and _TOKEN.fullmatch(name) else Fault.FIELD_NAME


def _pick(fields: Fields) -> tuple[list[bytes], list[bytes], list[bytes], list[bytes]]:
    """The lines of Content-Length, Transfer-Encoding, Host and Expect."""
    lengths: list[bytes] = []
    codings: list[bytes] = []
    hosts: list[bytes] = []
    expectations: list[bytes] = []
    known = {
        b"content-length": lengths,
        b"transfer-encoding": codings,
        b"host": hosts,
        b"expect": expectations,
    }
    for name, value in fields:
        lines = known.get(name.lower())
        if lines is not None:
            lines.append(value)
    return lengths, codings, hosts, expectations


def _judge_framing(lengths: list[bytes], codings: list[bytes], minor: int) -> Framing | Fault:
    """RFC 9112 §6.3, without its leniencies: even equal lengths may not be repeated."""
    if codings:
        if lengths:
            return Fault.LENGTH_AND_CODING
        return _judge_codings(codings) if minor == 1 else Fault.CODING_ON_1_0
    if not lengths:
        return NO_BODY
    if len(lengths) > 1 or _LENGTH.fullmatch(lengths[0]) is None:
        return Fault.LENGTH
    return Framing(False, int(lengths[0]))


def _judge_codings(codings: list[bytes]) -> Framing | Fault:
    if len(codings) > 1:
        return Fault.CODING_BAD
    coding = codings[0].lower()
    if coding == b"chunked":
        return CHUNKED
    names = [member.partition(b";")[0].strip(OWS) for member in coding.split(b",")]
    if names == [b"chunked"] or b"chunked" in names[:-1]:  # with a parameter, or not last
        return Fault.CODING_BAD
    return Fault.CODING_UNKNOWN if all(map(_TOKEN.fullmatch, names)) else Fault.CODING_BAD
