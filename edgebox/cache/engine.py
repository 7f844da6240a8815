"""The cache at work: looks up, lets policy decide, asks the upstream where it must.

    find → may_serve → from what is stored
                     → join or lead a flight → from what comes in

Decisions are `serving`'s and `storing`'s, what is kept is the tiers', how an upstream is
asked is the caller's: it hands in `fetch`, which takes the fields to send.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from time import monotonic

import trio
from msgspec.structs import replace

from edgebox.cache.answer import Answer, Instant
from edgebox.cache.answering import from_incoming, from_spool, told
from edgebox.cache.coder import Coder
from edgebox.cache.coding import name_originals
from edgebox.cache.entry import StoredResponse
from edgebox.cache.explain import explain_stored
from edgebox.cache.fetching import Fetcher
from edgebox.cache.flight import (
    Alone,
    Ask,
    Failed,
    Fetch,
    Flight,
    Outcome,
    Passed,
    Renewed,
    RoutePolicy,
    Shared,
)
from edgebox.cache.heads import ask_head
from edgebox.cache.invalidate import find_invalidated, is_safe
from edgebox.cache.keeping import KeptAnswers, choose_kept, exhibit
from edgebox.cache.key import primary_key
from edgebox.cache.passing import from_passed, skips_much
from edgebox.cache.purges import Purge, RecentPurges, Scope, origin_of
from edgebox.cache.reasons import ServeReason
from edgebox.cache.serving import Failure, Serve, ServeDecision, failure_of, may_serve
from edgebox.cache.shelf import Kept
from edgebox.cache.shortcut import Shortcut
from edgebox.cache.status import Handling, cache_status
from edgebox.cache.storing import may_store
from edgebox.cache.tiers import Tiers
from edgebox.cache.vary import fits
from edgebox.http.headers import Fields, Headers
from edgebox.http.message import Request, Response
from edgebox.upstream.errors import UpstreamError
from edgebox.upstream.incoming import Incoming

_RETRIEVALS = (b"GET", b"HEAD")


class Unanswered(Exception):
    """The upstream did not answer, and nothing stored may stand in for it.

    `error` tells why; `member` is what Cache-Status is to say.
    """

    def __init__(self, error: UpstreamError, member: bytes) -> None:
        super().__init__(str(error))
        self.error = error
        self.member = member


class Engine:
    """One shared cache (RFC 9111) for all routes of a worker."""

    def __init__(
        self, tiers: Tiers, fetcher: Fetcher, purges: RecentPurges, clock: Callable[[], Instant]
    ) -> None:
        self._tiers = tiers
        self._fetcher = fetcher
        self._flights = fetcher.flights
        self._coder = Coder(tiers.weigh)
        self._purges = purges
        self.now = self._clock = clock
        self._counts: Counter[str] = Counter()
        self._answers = KeptAnswers(self._coder, clock, self._counts)
        fetcher.when_stored = self._answers.prepare
        self.shortcut = Shortcut(tiers, fetcher, purges, self._counts)
        # Has other workers invalidate the same; not to take long.
        self.tell_others: Callable[[Sequence[Purge]], Awaitable[None]] = _tell_nobody
        # Whether requests of the express lane have this field, of those that Vary names.
        self.sees: Callable[[bytes], bool] = lambda name: False

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Fetch and code until cancelled."""
        async with trio.open_nursery() as nursery:
            await nursery.start(self._fetcher.run)
            await nursery.start(self._coder.run)
            task_status.started()

    def answer_nowait(
        self, request: Request, policy: RoutePolicy, now: Instant
    ) -> Response | bytes | None:
        """A fresh answer from RAM, or the key of which RAM has nothing; None: it takes a task.

        The express lane asks here.
        """
        if not policy.enabled or request.method not in _RETRIEVALS:
            return None
        if policy.rules.bypass_cookies and not self.sees(b"cookie"):
            return None
        key = primary_key(request, policy.keys)
        variants = self._tiers.find_in_ram(key)
        if not variants:
            return key
        for kept in variants:
            for name, _ in kept.entry.variant.selecting:
                if name in policy.supplied or not self.sees(name):
                    return None
        chosen = choose_kept(variants, request.headers)
        if chosen is None or chosen.content is None:
            return None
        decision = may_serve(request, chosen.entry, policy.rules, now)
        if decision.serve is not Serve.FRESH:
            return None
        handling = Handling(decision.reason, remaining=decision.remaining)
        return self._answers.render(key, chosen, request, policy, handling, now)

    async def answer(
        self, request: Request, policy: RoutePolicy, fetch: Fetch, has_body: bool
    ) -> Response:
        """The answer to `request`. Raises Unanswered."""
        reason = ServeReason.METHOD
        try:
            if not policy.enabled:
                reason = ServeReason.OPERATOR_OFF
            elif request.method in _RETRIEVALS:
                if not has_body:
                    ask = await self.consider(request, policy, fetch)
                    reason = ask.decision.reason
                    return await self._decide(ask)
                reason = ServeReason.CONTENT
            return await self._pass(request, policy, fetch, reason)
        except UpstreamError as error:
            raise Unanswered(error, cache_status(policy.name, Handling(reason))) from error

    async def consider(self, request: Request, policy: RoutePolicy, fetch: Fetch) -> Ask:
        """What is stored for a GET or HEAD, and what policy says to that."""
        key = primary_key(request, policy.keys)
        ask = self._consider(request, policy, fetch, key, await self._tiers.find(key))
        if ask.decision.sends_stored or not ask.variants:
            return ask
        # Another worker may have asked already.
        later = await self._tiers.find_later(key, ask.variants)
        return self._consider(request, policy, fetch, key, later) if later else ask

    def _consider(
        self, request: Request, policy: RoutePolicy, fetch: Fetch, key: bytes,
        variants: Sequence[Kept],
    ) -> Ask:  # fmt: skip
        kept = choose_kept(variants, request.headers)
        nothing = ServeReason.NO_VARIANT if variants else ServeReason.NOTHING_STORED
        found = kept.entry if kept is not None else nothing
        decision = may_serve(request, found, policy.rules, self._clock())
        return Ask(key, request, policy, fetch, variants, kept, decision)

    async def _decide(self, ask: Ask) -> Response:
        decision = ask.decision
        if decision.sends_stored:
            if decision.serve is Serve.STALE_AND_REFRESH:
                self._fetcher.refresh(ask)
            return self._answers.send(ask, decision)
        if decision.serve is Serve.REFUSE:
            return told(504, cache_status(ask.policy.name, Handling(decision.reason)))
        if decision.reason is ServeReason.OPERATOR_BYPASS:
            return await self._pass(ask.request, ask.policy, ask.fetch, decision.reason)
        if ask.request.method == b"HEAD":
            return await ask_head(ask, self._tiers, self._answers, self._clock)
        return await self._fly(ask)

    # --- the upstream is asked ------------------------------------------------------------

    async def _fly(self, ask: Ask) -> Response:
        """Join a flight that is under way for this, or lead one."""
        known = [kept.entry.variant for kept in ask.variants]
        while (flight := self._flights.joinable(ask, known)) is not None:
            outcome = await flight.wait()
            response = await self._land(outcome, ask, leads=False)
            if response is not None:
                return response
            if not isinstance(outcome, Shared) or outcome.entry.variant in known:
                break
            # Another's variant. In what it varies is known now, so whoever is alike in that
            # flies together, and all others at the same time.
            known.append(outcome.entry.variant)
        return await self.land(self._fetcher.lead(ask), ask)

    async def land(self, flight: Flight, ask: Ask) -> Response:
        """The answer for the client that leads a flight. Raises UpstreamError."""
        try:
            outcome = await flight.wait()
        except trio.Cancelled:
            self._fetcher.leave(flight)
            raise
        flight.leader_waits = False
        if isinstance(outcome, Alone):
            return await self.land(self._fetcher.lead(ask, alone=True), ask)
        response = await self._land(outcome, ask, leads=True)
        assert response is not None
        return response

    async def _land(self, outcome: Outcome, ask: Ask, leads: bool) -> Response | None:
        """The answer that a flight brought; None where a follower must ask for itself."""
        now, reason, policy = self._clock(), ask.decision.reason, ask.policy
        joins = not leads or (isinstance(outcome, Shared | Renewed) and outcome.borrowed)
        collapsed = True if joins else None
        match outcome:
            case Shared() if leads or self._fits(outcome.entry, ask, now):
                remaining = int(outcome.entry.remaining(now))
                handling = Handling(reason, outcome.answer.status, not joins, collapsed, remaining)
                response = from_spool(outcome, ask.request, handling, policy, now)
            case Renewed() if leads or self._fits(outcome.kept.entry, ask, now):
                remaining = int(outcome.kept.entry.remaining(now))
                stored = leads and outcome.stored
                handling = Handling(reason, outcome.status, stored, collapsed, remaining)
                response = self._answers.render(
                    ask.key, outcome.kept, ask.request, policy, handling, now
                )
                if leads and outcome.cookies:
                    response = replace(response, fields=(*response.fields, *outcome.cookies))
            case Failed():
                stale = self._answers.stale(ask, Failure.UNREACHABLE, None)
                if stale is None:
                    raise outcome.error
                return stale
            case Passed():
                failure = failure_of(outcome.answer.status)
                stale = (
                    self._answers.stale(ask, failure, outcome.answer.status) if failure else None
                )
                if stale is not None or not leads:
                    if leads:
                        await outcome.incoming.aclose()
                    return stale
                if skips_much(outcome, ask.request):
                    await outcome.incoming.aclose()
                    return await self._pass(ask.request, policy, ask.fetch, reason)
                handling = Handling(reason, outcome.answer.status, why=outcome.reason)
                response = await from_passed(outcome, ask.request, handling, policy.name)
            case _:
                return None
        self._counts["collapsed" if joins else type(outcome).__name__.lower()] += 1
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

    async def _pass(
        self, request: Request, policy: RoutePolicy, fetch: Fetch, reason: ServeReason
    ) -> Response:
        """Forward, and do to the store what the answer asks for (RFC 9111 §4.4)."""
        self._counts["forwarded"] += 1
        fields = request.headers.fields
        sent = self._clock()
        incoming = await fetch(fields if is_safe(request.method) else name_originals(fields))
        answer = Answer(incoming.status, Headers(incoming.fields), sent, self._clock())
        key = primary_key(request, policy.keys)
        named = find_invalidated(request, answer, policy.keys)
        purges = [Purge(Scope.KEY, name) for name in named.keys]
        purges += [Purge(Scope.GROUP, origin_of(key) + b" " + group) for group in named.groups]
        for purge in purges:
            await self.invalidate(purge)
        if purges:
            await self.tell_others(purges)
        posted = request.method == b"POST" and policy.enabled
        if posted and may_store(request, answer, policy.rules).stores:
            # It is what a GET would have got (RFC 9110 §9.3.3).
            ask = Ask(key, request, policy, fetch, (), None, ServeDecision(Serve.MISS, reason))
            flight = self._fetcher.bring_in(ask, incoming, answer)
            response = await self._land(await flight.wait(), ask, leads=True)
            assert response is not None
            return response
        handling = Handling(reason, incoming.status)
        return await from_incoming(incoming, answer, request, handling, policy.name)

    async def relay(self, request: Request, incoming: Incoming, policy: RoutePolicy) -> Response:
        """Pass an answer on that the cache has no part in."""
        answer = Answer(incoming.status, Headers(incoming.fields), self._clock(), self._clock())
        handling = Handling(ServeReason.METHOD, incoming.status)
        return await from_incoming(incoming, answer, request, handling, policy.name)

    # --- what operators and unsafe requests do ----------------------------------------------

    async def purge(self, purge: Purge) -> int:
        """Drop, or with `soft` make stale, whatever it covers; counts what was in RAM."""
        self._purges.add(purge, monotonic())
        self._flights.forsake(purge)
        return await self._tiers.purge(purge, self._clock())

    async def invalidate(self, purge: Purge) -> None:
        """Have whatever it covers be asked for before any further use."""
        self._purges.add(purge, monotonic())
        self._flights.forsake(purge)
        await self._tiers.invalidate(purge)

    def recall(self, key: bytes, asked: Headers) -> Kept | None:
        """What RAM has for a GET with these fields, if it is fresh."""
        kept = choose_kept(self._tiers.find_in_ram(key), asked)
        if kept is None or kept.entry.invalid or kept.entry.remaining(self._clock()) <= 0:
            return None
        return kept

    async def explain(self, request: Request, policy: RoutePolicy) -> dict[str, object]:
        """What is stored for a GET, and what it would get now and why."""
        ask = await self.consider(request, policy, _fetch_nothing)
        exhibits = [exhibit(kept) for kept in ask.variants]
        chosen = ask.variants.index(ask.kept) if ask.kept is not None else None
        decision = ask.decision
        if not policy.enabled:
            decision = ServeDecision(Serve.MISS, ServeReason.OPERATOR_OFF)
        told = explain_stored(exhibits, chosen, decision, self._clock())
        return {"key": ask.key.decode("latin-1"), **told}

    def statistics(self) -> dict[str, int]:
        return (
            dict(self._counts)
            | self._flights.statistics()
            | self._coder.statistics()
            | self._tiers.statistics()
        )


async def _tell_nobody(purges: Sequence[Purge]) -> None:
    pass


async def _fetch_nothing(fields: Fields) -> Incoming:
    raise AssertionError("only what is stored was asked about")
