"""The cache at work: looks up, lets policy decide, asks the upstream where it must.

    find → may_serve → from what is stored
                     → join or lead a flight → from what comes in

Decisions are `serving`'s and `storing`'s, what is kept is the tiers', how an upstream is
asked is the caller's: it hands in `fetch`, which takes the fields to send.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

from edgebox.cache.answer import Answer, Instant
from edgebox.cache.answering import from_incoming, from_kept, from_spool
from edgebox.cache.entry import StoredResponse
from edgebox.cache.fetching import Fetcher
from edgebox.cache.flight import (
    Ask,
    Failed,
    Fetch,
    Outcome,
    Passed,
    Renewed,
    RoutePolicy,
    Shared,
)
from edgebox.cache.invalidate import find_invalidated
from edgebox.cache.key import primary_key
from edgebox.cache.purges import Purge, RecentPurges, Scope, origin_of
from edgebox.cache.reasons import HeadReason, ServeReason
from edgebox.cache.revalidate import judge_head, renew
from edgebox.cache.serving import (
    Failure,
    Serve,
    ServeDecision,
    failure_of,
    may_serve,
    may_serve_stale,
)
from edgebox.cache.shelf import Kept
from edgebox.cache.status import Handling, cache_status
from edgebox.cache.tiers import Tiers
from edgebox.cache.vary import choose_variant, fits
from edgebox.http.headers import Fields, Headers
from edgebox.http.message import Request, Response
from edgebox.upstream.incoming import Incoming


class Engine:
    """One shared cache (RFC 9111) for all routes of a worker."""

    def __init__(
        self, tiers: Tiers, fetcher: Fetcher, purges: RecentPurges, clock: Callable[[], Instant]
    ) -> None:
        self._tiers = tiers
        self._fetcher = fetcher
        self._purges = purges
        self._clock = clock
        self._counts: Counter[str] = Counter()
        # Whether requests of the express lane have this field, of those that Vary names.
        self.sees: Callable[[bytes], bool] = lambda name: False

    def answer_nowait(self, request: Request, policy: RoutePolicy, now: Instant) -> Response | None:
        """A fresh answer from RAM, or None: the express lane asks here."""
        if not policy.enabled or request.method not in (b"GET", b"HEAD"):
            return None
        if policy.rules.bypass_cookies and not self.sees(b"cookie"):
            return None
        variants = self._tiers.find_in_ram(primary_key(request, policy.keys))
        for kept in variants:
            for name, _ in kept.entry.variant.selecting:
                if not self.sees(name):
                    return None
        chosen = _choose(variants, request)
        if chosen is None or chosen.content is None:
            return None
        decision = may_serve(request, chosen.entry, policy.rules, now)
        if decision.serve is not Serve.FRESH:
            return None
        handling = Handling(decision.reason, remaining=decision.remaining)
        return from_kept(chosen, request, handling, policy.name, now)

    async def answer(
        self, request: Request, policy: RoutePolicy, fetch: Fetch, has_body: bool
    ) -> Response:
        """The answer to `request`. Raises UpstreamError where nothing else can be said."""
        if not policy.enabled or has_body or request.method not in (b"GET", b"HEAD"):
            return await self._pass(request, policy, fetch)
        key = primary_key(request, policy.keys)
        variants = await self._tiers.find(key)
        kept = _choose(variants, request)
        nothing = ServeReason.NO_VARIANT if variants else ServeReason.NOTHING_STORED
        decision = may_serve(
            request, kept.entry if kept is not None else nothing, policy.rules, self._clock()
        )
        ask = Ask(key, request, policy, fetch, variants, kept, decision)
        if decision.sends_stored:
            if decision.serve is Serve.STALE_AND_REFRESH:
                self._fetcher.refresh(ask)
            return self._send_kept(ask, decision)
        if decision.serve is Serve.REFUSE:
            member = cache_status(policy.name, Handling(decision.reason))
            return Response(504, ((b"Cache-Status", member),))
        if request.method == b"HEAD":
            return await self._ask_head(ask)
        return await self._fly(ask)

    # --- the upstream is asked ------------------------------------------------------------

    async def _fly(self, ask: Ask) -> Response:
        """Join the flight that is under way for this, or lead one."""
        flight = self._fetcher.joinable(ask)
        if flight is not None:
            response = await self._land(await flight.wait(), ask, leads=False)
            if response is not None:
                return response
        flight = self._fetcher.lead(ask)
        try:
            outcome = await flight.wait()
        finally:
            flight.leader_waits = False
        response = await self._land(outcome, ask, leads=True)
        assert response is not None
        return response

    async def _land(self, outcome: Outcome, ask: Ask, leads: bool) -> Response | None:
        """The answer that a flight brought; None where a follower must ask for itself."""
        now, reason = self._clock(), ask.decision.reason
        collapsed = None if leads else True
        match outcome:
            case Shared() if leads or self._fits(outcome.entry, ask, now):
                remaining = int(outcome.entry.remaining(now))
                handling = Handling(reason, outcome.answer.status, leads, collapsed, remaining)
                response = from_spool(outcome, ask.request, handling, ask.policy.name, leads, now)
            case Renewed() if leads or self._fits(outcome.kept.entry, ask, now):
                remaining = int(outcome.kept.entry.remaining(now))
                stored = leads and outcome.stored
                handling = Handling(reason, 304, stored, collapsed, remaining)
                response = from_kept(outcome.kept, ask.request, handling, ask.policy.name, now)
                if leads and outcome.cookies:
                    response = replace(response, fields=(*response.fields, *outcome.cookies))
            case Failed():
                stale = self._stale(ask, Failure.UNREACHABLE, None)
                if stale is None:
                    raise outcome.error
                return stale
            case Passed():
                failure = failure_of(outcome.answer.status)
                stale = self._stale(ask, failure, outcome.answer.status) if failure else None
                if stale is not None or not leads:
                    if leads:
                        await outcome.incoming.aclose()
                    return stale
                handling = Handling(reason, outcome.answer.status, why=outcome.reason)
                response = await from_incoming(
                    outcome.incoming, outcome.answer, ask.request, handling, ask.policy.name
                )
            case _:
                return None
        self._count(outcome, leads)
        return replace(response, remember=False)

    @staticmethod
    def _fits(entry: StoredResponse, ask: Ask, now: Instant) -> bool:
        """Whether a follower may have what another's fetch brought.

        Stale on arrival will do: it was made while the follower waited. What asks to be
        validated before each use will not (RFC 9111 §5.2.2.4).
        """
        if not fits(entry.variant, ask.request.headers):
            return False
        decision = may_serve(ask.request, entry, ask.policy.rules, now)
        return decision.sends_stored or decision.reason is ServeReason.STALE

    async def _pass(self, request: Request, policy: RoutePolicy, fetch: Fetch) -> Response:
        """Forward, and do to the store what the answer asks for (RFC 9111 §4.4)."""
        sent = self._clock()
        incoming = await fetch(request.headers.fields)
        answer = Answer(incoming.status, Headers(incoming.fields), sent, self._clock())
        invalidated = find_invalidated(request, answer, policy.keys)
        for key in invalidated.keys:
            await self.invalidate(Purge(Scope.KEY, key))
        origin = origin_of(primary_key(request, policy.keys))
        for group in invalidated.groups:
            await self.invalidate(Purge(Scope.GROUP, origin + b" " + group))
        self._counts["passed"] += 1
        handling = Handling(ServeReason.METHOD, incoming.status)
        return await from_incoming(incoming, answer, request, handling, policy.name)

    async def relay(self, request: Request, incoming: Incoming, policy: RoutePolicy) -> Response:
        """Pass an answer on that the cache has no part in."""
        answer = Answer(incoming.status, Headers(incoming.fields), self._clock(), self._clock())
        handling = Handling(ServeReason.METHOD, incoming.status)
        return await from_incoming(incoming, answer, request, handling, policy.name)

    async def _ask_head(self, ask: Ask) -> Response:
        """Forward a HEAD; it may renew or outdate a stored GET (RFC 9111 §4.3.5)."""
        sent = self._clock()
        incoming = await ask.fetch(ask.request.headers.fields)
        answer = Answer(incoming.status, Headers(_with_length(incoming)), sent, self._clock())
        for kept in [k for k in ask.variants if fits(k.entry.variant, ask.request.headers)]:
            told = judge_head(kept.entry, kept.size, answer)
            if told is HeadReason.RENEWS:
                renewed = renew(ask.request, kept.entry, answer, ask.policy.rules)
                if renewed.decision.stores:
                    await self._tiers.replace(ask.key, kept, kept.with_entry(renewed.entry))
            elif told is HeadReason.OUTDATES:
                outdated = kept.entry.invalidated()
                await self._tiers.replace(ask.key, kept, kept.with_entry(outdated))
        handling = Handling(ask.decision.reason, incoming.status)
        return await from_incoming(incoming, answer, ask.request, handling, ask.policy.name)

    # --- from what is stored ---------------------------------------------------------------

    def _send_kept(self, ask: Ask, decision: ServeDecision, asked: int | None = None) -> Response:
        """`asked`: the status of the upstream, where it was asked and failed."""
        assert ask.kept is not None
        fresh = decision.serve is Serve.FRESH
        self._counts["hit" if fresh else "stale"] += 1
        handling = Handling(decision.reason, asked, remaining=decision.remaining)
        response = from_kept(ask.kept, ask.request, handling, ask.policy.name, self._clock())
        return response if fresh else replace(response, remember=False)

    def _stale(self, ask: Ask, failure: Failure, status: int | None) -> Response | None:
        """What is stored, though stale, where policy allows it after a failure."""
        if ask.kept is None:
            return None
        decision = may_serve_stale(ask.decision, ask.kept.entry, failure, self._clock())
        return self._send_kept(ask, decision, status) if decision.sends_stored else None

    # --- what operators and unsafe requests do ----------------------------------------------

    async def purge(self, purge: Purge) -> int:
        """Drop, or with `soft` make stale, whatever it covers; counts what was in RAM."""
        now = self._clock()
        self._purges.add(purge, now.steady)
        return await self._tiers.purge(purge, now)

    async def invalidate(self, purge: Purge) -> None:
        """Have whatever it covers be asked for before any further use."""
        self._purges.add(purge, self._clock().steady)
        await self._tiers.invalidate(purge)

    def statistics(self) -> dict[str, int]:
        return dict(self._counts) | self._fetcher.statistics() | self._tiers.statistics()

    def _count(self, outcome: Outcome, leads: bool) -> None:
        self._counts[type(outcome).__name__.lower() if leads else "collapsed"] += 1


def _with_length(incoming: Incoming) -> Fields:
    """The fields of an answer to HEAD, whose length says something of the GET."""
    if incoming.length is None:
        return incoming.fields
    return (*incoming.fields, (b"Content-Length", b"%d" % incoming.length))


def _choose(variants: Sequence[Kept], request: Request) -> Kept | None:
    index = choose_variant(
        [kept.entry.variant for kept in variants],
        [kept.entry.date for kept in variants],
        request.headers,
    )
    return variants[index] if index is not None else None
