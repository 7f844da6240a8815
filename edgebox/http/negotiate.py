"""Content codings: what an Accept-Encoding field accepts, and which of ours suits it best.

Weights are compared as the client gave them; among equals the server's own order decides
(RFC 9110 §12.5.3). Thousands of spellings of the field come down to a few forms, which is
what caches and memos are keyed by (`normalise`). Codings are lower-case tokens; b"" is
identity, the content as it is. Which codings exist is the caller's business.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from msgspec import Struct

from edgebox.http.headers import split_list

IDENTITY = b""

_MEMBER = re.compile(
    rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+)"
    rb"(?:[ \t]*;[ \t]*[qQ]=(0(?:\.[0-9]{0,3})?|1(?:\.0{0,3})?))?"
)
_ALIASES = {b"x-gzip": b"gzip", b"x-compress": b"compress"}  # RFC 9110 §8.4.1


class Acceptable(Struct, frozen=True):
    """Weights from 0 (refused) to 1000, by coding as listed; `*` stands for the rest."""

    listed: Mapping[bytes, int]

    def weight(self, coding: bytes) -> int:
        """How welcome `coding` is. Identity that nothing speaks of is welcome, but least."""
        unlisted = self.listed.get(b"*", 1 if coding == IDENTITY else 0)
        return self.listed.get(coding or b"identity", unlisted)


def acceptable(value: bytes | None) -> Acceptable:
    """What an Accept-Encoding field accepts; absent (None) and empty, that is identity only.

    An absent field would allow anything (RFC 9110 §12.5.3), but who sends none is seldom
    able to decode. Malformed members are ignored. Of a coding listed twice the lower
    weight counts, so neither order nor a proxy's additions can undo a refusal.
    """
    listed: dict[bytes, int] = {}
    for member in split_list(value or b""):
        found = _MEMBER.fullmatch(member)
        if found is None:
            continue
        coding = found[1].lower()
        coding = _ALIASES.get(coding, coding)
        listed[coding] = min(_per_mille(found[2] or b"1"), listed.get(coding, 1000))
    return Acceptable(listed)


def _per_mille(qvalue: bytes) -> int:
    """b"0.25" is 250: a digit, and up to three after the point (RFC 9110 §12.4.2)."""
    return int(qvalue.replace(b".", b"").ljust(4, b"0"))


def choose(value: bytes | None, offered: Sequence[bytes]) -> bytes | None:
    """The coding of `offered`, in the server's order, that Accept-Encoding likes best.

    Identity is always on offer, last. None: everything is refused, identity too.
    """
    wanted = acceptable(value)
    best = max((*offered, IDENTITY), key=wanted.weight)  # the first of equals
    return best if wanted.weight(best) else None


def normalise(value: bytes | None, known: Sequence[bytes]) -> bytes:
    """The shortest Accept-Encoding that chooses as `value` does, if `known` is all there is.

    `known` are codings in the server's order. For any of them on offer, in that order,
    `choose(normalise(value, known), offered) == choose(value, offered)`. With three
    codings there are 32 forms: an order of preference over some, and identity or not.
    """
    wanted = acceptable(value)
    identity = wanted.weight(IDENTITY)
    # What is less welcome than identity is never chosen. The sort keeps equals in our order.
    kept = [c for c in known if wanted.weight(c) >= max(identity, 1)]
    kept.sort(key=wanted.weight, reverse=True)
    members, weight, place = [], 1000, -1
    for coding in kept:
        last, place = place, known.index(coding)
        if place < last:  # our order would not put it here: the weight must
            weight -= 1
        members.append(coding if weight == 1000 else b"%s;q=0.%03d" % (coding, weight))
    if not identity:
        members.append(b"identity;q=0")
    return b", ".join(members)
