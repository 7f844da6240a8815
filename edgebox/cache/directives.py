"""Cache-Control as real life sends it: lines and lists of directives, taken apart.

Nothing that arrives raises. A directive that cannot be understood keeps its name and loses
its argument, which always is the more careful reading: a max-age that is no number counts
as 0 (RFC 9111 §4.2.1), a private whose list is no list covers the whole response. What the
directives mean for a response is the business of `policy` and `freshness`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache

from edgebox.http.headers import OWS, Headers, split_list

FOREVER = 2**31  # what larger numbers count as, RFC 9111 §1.2.2

_TOKEN = rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"
_DIRECTIVE = re.compile(rb"(" + _TOKEN + rb")(.*)", re.DOTALL)
_FIELD_NAME = re.compile(_TOKEN)
_QUOTES_CLOSE = re.compile(rb'(?:[^"]++|"(?:[^"\\]++|\\.)*+")*+', re.DOTALL)
_ESCAPE = re.compile(rb"\\(.)", re.DOTALL)
_MALFORMED = b""  # neither a number nor a list of names

# With these the careful reading of a repetition is to obey each, not the first.
_LISTS = (b"private", b"no-cache")


class Directives:
    """Directives by lower-case name. Of repeated ones the first counts (RFC 9111 §4.2.1)."""

    __slots__ = ("_arguments",)

    def __init__(self, arguments: Mapping[bytes, bytes | None]) -> None:
        self._arguments = arguments

    def __contains__(self, name: bytes) -> bool:
        return name in self._arguments

    def has_any(self, names: frozenset[bytes]) -> bool:
        """Whether one of them is there."""
        return not names.isdisjoint(self._arguments)

    def __len__(self) -> int:
        return len(self._arguments)

    def __repr__(self) -> str:
        return f"Directives({dict(self._arguments)!r})"

    def seconds(self, name: bytes) -> int | None:
        """The number given to `name`, at most FOREVER; 0 if it is none; None if absent."""
        if name not in self._arguments:
            return None
        return parse_seconds(self._arguments[name] or _MALFORMED) or 0

    def max_stale(self) -> int | None:
        """How stale a response the client takes: FOREVER without a number; None: not at all."""
        argument = self._arguments.get(b"max-stale", _MALFORMED)
        if argument is None:
            return FOREVER
        return parse_seconds(argument)

    def field_names(self, name: bytes) -> tuple[bytes, ...]:
        """The fields that `private` or `no-cache` is limited to, lower case.

        Empty where it is absent or covers everything, or its list is empty or malformed.
        """
        members = [m.strip(OWS) for m in (self._arguments.get(name) or b"").split(b",")]
        names = [m.lower() for m in members if m]
        return tuple(names) if all(_FIELD_NAME.fullmatch(n) for n in names) else ()

    def covers_all(self, name: bytes) -> bool:
        """Whether `private` or `no-cache` is there and not limited to some fields."""
        return name in self._arguments and not self.field_names(name)


_NONE = Directives({})


def parse_seconds(digits: bytes) -> int | None:
    """delta-seconds (RFC 9111 §1.2.2): digits and nothing else, or None; at most FOREVER."""
    if not digits.isdigit():
        return None
    digits = digits.lstrip(b"0") or b"0"
    return min(int(digits), FOREVER) if len(digits) <= len(str(FOREVER)) else FOREVER


def parse(lines: Sequence[bytes]) -> Directives:
    """The directives of all lines of a Cache-Control field."""
    return _parse(tuple(lines)) if lines else _NONE


# Servers and clients say the same few things all the time, and each is asked about more
# than once. Lines are no longer than a head: this is bounded.
@lru_cache(maxsize=256)
def _parse(lines: tuple[bytes, ...]) -> Directives:
    arguments: dict[bytes, bytes | None] = {}
    for line in lines:
        # A quote left open must not swallow the no-store behind it.
        members = split_list(line) if _QUOTES_CLOSE.fullmatch(line) else line.split(b",")
        for member in members:
            found = _DIRECTIVE.fullmatch(member.strip(OWS))
            if found is None:
                continue
            name, argument = found[1].lower(), _argument(found[2])
            if name not in arguments:
                arguments[name] = argument
            elif name in _LISTS:
                arguments[name] = _both(arguments[name], argument)
    return Directives(arguments)


def parse_request(headers: Headers) -> Directives:
    """A request's directives; Pragma: no-cache stands in where there are none (§5.4)."""
    if b"cache-control" not in headers and b"no-cache" in headers.tokens(b"pragma"):
        return Directives({b"no-cache": None})
    return parse(headers.all(b"cache-control"))


def _argument(rest: bytes) -> bytes | None:
    """What follows a name: nothing, "=" and a token, or "=" and a quoted string.

    Blanks around "=" are not in the grammar (RFC 9111 §5.2), nor is anything else.
    """
    if not rest:
        return None
    value = rest[1:]
    if rest[:1] != b"=" or value[:1] in (b" ", b"\t"):
        return _MALFORMED
    if len(value) >= 2 and value[:1] == value[-1:] == b'"':
        return _ESCAPE.sub(rb"\1", value[1:-1])
    return value


def _both(one: bytes | None, other: bytes | None) -> bytes | None:
    """Two lists as one; if either is not a list, the directive covers everything."""
    return one + b"," + other if one and other else None
