"""Heads that the express lane can read by itself: a narrow part of what h11 accepts.

A request line and the header block after it are matched apart, since browsers repeat
their block for every path. Each line of a block is judged by one strict expression, once,
and remembered. What is not canonical gives None and goes to the task path, which decides
with the gate; a property test holds that everything recognised here is read the same way
there and by h11. So a field name that looks for a body, an upgrade or a proxy is never
recognised, nor is a repeated field that decides.

Knows no answers, no sockets and no sizes: how long a head or target may be is the
caller's to check.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from edgebox.http.gate import TCHAR
from edgebox.http.headers import Field, Fields

# Possessive repeats of single octets only. Of a group, CPython before 3.11.5 goes on from
# where the group failed (python/cpython#100061): Debian 12's 3.11.2 then accepts a block
# that lacks its end. A plain repeat whose inside cannot backtrack costs 3 % more.

# No "#": a fragment is never sent. No backslash: parse_target refuses it.
_LINE = re.compile(rb"(GET|HEAD) (/[\x21-\x22\x24-\x5b\x5d-\x7e]*+) HTTP/1\.([01])").fullmatch

# A name's port goes to 64999, so that no number need be read here; above is for the task.
_HOST = re.compile(
    rb"([0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)\.?(?::(?:[0-5]?[0-9]{0,4}|6[0-4][0-9]{3}))?"
).fullmatch

# Fields that change how the message is framed or what becomes of the connection.
_NEVER = frozenset((
    b"content-length", b"expect", b"http2-settings", b"te", b"trailer", b"transfer-encoding",
    b"upgrade",
))  # fmt: skip
_CONNECTION = frozenset((b"keep-alive", b"close"))
_READ = frozenset((b"connection", b"host", b"referer", b"user-agent"))

# No tab, and no space before the line's end: h11 would strip it.
_FIELD = re.compile(rb"(%b++): *+([\x20-\x7e\x80-\xff]*+)(?<! )" % TCHAR).fullmatch

_PRINTED = bytes(range(0x20, 0x7F)) + bytes(range(0x80, 0x100))

LINES = 512 * 1024  # octets of lines that are remembered, some 2,000; emptied when full
LONGEST_LINE = 512  # longer ones are cookies and the like, which seldom come again
ENTRY = 150  # octets that a line's entry and tuple take beside it, roughly

# What a line says: name in lower case, value, and whether it can change an answer.
_Read = tuple[bytes | None, bytes, bool]
_BORING: _Read = (None, b"boring", False)
_REFUSED: _Read = (None, b"refused", False)


class Line(NamedTuple):
    """A recognised request line; `minor` is 0 or 1."""

    method: bytes
    target: bytes
    minor: int


class Facts(NamedTuple):
    """What matters in a recognised block.

    `fields`: the deciding fields, (lower-case name, value), in order. `host` is in lower
    case, without port, as `effective_host` gives it; None where there is no Host, which
    only HTTP/1.0 may do. `referer` and `user_agent` are b"" where absent.
    """

    fields: Fields
    host: bytes | None
    referer: bytes
    user_agent: bytes


_NO_FIELDS = Facts((), None, b"", b"")


def strip_cookie(block: bytes) -> bytes:
    """The header block without its first Cookie line, where that is canonical and not in front.

    Cookies are what differs between one browser's requests and another's, and seldom decide
    an answer: the rest is found again far more often than the whole.
    """
    before, _, after = block.partition(b"\r\nCookie: ")
    value, end, rest = after.partition(b"\r\n")
    # No tab, and no space before the line's end, as in _FIELD; here for half of its time.
    if not end or value.translate(None, _PRINTED) or value[-1:] == b" ":
        return block
    return before + end + rest


def match_line(line: bytes) -> Line | None:
    """Recognise a request line, given without its CRLF."""
    parts = _LINE(line)
    if parts is None:
        return None
    method, target, minor = parts.groups()
    return Line(method, target, 1 if minor == b"1" else 0)


class Recogniser:
    """Reads header blocks line by line, and remembers lines.

    A browser repeats nearly every line of its block whatever it asks for; often only the
    cookie is new. So a line is judged once, and what is remembered of it is found again
    by its octets.
    """

    __slots__ = ("_held", "_lines", "_most", "_wanted")

    def __init__(self, deciding: frozenset[bytes], max_fields: int) -> None:
        """`deciding`: lower-case names of the fields that can change an answer.

        ValueError if one of them is a field that is never recognised.
        """
        if any(_is_refused(name) for name in deciding):
            raise ValueError("a field that is never recognised cannot decide")
        # Whether it decides, for each name whose value is of any interest.
        self._wanted = {name: name in deciding for name in deciding | _READ}
        self._most = max_fields
        self._lines: dict[bytes, _Read] = {}
        self._held = 0

    def match_block(self, block: bytes) -> Facts | None:
        """Recognise the header block: from the first field line through the empty line.

        None: not canonical, or more than max_fields lines; the task path decides.
        """
        if not block.endswith(b"\r\n\r\n"):
            return _NO_FIELDS if block == b"\r\n" else None
        lines = block[:-4].split(b"\r\n")
        if len(lines) > self._most:
            return None
        get = self._lines.get
        found: dict[bytes, bytes] = {}
        deciding: list[Field] = []
        for line in lines:
            read = get(line)
            if read is None:
                read = self._read(line)
            if read is _BORING:
                continue
            name, value, decides = read
            if name is None or name in found:  # refused, or repeated
                return None
            found[name] = value
            if decides:
                deciding.append((name, value))
        return _facts(tuple(deciding), found)

    def _read(self, line: bytes) -> _Read:
        """What a line says; remembered if it is of a common length."""
        read = self._judge(line)
        size = len(line) + ENTRY
        if len(line) <= LONGEST_LINE:
            if self._held + size > LINES:
                self._lines.clear()
                self._held = 0
            self._lines[line] = read
            self._held += size
        return read

    def _judge(self, line: bytes) -> _Read:
        parts = _FIELD(line)
        if parts is None:
            return _REFUSED
        name = parts[1].lower()
        decides = self._wanted.get(name)
        if decides is None:
            return _REFUSED if _is_refused(name) else _BORING
        return name, parts[2], decides


def _facts(fields: Fields, found: dict[bytes, bytes]) -> Facts | None:
    get = found.get
    host = get(b"host")
    if host is not None:
        parts = _HOST(host)
        if parts is None:
            return None
        host = parts[1].lower()
    if b"connection" in found and found[b"connection"].lower() not in _CONNECTION:
        return None
    return Facts(fields, host, get(b"referer", b""), get(b"user-agent", b""))


def _is_refused(name: bytes) -> bool:
    return name in _NEVER or name.startswith(b"proxy-")
