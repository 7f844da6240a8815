"""Content codings made here: of which answers, for whom, and what they are called. Pure.

A cached text is coded once and kept beside the original, as another representation of the
same resource: with an entity tag of its own (RFC 9110 §8.8.3.3) and a Vary that says so.
Towards the upstream there is only the original.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from edgebox.cache.directives import parse, parse_request
from edgebox.cache.entry import StoredResponse
from edgebox.http.headers import Field, Fields, Headers, split_list
from edgebox.http.mime import matches
from edgebox.http.negotiate import IDENTITY, acceptable, choose

# What says that it is coded already, that it is a part, or what its octets must be.
_BOUND_TO_OCTETS = frozenset(
    {b"content-encoding", b"content-range", b"content-md5", b"digest", b"content-digest"}
    | {b"repr-digest", b"signature", b"signature-input"}
)
_SUFFIXED = re.compile(rb'-(?:br|zstd|gzip)"$')


@dataclass(frozen=True, slots=True)
class CodingRules:
    """`codings` in order of preference, none of them to code nothing; sizes in octets."""

    codings: tuple[bytes, ...] = ()
    types: tuple[str, ...] = ()
    smallest: int = 0
    largest: int = 0


NOTHING_CODED = CodingRules()


class Face(NamedTuple):
    """What of a stored answer one client gets to see.

    `varies`: others may get it in another coding. `coding`: b"" for the octets as they are.
    `etag`: its tag, or the one by which the client holds it already. `wish`: a coding that
    would suit this client better, if there were one.
    """

    varies: bool = False
    coding: bytes = IDENTITY
    etag: bytes | None = None
    wish: bytes | None = None


def is_codable(entry: StoredResponse, size: int | None, rules: CodingRules) -> bool:
    """Whether an answer of `size` octets, None if that is not known yet, may be coded here."""
    if not rules.codings or entry.status != 200:
        return False
    if size is not None and not rules.smallest <= size <= rules.largest:
        return False
    kind = b""
    for name, value in entry.fields:
        name = name.lower()
        if name == b"content-type":
            kind = value
        elif name in _BOUND_TO_OCTETS:
            return False
        elif name.endswith(b"cache-control") and b"no-transform" in parse((value,)):
            return False  # RFC 9111 §5.2.2.6, whomever it is told
    return matches(kind, rules.types)


def choose_face(
    asked: Headers, entry: StoredResponse, coded: Mapping[bytes, bytes | None], rules: CodingRules
) -> Face:
    """Which representation of a codable answer a request with the fields `asked` is for.

    `coded` holds those that were made, None where coding saved nothing. Ranges are cut from
    the original, which is always there; from a coding only for who names its tag, since
    without one nobody could tell which octets go together (RFC 9110 §15.3.7.3).
    """
    value, etag = asked.get(b"accept-encoding"), entry.etag
    held = _held_tag(asked, etag, rules)
    if b"range" in asked:
        named = asked.get(b"if-range")
        for coding in rules.codings if named is not None else ():
            if named == tag_of(etag, coding) and coded.get(coding) is not None:
                return Face(True, coding, named)
        return Face(True, IDENTITY, held or etag)
    if b"no-transform" in parse_request(asked):
        return Face(True, IDENTITY, held or etag)
    made = [coding for coding in rules.codings if coded.get(coding) is not None]
    coding = choose(value, made) or IDENTITY
    best = choose(value, [c for c in rules.codings if c not in coded or c in made]) or IDENTITY
    wish = best if best not in coded and best != IDENTITY else None
    return Face(True, coding, held or (tag_of(etag, coding) if coding else etag), wish)


def tag_of(etag: bytes | None, coding: bytes) -> bytes | None:
    """The tag of a coding of what bears `etag`; weak stays weak. None where there is none."""
    if etag is None or not etag.endswith(b'"'):
        return None
    return b'%s-%s"' % (etag[:-1], coding)


def dress(fields: Fields, face: Face) -> Fields:
    """The fields of an answer as they are for one `face` of it."""
    if not face.varies:
        return fields
    changed: list[Field] = []
    for field in fields:
        if field[0].lower() != b"etag":
            changed.append(field)
        elif face.etag is not None:
            changed.append((field[0], face.etag))
    if b"accept-encoding" not in Headers(fields).tokens(b"vary"):
        changed.append((b"Vary", b"Accept-Encoding"))
    if face.coding != IDENTITY:
        changed.append((b"Content-Encoding", face.coding))
    return tuple(changed)


def name_originals(fields: Fields) -> Fields:
    """The fields of a request that changes something, with If-Match told in the upstream's terms.

    A client that holds a coding made here knows its tag only. The original's tag is added:
    either means that the client has seen the same state.
    """
    return tuple(
        (name, _with_originals(value)) if name.lower() == b"if-match" else (name, value)
        for name, value in fields
    )


def _with_originals(tags: bytes) -> bytes:
    originals = [
        _SUFFIXED.sub(b'"', tag) for tag in split_list(tags) if _SUFFIXED.search(tag) is not None
    ]
    return b", ".join([tags, *originals])


def _held_tag(asked: Headers, etag: bytes | None, rules: CodingRules) -> bytes | None:
    """The tag by which the client has it, as it is or in a coding that it can still decode."""
    tags = asked.get(b"if-none-match")
    if tags is None or etag is None:
        return None
    held = {tag.removeprefix(b"W/") for tag in split_list(tags)}
    accepted = acceptable(asked.get(b"accept-encoding"))
    for coding in (IDENTITY, *rules.codings):
        tag = tag_of(etag, coding) if coding else etag
        if tag is not None and tag.removeprefix(b"W/") in held and accepted.weight(coding):
            return tag
    return None
