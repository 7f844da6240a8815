"""Which of a URL's stored responses fits a request (RFC 9111 §4.1).

A response that names request fields in Vary is good for requests that agree with its own
in those fields. Agreement is judged after normalising, and only in ways that cannot change
the meaning: white space and empty members of lists, the order of languages and the
codings that nobody here can produce. Otherwise each browser would have a copy of its own.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import Struct

from edgebox.http.headers import Headers, split_list
from edgebox.http.negotiate import acceptable, normalise

# What names one request: each has another, most are given theirs only on their way to the app.
# An answer that varies by it is for that request alone, as with `*`.
_OF_ONE_REQUEST = frozenset((b"x-request-id", b"traceparent", b"tracestate"))

Selecting = tuple[tuple[bytes, bytes | None], ...]

_LANGUAGE = re.compile(
    rb"([A-Za-z0-9*-]+)(?:[ \t]*;[ \t]*[qQ]=(0(?:\.[0-9]{0,3})?|1(?:\.0{0,3})?))?"
)


class Variant(Struct, frozen=True, array_like=True):
    """What a request must agree with: the fields in Vary as its own request had them.

    `codings` are those that Accept-Encoding was normalised for; none where the response is
    in a coding that is not of these, or was not asked for, and so the field counts as it
    was sent. `language` is the one that the response is in; b"" for none or several.
    """

    selecting: Selecting = ()
    codings: tuple[bytes, ...] = ()
    language: bytes = b""


def vary_names(headers: Headers) -> tuple[bytes, ...] | None:
    """The fields that a response's Vary names, lower case, each once; None for `*`, or for a
    field that is another in each request."""
    names = set(headers.tokens(b"vary"))
    return None if b"*" in names or names & _OF_ONE_REQUEST else tuple(sorted(names))


def describe_variant(asked: Headers, answered: Headers, codings: tuple[bytes, ...]) -> Variant:
    """The variant that a response is, from its request's fields and its own.

    `Vary: *` is never to get here: such a response is not stored.
    """
    accepted = acceptable(asked.get(b"accept-encoding"))
    used = answered.tokens(b"content-encoding")
    known = codings if all(c in codings and accepted.weight(c) for c in used) else ()
    languages = answered.tokens(b"content-language")
    return Variant(
        tuple((name, selecting_value(name, asked, known)) for name in vary_names(answered) or ()),
        known,
        languages[0] if len(languages) == 1 else b"",
    )


def fits(variant: Variant, asked: Headers) -> bool:
    """Whether a request with the fields `asked` may be given the response."""
    for name, value in variant.selecting:
        presented = selecting_value(name, asked, variant.codings)
        if presented == value:
            continue
        if name != b"accept-language" or not presented or not variant.language:
            return False
        # What the client likes best is there, so nothing else would have been chosen.
        if _best_language(presented) != variant.language:
            return False
    return True


def agree(variants: Sequence[Variant], one: Headers, other: Headers) -> bool:
    """Whether two requests are alike in every field that `variants` were selected by.

    So whatever comes for one may well be for the other, as far as is known by now.
    """
    return all(
        selecting_value(name, one, variant.codings) == selecting_value(name, other, variant.codings)
        for variant in variants
        for name, _ in variant.selecting
    )


def choose_variant(variants: Sequence[Variant], dates: Sequence[int], asked: Headers) -> int | None:
    """Index of the most recent variant that fits; None if none does.

    Where the most recent of all names fields in Vary, those that name none are passed
    over: their Vary was forgotten, as happens with default answers (§4.1).
    """
    if not variants:
        return None
    order = sorted(range(len(variants)), key=lambda i: (dates[i], i), reverse=True)
    varies = bool(variants[order[0]].selecting)
    for i in order:
        if (variants[i].selecting or not varies) and fits(variants[i], asked):
            return i
    return None


def surplus_variants(dates: Sequence[int], most: int) -> list[int]:
    """Indices of the variants that go when a URL has more than `most`: the oldest."""
    order = sorted(range(len(dates)), key=lambda i: (dates[i], i))
    return order[: max(0, len(dates) - most)]


def selecting_value(name: bytes, asked: Headers, codings: tuple[bytes, ...]) -> bytes | None:
    """A request field in the form that is compared; None if it is absent."""
    value = asked.get(name)
    if name == b"accept-encoding" and codings:
        return normalise(value, codings)
    if value is None:
        return None
    if name == b"accept-language":
        return _normalise_languages(value)
    return b", ".join(split_list(value))


def _normalise_languages(value: bytes) -> bytes:
    """Lower case, best first, equals by name: their order means nothing (RFC 9110 §12.5.4)."""
    weights: dict[bytes, int] = {}
    for member in split_list(value):
        found = _LANGUAGE.fullmatch(member)
        if found is None:
            return b", ".join(split_list(value)).lower()
        weight = int((found[2] or b"1").replace(b".", b"").ljust(4, b"0"))
        weights.setdefault(found[1].lower(), weight)
    ranked = sorted(weights.items(), key=lambda item: (-item[1], item[0]))
    return b", ".join(b"%s;q=%d" % item if item[1] < 1000 else item[0] for item in ranked)


def _best_language(normalised: bytes) -> bytes | None:
    """The one language that a normalised field puts before all others, if there is one."""
    first, _, rest = normalised.partition(b", ")
    language, _, weight = first.partition(b";q=")
    runner_up = rest.partition(b", ")[0].partition(b";q=")[2]
    if language == b"*" or weight == b"0" or (rest and runner_up == weight):
        return None
    return language
