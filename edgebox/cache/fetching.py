"""Flights: asks the upstream once for all, and brings what comes into the store.

A fetch is a task of this room, whoever asked first. It lands when the answer's head is
here, fills a spool that any number of clients read, and stores the answer when it is
whole and nobody purged it meanwhile. Nothing partial is ever stored (RFC 9111 §3.3).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial

import trio

from edgebox.cache.answer import Answer, Instant
from edgebox.cache.entry import StoredResponse, describe
from edgebox.cache.flight import Alone, Ask, Failed, Flight, Passed, Renewed, Shared
from edgebox.cache.flights import Flights, asks_anew
from edgebox.cache.keeping import choose_kept
from edgebox.cache.purges import RecentPurges
from edgebox.cache.reasons import Cause, StoreReason
from edgebox.cache.revalidate import CONDITIONS, renew, select_renewed, validation_fields
from edgebox.cache.serving import Serve, failure_of, may_serve, may_serve_stale
from edgebox.cache.shelf import Kept
from edgebox.cache.siblings.asking import Borrowed, Refusal
from edgebox.cache.spool import Spool, SpoolRules
from edgebox.cache.storing import may_store
from edgebox.cache.tiers import Arrival, Tiers
from edgebox.http.headers import Fields, Headers
from edgebox.http.message import StreamBroken
from edgebox.upstream.errors import Reason, Truncated, UpstreamError
from edgebox.upstream.incoming import Incoming

CLEAN_UP = 2  # seconds
FAREWELL = 0.05  # seconds for a process that ends: its sockets may go before its locks do

Step = Callable[..., Awaitable[None]]
Receive = Callable[[], Awaitable[Incoming]]
Source = Incoming | Borrowed


@dataclass(frozen=True, slots=True)
class FetchLimits:
    """Octets: what a spool holds in RAM, and the largest answer that is stored on disk.

    Without a disk nothing is stored that RAM does not hold: whoever asks for more is best
    served apart.
    """

    object_size: int
    largest: int


class Fetcher:
    """Begins flights and sees them through."""

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
        self.flights = Flights(clock)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Home of the flights, until cancelled."""
        async with trio.open_nursery() as self._nursery:
            task_status.started()
            await trio.sleep_forever()

    def lead(self, ask: Ask, alone: bool = False) -> Flight:
        """Ask the upstream. Others may join, unless they are better off on their own."""
        flight = self._begin(ask, alone)
        self._nursery.start_soon(self._fly, flight, ask)
        return flight

    def lead_nowait(self, ask: Ask) -> Flight | None:
        """A flight whose answer the caller brings; None where one for this key is under way.

        The caller lands it and takes it off the list, or has it carried on.
        """
        flights = self.flights
        if flights.has(ask.key):
            return None
        flight = self._begin(ask)
        if flights.claim(flight, ask) > 0:
            flights.remove(flight, ask)
            return None
        return flight

    def carry_on(self, flight: Flight, ask: Ask, receive: Receive, sent: Instant) -> None:
        """See a flight of `lead_nowait` through: `receive` gives the answer to what was `sent`."""
        self._nursery.start_soon(self._guard, flight, ask, self._carry_on, receive, sent)

    def file_soon(self, flight: Flight, ask: Ask, arrival: Arrival, kept: Kept) -> None:
        """Have what is in RAM on disk too, behind everybody's back; then the flight is over."""
        if self._tiers.has_disk:
            self._nursery.start_soon(self._file, flight, ask, arrival, kept)
        else:
            self.flights.let_go(flight, ask)

    def leave(self, flight: Flight) -> None:
        """The client that led is gone; what was meant for it alone is given up."""
        flight.leader_waits = False
        if isinstance(flight.outcome, Passed):
            self._nursery.start_soon(flight.outcome.incoming.aclose)

    def refresh(self, ask: Ask) -> None:
        """Renew what is stored, behind the back of a client that got it stale."""
        known = [kept.entry.variant for kept in ask.variants]
        if self.flights.joinable(ask, known) is None:
            self.lead(ask).leader_waits = False

    def bring_in(self, ask: Ask, incoming: Incoming, answer: Answer) -> Flight:
        """Have an answer that came to another request than a GET streamed and stored alike."""
        flight = Flight(ask.request.headers, self._purges.mark, self._tiers.mark())
        self._nursery.start_soon(self._guard, flight, ask, self._bring_in, incoming, answer)
        return flight

    @property
    def largest(self) -> int:
        """Octets of the largest answer that can be stored as things are."""
        limits = self._limits
        return limits.largest if self._tiers.has_disk else min(limits.object_size, limits.largest)

    def _begin(self, ask: Ask, alone: bool = False) -> Flight:
        """A new flight, on the list unless others had better not wait for it."""
        flight = Flight(ask.request.headers, self._purges.mark, self._tiers.mark())
        self.flights.add(flight, ask, alone)
        return flight

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
            self.flights.remove(flight, ask)

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

    async def _file(self, flight: Flight, ask: Ask, arrival: Arrival, kept: Kept) -> None:
        try:
            await self._tiers.file(arrival, kept)
        except Exception as bug:
            self._bug(bug)
        finally:
            self.flights.remove(flight, ask)

    async def _ask(self, flight: Flight, ask: Ask) -> None:
        if await self._borrow(flight, ask):
            return
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

    async def _borrow(self, flight: Flight, ask: Ask) -> bool:
        """Go by what another worker gets or has got; False where we are to ask the upstream."""
        siblings, asked = self.flights.siblings, ask.request.headers
        if siblings is None or flight.claimed or flight.passing:
            return False
        variants = [kept.entry.variant for kept in ask.variants]
        known: set[int] = set()  # a key may pass from one to the next
        while (holder := self.flights.claim(flight, ask)) > 0 and holder not in known:
            if ask.policy.rules.request_directives and asks_anew(asked):
                return False
            known.add(holder)
            borrowed = await siblings.borrow(holder, ask.key, asked.fields, variants)
            if borrowed is Refusal.FOR_ONE:
                self.flights.remember_pass(ask)
                self.flights.remove(flight, ask)
                flight.land(Alone())
                return True
            if isinstance(borrowed, Borrowed):
                if await self._share_borrowed(flight, ask, borrowed):
                    return True
                await borrowed.aclose()
            if borrowed is Refusal.GONE:
                await trio.sleep(FAREWELL)
        return await self._find_later(flight, ask)

    async def _find_later(self, flight: Flight, ask: Ask) -> bool:
        """Go by what has come to the disk since we looked there, before the key was ours."""
        tiers, request = self._tiers, ask.request
        if not tiers.has_disk or not flight.claimed:
            return False
        found = await (
            tiers.find_later(ask.key, ask.variants) if ask.variants else tiers.find(ask.key)
        )
        kept = choose_kept(found, request.headers)
        if kept is None:
            return False
        if may_serve(request, kept.entry, ask.policy.rules, self._clock()).serve is not Serve.FRESH:
            return False
        self.flights.remove(flight, ask)
        flight.land(Renewed(kept, False, (), kept.entry.status, borrowed=True))
        return True

    async def _share_borrowed(self, flight: Flight, ask: Ask, borrowed: Borrowed) -> bool:
        """The same as if it had come from the upstream; False where it may have been purged."""
        told = borrowed.told
        if told.length is not None and told.length > self.largest:
            return False
        if self._purges.since_moment(told.begun, ask.key):
            return False
        flight.born = min(flight.born, told.born)
        await self._share(flight, ask, told.entry, borrowed, borrowed.answer)
        return True

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
        self.flights.remove(flight, ask)
        flight.land(Renewed(fresh, renewed.decision.stores, renewed.cookies))
        return True

    async def _bring_in(self, flight: Flight, ask: Ask, incoming: Incoming, answer: Answer) -> None:
        decision = may_store(ask.request, answer, ask.policy.rules)
        reason = decision.reason
        if reason.stores and incoming.length is not None and incoming.length > self.largest:
            reason = StoreReason.TOO_LARGE
        if reason.stores and not self._has_better(ask, answer):
            self.flights.forget_pass(ask)
            entry = describe(ask.request.headers, answer, decision.freshness, ask.policy.rules)
            await self._share(flight, ask, entry, incoming, answer)
            return
        if not reason.stores and reason.cause is not Cause.REQUEST:
            await self._outdate(ask, answer)
        self.flights.remove(flight, ask)
        # Nobody takes it where the leader has left: its followers ask for themselves.
        if not flight.leader_waits:
            await incoming.aclose()
        flight.land(Passed(incoming, answer, reason, flight.plain))

    async def _share(
        self, flight: Flight, ask: Ask, entry: StoredResponse, incoming: Source, answer: Answer
    ) -> None:
        limit, tiers = self._limits.object_size, self._tiers
        overflow = partial(tiers.open_overflow, incoming.length)
        spool = Spool(SpoolRules(limit, tiers.room, overflow, flight.waiting))
        borrowed = isinstance(incoming, Borrowed)
        flight.land(Shared(entry, spool, incoming.length, answer, borrowed))
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
        self.flights.unlist(flight, ask)
        if kept is not None:
            if tiers.is_in_ram(ask.key, kept):
                self.when_stored(ask, kept)
            await tiers.file(arrival, kept)

    async def _fill(self, spool: Spool, incoming: Source) -> None:
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
            self.flights.remember_pass(ask)
            if ask.kept is not None:
                await self._tiers.drop(ask.key, ask.kept)
        elif ask.kept is None:
            # With something to serve in place of an error, they wait for one attempt.
            self.flights.remember_pass(ask)
