"""Which field of a response instructs this cache (RFC 9213).

The first field of the operator's list that is there and well formed wins; Cache-Control
and Expires then count for nothing, no-store included. Targeted fields are structured, so a
field that a Cache-Control parser would make sense of may well be invalid here.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from edgebox.cache.directives import Directives, parse
from edgebox.cache.structured import Value, parse_dictionary
from edgebox.http.headers import Headers

CACHE_CONTROL = b"cache-control"

_NUMBERS = frozenset({b"max-age", b"s-maxage", b"stale-while-revalidate", b"stale-if-error"})
_LISTS = frozenset({b"private", b"no-cache"})
_FLAGS = frozenset(
    {b"no-store", b"must-revalidate", b"proxy-revalidate", b"must-understand", b"public"}
    | {b"no-transform"}
)
# Written wrongly they still mean to restrict; the others are left out (RFC 9213 §2.1).
_RESTRICT = _LISTS | (_FLAGS - {b"public", b"must-understand"}) | {b"s-maxage"}


class Control(Struct, frozen=True):
    """The directives that apply to a response, and the field that they came in."""

    directives: Directives
    field: bytes = CACHE_CONTROL

    @property
    def targeted(self) -> bool:
        """Whether Cache-Control and Expires are to be ignored."""
        return self.field != CACHE_CONTROL


def select_control(headers: Headers, targets: Sequence[bytes]) -> Control:
    """The directives to obey; `targets` are lower-case field names, most specific first."""
    for target in targets:
        value = headers.get(target)
        directives = None if value is None else _parse_targeted(value)
        if directives:
            return Control(directives, target)
    return Control(parse(headers.all(CACHE_CONTROL)))


def _parse_targeted(value: bytes) -> Directives | None:
    members = parse_dictionary(value)
    if members is None:
        return None
    arguments: dict[bytes, bytes | None] = {}
    for name, member in members.items():
        if _fits(name, member):
            arguments[name] = _argument(member)
        elif name in _RESTRICT:
            arguments[name] = None
    return Directives(arguments)


def _fits(name: bytes, value: Value) -> bool:
    if name in _NUMBERS:
        number = value.integer()
        return number is not None and number >= 0
    if name in _LISTS:
        return value.is_true() or value.string() is not None
    return value.is_true() or name not in _FLAGS


def _argument(value: Value) -> bytes | None:
    if value.is_true():
        return None
    return value.octets if (string := value.string()) is None else string
