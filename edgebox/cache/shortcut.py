"""A miss without a task: what flights do, where nothing has to be waited for but the upstream.

For a GET of which nothing is stored. Whoever has a connection and a loop at hand asks here
what to make of it before it is sent and when the answer has come whole; as soon as something
is out of the ordinary it goes on as a flight like any other. The decisions are the same ones,
and so is what is stored and sent.
"""

from __future__ import annotations

from collections import Counter
from functools import partial

from edgebox.cache.answer import Answer, Instant
from edgebox.cache.answering import from_whole
from edgebox.cache.entry import describe
from edgebox.cache.fetching import Fetcher, Receive
from edgebox.cache.flight import Ask, Fetch, Flight, Passed, RoutePolicy, Shared
from edgebox.cache.key import primary_key
from edgebox.cache.purges import RecentPurges
from edgebox.cache.reasons import Cause, ServeReason, StoreReason
from edgebox.cache.serving import Serve, may_serve
from edgebox.cache.status import Handling, cache_status
from edgebox.cache.storing import may_store
from edgebox.cache.tiers import Arrival, Tiers
from edgebox.http.message import Request, Response

PASSED, SHARED = Passed.__name__.lower(), Shared.__name__.lower()


class Shortcut:
    """Begins and lands such flights."""

    def __init__(
        self, tiers: Tiers, fetcher: Fetcher, purges: RecentPurges, counts: Counter[str]
    ) -> None:
        self._tiers = tiers
        self._fetcher = fetcher
        self._flights = fetcher.flights
        self._purges = purges
        self._counts = counts

    def begin(
        self, request: Request, policy: RoutePolicy, fetch: Fetch, now: Instant, key: bytes | None
    ) -> tuple[Ask, Flight] | None:
        """A flight for a GET without content, conditions and range; None: it is not for us.

        `fetch` asks anew, should it come to that; `key` is the request's, where it is known.
        """
        if not policy.enabled:
            return None
        if key is None:
            key = primary_key(request, policy.keys)
        decision = may_serve(request, ServeReason.NOTHING_STORED, policy.rules, now)
        if decision.serve is not Serve.MISS or decision.reason is not ServeReason.NOTHING_STORED:
            return None
        ask = Ask(key, request, policy, fetch, (), None, decision)
        flight = self._fetcher.lead_nowait(ask)
        if flight is None:
            return None
        # Looked for only now: while the key is ours, no other worker stores anything.
        found = self._tiers.find_nowait(key)
        if found is None or found:
            self.drop(flight, ask)
            return None
        return ask, flight

    def drop(self, flight: Flight, ask: Ask) -> None:
        """It comes to nothing, before anybody could wait for it, or when all ends."""
        self._flights.remove(flight, ask)

    def carry_on(self, flight: Flight, ask: Ask, receive: Receive, sent: Instant) -> None:
        """See it through in a task: `receive` gives the answer to what was `sent`."""
        self._fetcher.carry_on(flight, ask, receive, sent)

    def land(self, flight: Flight, ask: Ask, answer: Answer, content: bytes) -> Response | None:
        """The client's answer, `content` being the whole body; None: it is to be carried on.

        What may be stored is stored by then, in RAM.
        """
        if flight.waiting.count:
            return None
        policy = ask.policy
        decision = may_store(ask.request, answer, policy.rules)
        reason, entry, remaining, kept = decision.reason, None, None, None
        if reason.stores and len(content) > self._fetcher.largest:
            reason = StoreReason.TOO_LARGE
        if reason.stores:
            beside = self._tiers.find_nowait(ask.key)
            if beside is None or beside:
                return None
            entry = describe(ask.request.headers, answer, decision.freshness, policy.rules)
            remaining = int(entry.remaining(answer.received))
            purged = partial(self._purges.since, flight.mark, ask.key, entry)
            arrival = Arrival(ask.key, entry, flight.born, policy.rules.variants, purged)
            self._flights.forget_pass(ask)
            kept = self._tiers.shelve(arrival, content, beside)
            if kept is not None:
                if self._tiers.is_in_ram(ask.key, kept):
                    self._fetcher.when_stored(ask, kept)
                self._fetcher.file_soon(flight, ask, arrival, kept)
        elif reason.cause is not Cause.REQUEST:
            self._flights.remember_pass(ask)
        self._flights.unlist(flight, ask)
        if kept is None:
            self._flights.let_go(flight, ask)
        self._counts["shortcuts"] += 1
        self._counts[PASSED if entry is None else SHARED] += 1
        why = reason if entry is None else None
        asked = ask.decision.reason
        handling = Handling(asked, answer.status, entry is not None, None, remaining, why)
        return from_whole(answer, entry, content, ask.request, handling, policy)


def member_of(ask: Ask) -> bytes:
    """What Cache-Status says where there was no answer."""
    return cache_status(ask.policy.name, Handling(ask.decision.reason))
