"""Header fields as they came: ordered pairs of bytes, looked up without regard to case.

Names in look-ups are given in lower case. Nothing here decodes text: field values
are bytes on the wire (RFC 9110 §5.5), and `str.strip()` would eat \\x85 and \\xa0.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

Field = tuple[bytes, bytes]
Fields = tuple[Field, ...]

OWS = b" \t"  # optional whitespace, RFC 9110 §5.6.3


class Headers:
    """An immutable field section with an index by lower-case name."""

    __slots__ = ("_index", "fields")

    def __init__(self, fields: Iterable[Field] = ()) -> None:
        self.fields: Fields = tuple(fields)
        index: dict[bytes, list[bytes]] = {}
        for name, value in self.fields:
            index.setdefault(name.lower(), []).append(value)
        self._index = index

    def get(self, name: bytes) -> bytes | None:
        """All lines of `name` joined by a comma (RFC 9110 §5.3); None if there is none."""
        values = self._index.get(name)
        if values is None:
            return None
        return values[0] if len(values) == 1 else b", ".join(values)

    def all(self, name: bytes) -> list[bytes]:
        """Each line of `name`, in order."""
        return self._index.get(name, [])

    def tokens(self, name: bytes) -> list[bytes]:
        """The members of a comma list of tokens, lower case, empty members dropped."""
        values = self._index.get(name)
        if values is None:  # most fields that are asked for are not there
            return []
        return [t.lower() for value in values for t in split_list(value)]

    def __contains__(self, name: bytes) -> bool:
        return name in self._index

    def __iter__(self) -> Iterator[Field]:
        return iter(self.fields)

    def __len__(self) -> int:
        return len(self.fields)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Headers) and self.fields == other.fields

    def __hash__(self) -> int:
        return hash(self.fields)

    def __repr__(self) -> str:
        return f"Headers({self.fields!r})"


def split_list(value: bytes) -> list[bytes]:
    """The members of a comma-separated list, quoted strings kept whole (RFC 9110 §5.6.1).

    Members are stripped of OWS; empty ones are dropped, as a recipient must. A quote that
    is never closed quotes nothing: in `private="x, no-store` the no-store still counts.
    """
    if b'"' not in value:
        return _stripped(value.split(b","))
    members, start, opened, i, end = [], 0, -1, 0, len(value)
    while i < end:
        c = value[i]
        if opened >= 0 and c == 0x5C:  # backslash: the next octet is data
            i += 1
        elif c == 0x22:
            opened = -1 if opened >= 0 else i
        elif c == 0x2C and opened < 0:
            members.append(value[start:i])
            start = i + 1
        i += 1
    if opened < 0:
        opened = end
    first, *rest = value[opened:].split(b",")
    return _stripped([*members, value[start:opened] + first, *rest])


def _stripped(members: list[bytes]) -> list[bytes]:
    return [m for member in members if (m := member.strip(OWS))]
