"""How long a response may be used, and how old it is (RFC 9111 §4.2, RFC 5861).

Lifetime comes from the fields, once, when the response is stored. Age afterwards is the
age it arrived with plus the time it lay here by the steady clock, so a wall clock that
jumps can neither revive nor kill anything. All of it clamps at zero and at 2**31.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from msgspec import Struct

from edgebox.cache.answer import Answer
from edgebox.cache.directives import FOREVER, Directives, parse_seconds
from edgebox.cache.rules import CacheRules
from edgebox.cache.targeted import Control
from edgebox.http.headers import OWS

# RFC 9110 §15.1; 206 is one of them, but parts are not stored.
HEURISTICALLY_CACHEABLE = frozenset({200, 203, 204, 300, 301, 308, 404, 405, 410, 414, 501})
# An odd field in one client's request provokes these; others ask the same URL without it.
# So nothing is guessed for them, not even with `public`.
PROVOKED = frozenset({400, 413, 431})

_FORBID_STALE = frozenset((b"must-revalidate", b"proxy-revalidate", b"s-maxage"))


class Basis(Enum):
    """Where a lifetime comes from; the value is what `edgebox explain` prints."""

    S_MAXAGE = "s-maxage"
    MAX_AGE = "max-age"
    EXPIRES = "Expires"
    OPERATOR = "default freshness of the route"
    HEURISTIC = "Last-Modified"
    NONE = "nothing"


EXPLICIT = frozenset({Basis.S_MAXAGE, Basis.MAX_AGE, Basis.EXPIRES})


class Lifetime(NamedTuple):
    seconds: int
    basis: Basis


class Freshness(Struct, frozen=True, array_like=True):
    """What the fields of a response say about its use over time. Seconds.

    The windows count from the end of the lifetime, and are 0 where stale use is forbidden.
    """

    lifetime: int
    basis: Basis
    ask_always: bool  # no-cache: never without asking the upstream
    must_revalidate: bool  # never stale, whatever happens
    while_revalidate: int
    if_error: int
    if_unreachable: int


def assess(answer: Answer, control: Control, rules: CacheRules, guess: bool = True) -> Freshness:
    """The freshness of a response by the directives in `control`; `guess`: may heuristics?"""
    directives = control.directives
    lifetime = _explicit(answer, control) or _implicit(answer, directives, rules, guess)
    ask_always = directives.covers_all(b"no-cache")
    must_revalidate = directives.has_any(_FORBID_STALE)
    windows = (0, 0, 0)
    if not (ask_always or must_revalidate):
        error = _window(directives, b"stale-if-error", rules.stale_if_error)
        windows = (
            _window(directives, b"stale-while-revalidate", rules.stale_while_revalidate),
            error,
            max(error, rules.stale_if_unreachable),
        )
    return Freshness(*lifetime, ask_always, must_revalidate, *windows)


def initial_age(answer: Answer) -> float:
    """Age at receipt: the larger of what Date and what Age say (RFC 9111 §4.2.3).

    The time that the exchange took is added to Age, since Age was right when sent.
    """
    apparent = max(0, int(answer.received.wall) - answer.date())
    delay = max(0.0, answer.received.steady - answer.sent.steady)
    return min(float(FOREVER), max(apparent, _age_value(answer) + delay))


def _age_value(answer: Answer) -> int:
    """Age in whole seconds: the first member counts, and only if it is a number (§5.1)."""
    lines = answer.headers.all(b"age")
    first = lines[0].split(b",", 1)[0] if lines else b""
    return parse_seconds(first.strip(OWS)) or 0


def _explicit(answer: Answer, control: Control) -> Lifetime | None:
    """RFC 9111 §4.2.1, in its order; a targeted field puts Expires out of force."""
    for name, basis in ((b"s-maxage", Basis.S_MAXAGE), (b"max-age", Basis.MAX_AGE)):
        seconds = control.directives.seconds(name)
        if seconds is not None:
            return Lifetime(seconds, basis)
    lines = answer.headers.all(b"expires")
    if control.targeted or not lines:
        return None
    expires = answer.date_in(b"expires") if len(set(lines)) == 1 else None
    # Not a date, 0 above all, means that it has expired (§5.3); so do two dates that differ.
    seconds = 0 if expires is None else min(max(0, expires - answer.date()), FOREVER)
    return Lifetime(seconds, Basis.EXPIRES)


def _implicit(answer: Answer, directives: Directives, rules: CacheRules, guess: bool) -> Lifetime:
    """Freshness where the response states none; only for what may be kept without (§4.2.2)."""
    keepable = answer.status in HEURISTICALLY_CACHEABLE or b"public" in directives
    if not keepable or answer.status in PROVOKED:
        return Lifetime(0, Basis.NONE)
    if rules.default_freshness is not None:
        return Lifetime(rules.default_freshness, Basis.OPERATOR)
    modified = answer.date_in(b"last-modified")
    if modified is None or not guess:
        return Lifetime(0, Basis.NONE)
    seconds = int(max(0, answer.date() - modified) * rules.heuristic_fraction)
    return Lifetime(min(seconds, rules.heuristic_limit), Basis.HEURISTIC)


def _window(directives: Directives, name: bytes, default: int) -> int:
    stated = directives.seconds(name)
    return default if stated is None else stated
