"""Flights: asks the upstream once for all, and brings what comes into the store.

A fetch is a task of this room, whoever asked first. It lands when the answer's head is
here, fills a spool that any number of clients read, and stores the answer when it is
whole and nobody purged it meanwhile. Nothing partial is ever stored (RFC 9111 §3.3).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import trio

from edgebox.cache.answer import Answer, Instant
from edgebox.cache.entry import StoredResponse, describe
from edgebox.cache.flight import Ask, Failed, Flight, Passed, Renewed, Shared
from edgebox.cache.purges import RecentPurges
from edgebox.cache.reasons import Cause, ServeReason
from edgebox.cache.revalidate import CONDITIONS, renew, select_renewed, validation_fields
from edgebox.cache.serving import failure_of
from edgebox.cache.spool import Spool
from edgebox.cache.storing import may_store
from edgebox.cache.tiers import Tiers
from edgebox.http.headers import Fields, Headers
from edgebox.http.message import StreamBroken
from edgebox.upstream.errors import Reason, Truncated, UpstreamError
from edgebox.upstream.incoming import Incoming

CLEAN_UP = 2  # seconds
MOST_PASSES = 10_000  # keys remembered as not worth waiting for

# Who says so wants an answer made for this very request, not one that was asked for before.
_OWN_FETCH = frozenset((ServeReason.REQUEST_NO_CACHE, ServeReason.REQUEST_MAX_AGE))


@dataclass(frozen=True, slots=True)
class FetchLimits:
    """Octets: what a spool holds in RAM, and the largest answer that is stored."""

    object_size: int
    largest: int


class Fetcher:
    """Flights by key."""

    def __init__(
        self, tiers: Tiers, purges: RecentPurges, clock: Callable[[], Instant],
        limits: FetchLimits, bug: Callable[[Exception], None],
    ) -> None:  # fmt: skip
        self._tiers = tiers
        self._purges = purges
        self._clock = clock
        self._limits = limits
        self._bug = bug
        self._flights: dict[bytes, Flight] = {}
        self._passes: dict[bytes, float] = {}

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Home of the flights, until cancelled."""
        async with trio.open_nursery() as self._nursery:
            task_status.started()
            await trio.sleep_forever()

    def joinable(self, ask: Ask) -> Flight | None:
        """The flight that `ask` may wait for."""
        if ask.decision.reason in _OWN_FETCH or self._passes_by(ask):
            return None
        return self._flights.get(ask.key)

    def lead(self, ask: Ask) -> Flight:
        """Ask the upstream. Others may join, unless they are better off on their own."""
        flight = Flight(self._clock().steady)
        passing = self._passes_by(ask)
        if not passing:
            self._flights.setdefault(ask.key, flight)
        self._nursery.start_soon(self._fly, flight, ask, passing)
        return flight

    def refresh(self, ask: Ask) -> None:
        """Renew what is stored, behind the back of a client that got it stale."""
        if ask.key not in self._flights:
            self.lead(ask).leader_waits = False

    def statistics(self) -> dict[str, int]:
        return {"flights": len(self._flights), "passes": len(self._passes)}

    def _passes_by(self, ask: Ask) -> bool:
        """Whether this key's last answer was one that nobody else could use."""
        until = self._passes.get(ask.key)
        if until is None:
            return False
        if until > self._clock().steady:
            return True
        del self._passes[ask.key]
        return False

    async def _fly(self, flight: Flight, ask: Ask, passing: bool) -> None:
        incoming: Incoming | None = None
        try:
            incoming, answer = await self._ask(flight, ask, passing)
            if incoming is not None:
                await self._bring_in(flight, ask, incoming, answer)
        except UpstreamError as error:
            flight.land(Failed(error))
        except Exception as bug:
            self._bug(bug)
            flight.land(Failed(UpstreamError(Reason.RESET, "internal error")))
        finally:
            self._unlist(flight, ask)

    async def _ask(self, flight: Flight, ask: Ask, passing: bool) -> tuple[Incoming | None, Answer]:
        """The upstream's answer; no Incoming where it was a 304 and all is done."""
        headers = ask.request.headers
        # Only about the variant that fits: servers that give all codings one tag would
        # vouch for one that this client cannot decode.
        candidates = [ask.kept.entry] if ask.kept is not None else []
        fields = validation_fields(headers, candidates)
        if fields is None and passing:
            # Nothing will be stored: conditions and ranges are the client's own business.
            return await self._ask_once(ask, headers.fields)
        if fields is not None:
            incoming, answer = await self._ask_once(ask, fields)
            if answer.status != 304:
                return incoming, answer
            await incoming.aclose()
            if await self._renew(flight, ask, answer):
                return None, answer
        # For a first time, or after a 304 about nothing that is stored (RFC 9111 §4.3.3).
        plain = tuple(f for f in headers.fields if f[0].lower() not in CONDITIONS)
        return await self._ask_once(ask, plain)

    async def _ask_once(self, ask: Ask, fields: Fields) -> tuple[Incoming, Answer]:
        sent = self._clock()
        incoming = await ask.fetch(fields)
        return incoming, Answer(incoming.status, Headers(incoming.fields), sent, self._clock())

    async def _renew(self, flight: Flight, ask: Ask, answer: Answer) -> bool:
        """Take a 304 for what is stored; False where it is about nothing of that."""
        kept = ask.kept
        if kept is None or not select_renewed(answer.headers, [kept.entry]):
            return False
        renewed = renew(ask.request, kept.entry, answer, ask.policy.rules)
        fresh = kept.with_entry(renewed.entry)
        if renewed.drop or self._purges.since(flight.born, ask.key, renewed.entry):
            await self._tiers.drop(ask.key, kept)
        elif renewed.decision.stores:
            await self._tiers.replace(ask.key, kept, fresh)
        self._unlist(flight, ask)
        flight.land(Renewed(fresh, renewed.decision.stores, renewed.cookies))
        return True

    async def _bring_in(self, flight: Flight, ask: Ask, incoming: Incoming, answer: Answer) -> None:
        decision = may_store(ask.request, answer, ask.policy.rules)
        fits = incoming.length is None or incoming.length <= self._limits.largest
        if not decision.stores or not fits:
            if decision.reason.cause is not Cause.REQUEST:
                self._remember_pass(ask)
                if ask.kept is not None and failure_of(answer.status) is None:
                    await self._tiers.drop(ask.key, ask.kept)  # it is no longer so
            self._unlist(flight, ask)
            # Nobody takes it where the leader has left: its followers ask for themselves.
            if not flight.leader_waits:
                await incoming.aclose()
            flight.land(Passed(incoming, answer, decision.reason))
            return
        self._passes.pop(ask.key, None)
        entry = describe(ask.request.headers, answer, decision.freshness, ask.policy.rules)
        spool = Spool(self._limits.object_size, self._tiers.open_overflow)
        flight.land(Shared(entry, spool, incoming.length, answer))
        try:
            async for octets in incoming:
                await spool.append(octets)
            spool.trailers = incoming.trailers
            if spool.keeps and spool.size <= self._limits.largest:
                await self._store(flight, ask, entry, spool)
            spool.end()
        except (Truncated, StreamBroken) as broken:
            spool.end(str(broken))
        finally:
            spool.end("the fetch was given up")
            with trio.move_on_after(CLEAN_UP, shield=True):
                await self._tiers.abandon(spool)
                await incoming.aclose()

    async def _store(self, flight: Flight, ask: Ask, entry: StoredResponse, spool: Spool) -> None:
        if self._purges.since(flight.born, ask.key, entry):
            return
        await self._tiers.put(ask.key, entry, spool, ask.policy.rules.variants)

    def _remember_pass(self, ask: Ask) -> None:
        if len(self._passes) >= MOST_PASSES:
            self._passes.clear()
        self._passes[ask.key] = self._clock().steady + ask.policy.pass_for

    def _unlist(self, flight: Flight, ask: Ask) -> None:
        if self._flights.get(ask.key) is flight:
            del self._flights[ask.key]
