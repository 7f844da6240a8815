"""Which flights are under way, and who may wait for whom.

By key: several where requests differ in what their answers vary by. A key whose last answer was
of use to one client only is remembered as such for a while, so that nobody waits for the next one
in vain.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from edgebox.cache.answer import Instant
from edgebox.cache.directives import parse_request
from edgebox.cache.flight import Ask, Flight, Shared
from edgebox.cache.purges import Purge
from edgebox.cache.siblings.asking import Asking
from edgebox.cache.vary import Variant, agree, fits
from edgebox.http.headers import Headers

MOST_PASSES = 10_000  # keys remembered as not worth waiting for


class Flights:
    """Those of one worker. `siblings` where there are others, who are not to fly as well."""

    def __init__(self, clock: Callable[[], Instant]) -> None:
        self._clock = clock
        self.siblings: Asking | None = None
        self._flights: dict[bytes, list[Flight]] = {}
        self._passes: dict[bytes, float] = {}

    def has(self, key: bytes) -> bool:
        """Whether any is under way for `key`."""
        return key in self._flights

    def joinable(self, ask: Ask, known: Sequence[Variant]) -> Flight | None:
        """The flight that `ask` may wait for; it was begun with a request that is alike.

        `known` variants tell in which fields requests must agree (RFC 9111 §4.1). Nobody
        waits for an answer that is known by now not to fit, or to be gone in part.
        """
        asked = ask.request.headers
        if self._is_for_one(ask) or (ask.policy.rules.request_directives and asks_anew(asked)):
            return None
        flights = self._flights.get(ask.key, ())
        return next((flight for flight in flights if _is_joinable(flight, known, asked)), None)

    def claimed(self, key: bytes, known: Sequence[Variant], asked: Headers) -> Flight | None:
        """The same for another worker, which came later: of flights that others are to wait for."""
        flights = self._flights.get(key, ())
        return next((f for f in flights if f.claimed and _is_joinable(f, known, asked)), None)

    def add(self, flight: Flight, ask: Ask, alone: bool) -> None:
        """A new flight, which others may join unless they had better not wait for it."""
        flight.passing = alone or self._is_for_one(ask)
        if not flight.passing:
            self._flights.setdefault(ask.key, []).append(flight)

    def remember_pass(self, ask: Ask) -> None:
        if len(self._passes) >= MOST_PASSES:
            self._passes.clear()
        self._passes[ask.key] = self._clock().steady + ask.policy.pass_for

    def forget_pass(self, ask: Ask) -> None:
        self._passes.pop(ask.key, None)

    def remove(self, flight: Flight, ask: Ask) -> None:
        """It is over. Harmless when repeated, as are its two parts."""
        self.unlist(flight, ask)
        self.let_go(flight, ask)

    def unlist(self, flight: Flight, ask: Ask) -> None:
        """Nobody is to join it any more."""
        flights = self._flights.get(ask.key, [])
        if flight in flights:
            flights.remove(flight)
            if not flights:
                del self._flights[ask.key]

    def let_go(self, flight: Flight, ask: Ask) -> None:
        """Other workers need wait for it no longer: it has come to nothing, or is on disk."""
        if flight.claimed and self.siblings is not None:
            flight.claimed = False
            self.siblings.let_go(ask.key)

    def claim(self, flight: Flight, ask: Ask) -> int:
        """Have other workers wait for this flight; if one is before us, his pid, else 0 or less."""
        if self.siblings is None or flight.passing or flight.claimed:
            return 0
        holder = self.siblings.claim(ask.key)
        flight.claimed = holder == 0
        return holder

    def forsake(self, purge: Purge) -> None:
        """Nobody joins any more what was asked for before a purge that may concern it."""
        for key in [key for key in self._flights if purge.may_cover(key)]:
            del self._flights[key]

    def statistics(self) -> dict[str, int]:
        return {"flights": sum(map(len, self._flights.values())), "passes": len(self._passes)}

    def _is_for_one(self, ask: Ask) -> bool:
        """Whether others had better not wait for what comes for this request.

        By its own words, or because this key's last answer was one that nobody else could use.
        Most answers to requests with Authorization are not stored (RFC 9111 §3.5).
        """
        asked = ask.request.headers
        if b"authorization" in asked:
            return True
        if ask.policy.rules.request_directives and b"no-store" in parse_request(asked):
            return True
        until = self._passes.get(ask.key)
        if until is None:
            return False
        if until > self._clock().steady:
            return True
        del self._passes[ask.key]
        return False


def _is_joinable(flight: Flight, known: Sequence[Variant], asked: Headers) -> bool:
    outcome = flight.outcome
    if isinstance(outcome, Shared):
        return outcome.spool.readable and fits(outcome.entry.variant, asked)
    return agree(known, flight.asked, asked)


def asks_anew(asked: Headers) -> bool:
    """Whether a request wants an answer made for it, not one that was asked for before."""
    directives = parse_request(asked)
    return b"no-cache" in directives or directives.seconds(b"max-age") == 0
