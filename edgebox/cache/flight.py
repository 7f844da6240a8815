"""One fetch on behalf of all who ask for the same thing meanwhile.

The flight belongs to the engine's nursery, not to the client that asked first: when that
client leaves, the fetch goes on for the others. It lands once its outcome is known, which
is when the answer's head is here; the octets follow through a spool.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from time import monotonic

import trio
from msgspec import Struct

from edgebox.cache.answer import Answer
from edgebox.cache.coding import NOTHING_CODED, CodingRules
from edgebox.cache.entry import StoredResponse
from edgebox.cache.reasons import StoreReason
from edgebox.cache.rules import CacheRules, KeyRules
from edgebox.cache.serving import ServeDecision
from edgebox.cache.shelf import Kept
from edgebox.cache.spool import Spool
from edgebox.http.headers import Fields, Headers
from edgebox.http.message import Request
from edgebox.upstream.errors import UpstreamError
from edgebox.upstream.incoming import Incoming

# Fields to send → the answer of the upstream. Raises UpstreamError.
Fetch = Callable[[Fields], Awaitable[Incoming]]


@dataclass(frozen=True, slots=True)
class RoutePolicy:
    """How one route is cached. `name` is what Cache-Status calls us.

    `supplied`: fields of which the upstream gets our word and not the client's.
    """

    rules: CacheRules
    keys: KeyRules
    name: bytes
    pass_for: float  # seconds that an answer that may not be stored is remembered as such
    enabled: bool = True
    supplied: frozenset[bytes] = frozenset()
    coding: CodingRules = NOTHING_CODED


class Ask(Struct, frozen=True):
    """A request that what is stored did not settle, and what there is to settle it with.

    `variants` are what is stored for its URL, `kept` the one that fits, `decision` why
    that does not do.
    """

    key: bytes
    request: Request
    policy: RoutePolicy
    fetch: Fetch
    variants: Sequence[Kept]
    kept: Kept | None
    decision: ServeDecision


class Shared(Struct, frozen=True):
    """An answer that may be stored: whoever it fits streams it.

    `borrowed`: it comes from another worker, to whom the upstream sent it.
    """

    entry: StoredResponse
    spool: Spool
    length: int | None
    answer: Answer
    borrowed: bool = False


class Renewed(Struct, frozen=True):
    """A 304: what is stored still holds. `cookies` are for the client that led.

    `borrowed`: another worker has stored it meanwhile, with that status.
    """

    kept: Kept
    stored: bool
    cookies: Fields
    status: int = 304
    borrowed: bool = False


class Passed(Struct, frozen=True):
    """An answer for one client only. The one that led takes it; others ask for themselves.

    `plain`: the upstream was not told of the client's conditions and range.
    """

    incoming: Incoming
    answer: Answer
    reason: StoreReason
    plain: bool = True


class Failed(Struct, frozen=True):
    """The upstream did not answer."""

    error: UpstreamError


class Alone(Struct, frozen=True):
    """Another worker got an answer for one client only: everybody asks for himself."""


Outcome = Shared | Renewed | Passed | Failed | Alone


class Tally:
    """How many there are. An object of its own, so that a spool can know without its flight."""

    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0


class Flight:
    """`asked`: the fields it was begun with; `mark`: the latest purge then; `born`: the tiers'
    mark of that time; `begun`: that time, by CLOCK_MONOTONIC.

    `claimed`: no other worker asks the upstream for its key, see `siblings`.
    `leader_waits`: the client that asked first is still there. `waiting`: clients that have
    yet to hear of the outcome, and may want the octets from the first on. `plain`: as in Passed.
    `passing`: nobody else waits for it, since most likely nobody could use what it brings.
    """

    __slots__ = (
        "_landed", "asked", "begun", "born", "claimed", "leader_waits", "mark", "outcome",
        "passing", "plain", "waiting",
    )  # fmt: skip

    def __init__(self, asked: Headers, mark: int, born: int = 0) -> None:
        self.asked = asked
        self.mark = mark
        self.born = born
        self.begun = monotonic()
        self.claimed = False
        self.outcome: Outcome | None = None
        self.leader_waits = True
        self.passing = False
        self.plain = True
        self.waiting = Tally()
        self._landed: trio.Event | None = None  # made for the first who waits

    def land(self, outcome: Outcome) -> None:
        """The outcome is known. The first one counts: what fails later, readers will see."""
        if self.outcome is None:
            self.outcome = outcome
            if self._landed is not None:
                self._landed.set()

    async def wait(self) -> Outcome:
        """The outcome, once there is one."""
        self.waiting.count += 1
        try:
            if self.outcome is None:
                if self._landed is None:
                    self._landed = trio.Event()
                await self._landed.wait()
            else:
                await trio.lowlevel.checkpoint()
        finally:
            self.waiting.count -= 1
        assert self.outcome is not None
        return self.outcome
