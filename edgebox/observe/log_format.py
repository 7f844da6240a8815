"""Access log lines in a form of the operator's own: text with $variables, named as in nginx.

    $remote_addr [$time_iso8601] "$request" $status $cache_status $request_time

A form is compiled once. Where its variables come in the order in which the express lane
learns them, the client's first, then those of the answer, then those of the header block, it
is written in three pieces as the combined format is; else each line is written whole.

A form that begins with { is JSON: values are escaped as JSON wants it, and a number that is
not known is null. Pure, but for what `make_format` is given to know.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from enum import IntEnum
from typing import NamedTuple

import msgspec

from edgebox.config.hints import did_you_mean
from edgebox.http.tracing import REQUEST_ID, TRACEPARENT, parse_traceparent
from edgebox.observe.access_log import (
    Combined,
    Entry,
    FieldFinder,
    Format,
    LogStamp,
    escape,
    host_of,
    request_id_of,
    split_line,
)
from edgebox.observe.outcome import outcome_of

JSON = (
    '{"client":"$remote_addr","time":"$time_iso8601","request":"$request","host":"$host",'
    '"status":$status,"bytes":$body_bytes_sent,"request_time":$request_time,'
    '"cache":"$cache_status","reason":"$cache_reason","upstream":"$upstream_addr",'
    '"upstream_time":$upstream_response_time,"request_id":"$request_id",'
    '"referer":"$http_referer","user_agent":"$http_user_agent"}'
)
NAMES = ("combined", "json")

_MARK = re.compile(r"\$(?:(\$)|\{(\w*)\}?|(\w*))", re.ASCII)
_STAMP = LogStamp(b"", b"", 0)
_NOTHING = Entry()


class Piece(IntEnum):
    """What a variable depends on, in the order in which the lane learns it."""

    CLIENT = 0
    ANSWER = 1
    BLOCK = 2  # the header block, but for cookies, which the lane may leave out of account
    REQUEST = 3  # what is another for each request


class Seen(NamedTuple):
    """What a line is written from; `fields` are those that the form has a use for."""

    entry: Entry
    stamp: LogStamp
    fields: dict[bytes, bytes]


class Variable(NamedTuple):
    """`read` gives b"" for what is not known; `number`: it needs no quotes in JSON."""

    piece: Piece
    read: Callable[[Seen], bytes]
    number: bool = False
    fields: tuple[bytes, ...] = ()  # what `read` looks up in the block


class FormatError(ValueError):
    """A form that cannot be written."""


def _seconds(seconds: float | None) -> bytes:
    return b"" if seconds is None else b"%.3f" % seconds


def _cache_status(seen: Seen) -> bytes:
    return outcome_of(seen.entry.member).status.encode()


def _query(seen: Seen) -> bytes:
    return split_line(seen.entry.line)[1].partition(b"?")[2]


def _traceparent(seen: Seen) -> bytes:
    return seen.entry.asked.traceparent or seen.fields.get(TRACEPARENT, b"")


def _trace_id(seen: Seen) -> bytes:
    trace = parse_traceparent(_traceparent(seen))
    return trace.trace_id if trace is not None else b""


def _span_id(seen: Seen) -> bytes:
    trace = parse_traceparent(_traceparent(seen))
    return trace.span_id if trace is not None else b""


_ANSWER, _BLOCK = Piece.ANSWER, Piece.BLOCK

VARIABLES: dict[str, Variable] = {
    "args": Variable(_ANSWER, _query),
    "body_bytes_sent": Variable(_ANSWER, lambda s: b"%d" % s.entry.size, True),
    "bytes_sent": Variable(_ANSWER, lambda s: b"%d" % s.entry.octets, True),
    "cache_reason": Variable(_ANSWER, lambda s: outcome_of(s.entry.member).reason.encode()),
    "cache_status": Variable(_ANSWER, _cache_status),
    "connection_requests": Variable(Piece.REQUEST, lambda s: b"%d" % s.entry.requests, True),
    "host": Variable(_ANSWER, lambda s: host_of(s.entry, s.fields), fields=(b"host",)),
    "msec": Variable(_ANSWER, lambda s: b"%d.000" % s.stamp.epoch, True),
    "query_string": Variable(_ANSWER, _query),
    "remote_addr": Variable(Piece.CLIENT, lambda s: s.entry.peer),
    "remote_user": Variable(_ANSWER, lambda s: b""),
    "request": Variable(_ANSWER, lambda s: s.entry.line),
    "request_id": Variable(
        _BLOCK, lambda s: request_id_of(s.entry, s.fields), fields=(REQUEST_ID,)
    ),
    "request_method": Variable(_ANSWER, lambda s: split_line(s.entry.line)[0]),
    "request_time": Variable(_ANSWER, lambda s: _seconds(s.entry.seconds), True),
    "request_uri": Variable(_ANSWER, lambda s: split_line(s.entry.line)[1]),
    "scheme": Variable(_ANSWER, lambda s: b"http"),
    "server_protocol": Variable(_ANSWER, lambda s: split_line(s.entry.line)[2]),
    "span_id": Variable(_BLOCK, _span_id, fields=(TRACEPARENT,)),
    "status": Variable(_ANSWER, lambda s: b"%d" % s.entry.status, True),
    "time_iso8601": Variable(_ANSWER, lambda s: s.stamp.iso),
    "time_local": Variable(_ANSWER, lambda s: s.stamp.combined),
    "trace_id": Variable(_BLOCK, _trace_id, fields=(TRACEPARENT,)),
    "upstream_addr": Variable(_ANSWER, lambda s: s.entry.asked.server.encode()),
    "upstream_cache_status": Variable(_ANSWER, _cache_status),
    "upstream_header_time": Variable(_ANSWER, lambda s: _seconds(s.entry.asked.head_seconds), True),
    "upstream_response_time": Variable(_ANSWER, lambda s: _seconds(s.entry.asked.seconds), True),
}
# What is not in the pieces of an answer that came from upstream.
_OF_ASKING = frozenset((
    "request_id", "request_time", "span_id", "trace_id", "upstream_addr", "upstream_header_time",
    "upstream_response_time",
))  # fmt: skip
# Known when a form is compiled, and given then.
CONSTANTS = ("hostname", "pid")
FIELD_PREFIX = "http_"  # $http_user_agent: that field of the request


def make_format(wanted: str, constants: Mapping[str, str]) -> Format:
    """The form that `wanted` names or is. `constants` has a text for each of CONSTANTS.

    Raises FormatError.
    """
    if wanted == "combined":
        return Combined()
    if wanted == "json":
        return Template(JSON, constants)
    if "$" not in wanted:
        hint = did_you_mean(wanted, NAMES) or '; write "combined", "json" or text with $variables'
        raise FormatError(f"is no form of a log line{hint}")
    return Template(wanted, constants)


Write = Callable[[Seen], bytes]


class _Text:
    """Literal text and variables in turn, being put together; then it can be written."""

    def __init__(self) -> None:
        self._form = b""
        self._writes: list[Write] = []

    def add_literal(self, text: str) -> None:
        self._form += text.encode().replace(b"%", b"%%")

    def add_variable(self, write: Write) -> None:
        self._form += b"%b"
        self._writes.append(write)

    def render(self, seen: Seen) -> bytes:
        return self._form % tuple([write(seen) for write in self._writes])


class Template:
    """A compiled form."""

    def __init__(self, text: str, constants: Mapping[str, str]) -> None:
        """Raises FormatError."""
        if not text.isprintable():
            raise FormatError("has a control character: a line is one line")
        escape_for = _json if text.startswith("{") else _plain
        self._pieces = (_Text(), _Text(), _Text())
        self._whole = _Text()
        self.in_pieces = True
        self.tells_asking = False
        wanted: set[bytes] = set()
        latest, start = Piece.CLIENT, 0
        for mark in _MARK.finditer(text):
            self._add_literal(text[start : mark.start()], latest)
            start = mark.end()
            name = "$" if mark[1] else _name_in(mark)
            if name == "$" or (name in CONSTANTS and name in constants):
                self._add_literal(constants.get(name, "$"), latest)
                continue
            variable = _find(name)
            self.tells_asking |= name in _OF_ASKING
            self.in_pieces &= latest <= variable.piece < Piece.REQUEST
            latest = variable.piece if self.in_pieces else latest
            wanted.update(variable.fields)
            for piece in (self._pieces[latest], self._whole):
                piece.add_variable(escape_for(variable))
        self._add_literal(text[start:], latest)
        self._add_literal("\n", Piece.BLOCK)
        self._finder = FieldFinder(*wanted) if wanted else None

    def client(self, peer: bytes) -> bytes:
        return self._pieces[Piece.CLIENT].render(Seen(Entry(peer=peer), _STAMP, {}))

    def answer(self, entry: Entry, stamp: LogStamp) -> bytes:
        return self._pieces[Piece.ANSWER].render(Seen(entry, stamp, {}))

    def agent(self, referer: bytes, user_agent: bytes, block: bytes) -> bytes:
        return self._pieces[Piece.BLOCK].render(Seen(_NOTHING, _STAMP, self._find_fields(block)))

    def line(self, entry: Entry, stamp: LogStamp) -> bytes:
        return self._whole.render(Seen(entry, stamp, self._find_fields(entry.block)))

    def _add_literal(self, text: str, piece: Piece) -> None:
        self._pieces[piece].add_literal(text)
        self._whole.add_literal(text)

    def _find_fields(self, block: bytes) -> dict[bytes, bytes]:
        return self._finder.find(block) if self._finder is not None else {}


def _name_in(mark: re.Match[str]) -> str:
    braced, bare = mark[2], mark[3]
    if braced is not None and not mark[0].endswith("}"):
        raise FormatError(f"${{{braced} is not closed")
    name = braced if braced is not None else bare
    if not name:
        raise FormatError('has a $ without a name: write "$$" for the sign itself')
    return str(name)


def _find(name: str) -> Variable:
    if name.startswith(FIELD_PREFIX) and len(name) > len(FIELD_PREFIX):
        field = name.removeprefix(FIELD_PREFIX).replace("_", "-").lower().encode()
        piece = Piece.REQUEST if field == b"cookie" else Piece.BLOCK
        return Variable(piece, lambda seen: seen.fields.get(field, b""), fields=(field,))
    if name not in VARIABLES:
        known = [*VARIABLES, *CONSTANTS, "http_referer", "http_user_agent"]
        hint = did_you_mean(name, known).replace('"', '"$', 1)
        raise FormatError(f"there is no ${name}{hint or '; docs/logs.md lists all variables'}")
    return VARIABLES[name]


def _plain(variable: Variable) -> Write:
    read = variable.read
    if variable.number:
        return lambda seen: read(seen) or b"-"
    return lambda seen: escape(read(seen)) or b"-"


def _json(variable: Variable) -> Write:
    read = variable.read
    if variable.number:
        return lambda seen: read(seen) or b"null"
    return lambda seen: escape_json(read(seen))


def escape_json(value: bytes) -> bytes:
    """What stands between the quotes of a JSON string; octets are taken for Latin-1."""
    if escape(value) is value:
        return value
    return msgspec.json.encode(value.decode("latin-1"))[1:-1]
