"""Flights: asks the upstream once for all, and brings what comes into the store.

A fetch is a task of this room, whoever asked first. It lands when the answer's head is
here, fills a spool that any number of clients read, and stores the answer when it is
whole and nobody purged it meanwhile. Nothing partial is ever stored (RFC 9111 §3.3).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial

import trio

from edgebox.cache.answer import Answer, Instant
from edgebox.cache.directives import parse_request
from edgebox.cache.entry import StoredResponse, describe
from edgebox.cache.flight import Ask, Failed, Flight, Passed, Renewed, Shared
from edgebox.cache.purges import Purge, RecentPurges
from edgebox.cache.reasons import Cause, StoreReason
from edgebox.cache.revalidate import CONDITIONS, renew, select_renewed, validation_fields
from edgebox.cache.serving import failure_of, may_serve_stale
from edgebox.cache.shelf import Kept
from edgebox.cache.spool import Spool, SpoolRules
from edgebox.cache.storing import may_store
from edgebox.cache.tiers import Arrival, Tiers
from edgebox.cache.vary import Variant, agree, fits
from edgebox.http.headers import Fields, Headers
from edgebox.http.message import StreamBroken
from edgebox.upstream.errors import Reason, Truncated, UpstreamError
from edgebox.upstream.incoming import Incoming

CLEAN_UP = 2  # seconds
MOST_PASSES = 10_000  # keys remembered as not worth waiting for

Step = Callable[..., Awaitable[None]]
Receive = Callable[[], Awaitable[Incoming]]


@dataclass(frozen=True, slots=True)
class FetchLimits:
    """Octets: what a spool holds in RAM, and the largest answer that is stored on disk.

    Without a disk nothing is stored that RAM does not hold: whoever asks for more is best
    served apart.
    """

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
        self.when_stored: Callable[[Ask, Kept], None] = lambda ask, kept: None
        self._flights: dict[bytes, list[Flight]] = {}
        self._passes: dict[bytes, float] = {}

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Home of the flights, until cancelled."""
        async with trio.open_nursery() as self._nursery:
            task_status.started()
            await trio.sleep_forever()

    # --- who flies with whom ----------------------------------------------------------------

    def joinable(self, ask: Ask, known: Sequence[Variant]) -> Flight | None:
        """The flight that `ask` may wait for; it was begun with a request that is alike.

        `known` variants tell in which fields requests must agree (RFC 9111 §4.1). Nobody
        waits for an answer that is known by now not to fit, or to be gone in part.
        """
        asked = ask.request.headers
        if self._is_for_one(ask) or (ask.policy.rules.request_directives and _asks_anew(asked)):
            return None
        for flight in self._flights.get(ask.key, ()):
            outcome = flight.outcome
            if isinstance(outcome, Shared):
                if outcome.spool.readable and fits(outcome.entry.variant, asked):
                    return flight
            elif agree(known, flight.asked, asked):
                return flight
        return None

    def lead(self, ask: Ask) -> Flight:
        """Ask the upstream. Others may join, unless they are better off on their own."""
        flight = self._begin(ask)
        self._nursery.start_soon(self._fly, flight, ask)
        return flight

    def lead_nowait(self, ask: Ask) -> Flight | None:
        """A flight whose answer the caller brings; None where one for this key is under way.

        The caller lands it and takes it off the list, or has it carried on.
        """
        return self._begin(ask) if ask.key not in self._flights else None

    def carry_on(self, flight: Flight, ask: Ask, receive: Receive, sent: Instant) -> None:
        """See a flight of `lead_nowait` through: `receive` gives the answer to what was `sent`."""
        self._nursery.start_soon(self._guard, flight, ask, self._carry_on, receive, sent)

    def file_soon(self, arrival: Arrival, kept: Kept) -> None:
        """Have what is in RAM on disk too, behind everybody's back."""
        if self._tiers.has_disk:
            self._nursery.start_soon(self._file, arrival, kept)

    def leave(self, flight: Flight) -> None:
        """The client that led is gone; what was meant for it alone is given up."""
        flight.leader_waits = False
        if isinstance(flight.outcome, Passed):
            self._nursery.start_soon(flight.outcome.incoming.aclose)

    def refresh(self, ask: Ask) -> None:
        """Renew what is stored, behind the back of a client that got it stale."""
        known = [kept.entry.variant for kept in ask.variants]
        if self.joinable(ask, known) is None:
            self.lead(ask).leader_waits = False

    def bring_in(self, ask: Ask, incoming: Incoming, answer: Answer) -> Flight:
        """Have an answer that came to another request than a GET streamed and stored alike."""
        flight = Flight(ask.request.headers, self._purges.mark, self._tiers.mark())
        self._nursery.start_soon(self._guard, flight, ask, self._bring_in, incoming, answer)
        return flight

    def forsake(self, purge: Purge) -> None:
        """Nobody joins any more what was asked for before a purge that may concern it."""
        for key in [key for key in self._flights if purge.may_cover(key)]:
            del self._flights[key]

    def statistics(self) -> dict[str, int]:
        return {"flights": sum(map(len, self._flights.values())), "passes": len(self._passes)}

    @property
    def largest(self) -> int:
        """Octets of the largest answer that can be stored as things are."""
        limits = self._limits
        return limits.largest if self._tiers.has_disk else min(limits.object_size, limits.largest)

    def _begin(self, ask: Ask) -> Flight:
        """A new flight, on the list unless others had better not wait for it."""
        flight = Flight(ask.request.headers, self._purges.mark, self._tiers.mark())
        flight.passing = self._is_for_one(ask)
        if not flight.passing:
            self._flights.setdefault(ask.key, []).append(flight)
        return flight

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

    def remember_pass(self, ask: Ask) -> None:
        if len(self._passes) >= MOST_PASSES:
            self._passes.clear()
        self._passes[ask.key] = self._clock().steady + ask.policy.pass_for

    def forget_pass(self, ask: Ask) -> None:
        self._passes.pop(ask.key, None)

    def unlist(self, flight: Flight, ask: Ask) -> None:
        flights = self._flights.get(ask.key, [])
        if flight in flights:
            flights.remove(flight)
            if not flights:
                del self._flights[ask.key]

    # --- one flight -------------------------------------------------------------------------

    async def _fly(self, flight: Flight, ask: Ask) -> None:
        await self._guard(flight, ask, self._ask)

    async def _guard(self, flight: Flight, ask: Ask, step: Step, *more: object) -> None:
        """Whatever happens, the flight lands and is taken off the list."""
        try:
            await step(flight, ask, *more)
        except UpstreamError as error:
            flight.land(Failed(error))
        except Exception as bug:
            self._bug(bug)
            flight.land(Failed(UpstreamError(Reason.RESET, "internal error")))
        finally:
            self.unlist(flight, ask)

    async def _carry_on(self, flight: Flight, ask: Ask, receive: Receive, sent: Instant) -> None:
        try:
            incoming = await receive()
        except UpstreamError as error:
            if error.reason is not Reason.RESET or not error.unanswered:
                raise
            # The connection had grown old, most likely; to GET twice does no harm.
            await self._ask(flight, ask)
            return
        headers = Headers(incoming.fields)
        answer = Answer(incoming.status, headers, sent, self._clock())
        await self._bring_in(flight, ask, incoming, answer)

    async def _file(self, arrival: Arrival, kept: Kept) -> None:
        try:
            await self._tiers.file(arrival, kept)
        except Exception as bug:
            self._bug(bug)

    async def _ask(self, flight: Flight, ask: Ask) -> None:
        headers = ask.request.headers
        # Only about the variant that fits: servers that give all codings one tag would
        # vouch for one that this client cannot decode.
        candidates = [ask.kept.entry] if ask.kept is not None else []
        fields = validation_fields(headers, candidates)
        if fields is not None:
            incoming, answer = await self._send(ask, fields)
            if answer.status != 304:
                await self._bring_in(flight, ask, incoming, answer)
                return
            await incoming.aclose()
            if await self._renew(flight, ask, answer):
                return
        # For a first time, or after a 304 about nothing that is stored (RFC 9111 §4.3.3).
        if flight.passing and fields is None:
            # Nothing will be stored: conditions and ranges are the client's own business.
            plain, flight.plain = headers.fields, False
        else:
            plain = tuple(f for f in headers.fields if f[0].lower() not in CONDITIONS)
        await self._bring_in(flight, ask, *await self._send(ask, plain))

    async def _send(self, ask: Ask, fields: Fields) -> tuple[Incoming, Answer]:
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
        if renewed.drop or self._purges.since(flight.mark, ask.key, renewed.entry):
            await self._tiers.drop(ask.key, kept)
        elif renewed.decision.stores:
            await self._tiers.replace(ask.key, kept, fresh, flight.born)
        self.unlist(flight, ask)
        flight.land(Renewed(fresh, renewed.decision.stores, renewed.cookies))
        return True

    async def _bring_in(self, flight: Flight, ask: Ask, incoming: Incoming, answer: Answer) -> None:
        decision = may_store(ask.request, answer, ask.policy.rules)
        reason = decision.reason
        if reason.stores and incoming.length is not None and incoming.length > self.largest:
            reason = StoreReason.TOO_LARGE
        if reason.stores and not self._has_better(ask, answer):
            self.forget_pass(ask)
            entry = describe(ask.request.headers, answer, decision.freshness, ask.policy.rules)
            await self._share(flight, ask, entry, incoming, answer)
            return
        if not reason.stores and reason.cause is not Cause.REQUEST:
            await self._outdate(ask, answer)
        self.unlist(flight, ask)
        # Nobody takes it where the leader has left: its followers ask for themselves.
        if not flight.leader_waits:
            await incoming.aclose()
        flight.land(Passed(incoming, answer, reason, flight.plain))

    async def _share(
        self, flight: Flight, ask: Ask, entry: StoredResponse, incoming: Incoming, answer: Answer
    ) -> None:
        limit, tiers = self._limits.object_size, self._tiers
        overflow = partial(tiers.open_overflow, incoming.length)
        spool = Spool(SpoolRules(limit, tiers.room, overflow, flight.waiting))
        flight.land(Shared(entry, spool, incoming.length, answer))
        purged = partial(self._purges.since, flight.mark, ask.key, entry)
        variants = ask.policy.rules.variants
        arrival = Arrival(ask.key, entry, flight.born, variants, purged)
        kept = None
        try:
            await self._fill(spool, incoming)
            if spool.storable and spool.size <= self.largest and not purged():
                kept = await tiers.put(arrival, spool)
            spool.end()
        except (Truncated, StreamBroken) as broken:
            spool.end(str(broken))
            # `incoming` keeps it, and with it these frames, and with them the octets.
            broken.__traceback__ = None
        finally:
            spool.end("the fetch was given up")
            with trio.move_on_after(CLEAN_UP, shield=True):
                await tiers.abandon(spool)
                await incoming.aclose()
        self.unlist(flight, ask)
        if kept is not None:
            if tiers.is_in_ram(ask.key, kept):
                self.when_stored(ask, kept)
            await tiers.file(arrival, kept)

    async def _fill(self, spool: Spool, incoming: Incoming) -> None:
        if incoming.whole is not None:
            if incoming.whole:
                await spool.append(incoming.whole)
        else:
            async for octets in incoming:
                await spool.append(octets)
                if spool.size > self.largest:
                    spool.stop_filing()
                # An upstream that is faster than we are never makes us wait.
                await trio.lowlevel.checkpoint()
        spool.trailers = incoming.trailers

    def _has_better(self, ask: Ask, answer: Answer) -> bool:
        """Whether a failure is better answered by what is stored, though that is stale."""
        failure = failure_of(answer.status)
        if failure is None or ask.kept is None:
            return False
        if ask.decision.sends_stored:  # a refresh, within the window for that
            return True
        return may_serve_stale(ask.decision, ask.kept.entry, failure, self._clock()).sends_stored

    async def _outdate(self, ask: Ask, answer: Answer) -> None:
        """What came is for one client, and so will the next be; what is stored is past."""
        if failure_of(answer.status) is None:
            self.remember_pass(ask)
            if ask.kept is not None:
                await self._tiers.drop(ask.key, ask.kept)
        elif ask.kept is None:
            # With something to serve in place of an error, they wait for one attempt.
            self.remember_pass(ask)


def _asks_anew(asked: Headers) -> bool:
    """Whether a request wants an answer made for it, not one that was asked for before."""
    directives = parse_request(asked)
    return b"no-cache" in directives or directives.seconds(b"max-age") == 0
