"""Answers from what is stored: which of the variants, as which representation, fresh or stale."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from msgspec.structs import replace

from edgebox.cache.answer import Instant
from edgebox.cache.answering import face_of, from_kept
from edgebox.cache.coder import Coder
from edgebox.cache.explain import Exhibit
from edgebox.cache.flight import Ask, RoutePolicy
from edgebox.cache.serving import Failure, Serve, ServeDecision, may_serve_stale
from edgebox.cache.shelf import Kept
from edgebox.cache.status import Handling
from edgebox.cache.vary import choose_variant
from edgebox.http.headers import Headers
from edgebox.http.message import Request, Response


def choose_kept(variants: Sequence[Kept], asked: Headers) -> Kept | None:
    """The most recent variant that fits a request with the fields `asked`."""
    if not variants:
        return None
    index = choose_variant(
        [kept.entry.variant for kept in variants],
        [kept.entry.date for kept in variants],
        asked,
    )
    return variants[index] if index is not None else None


def exhibit(kept: Kept) -> Exhibit:
    """What is stored, as it is told to operators."""
    place = "disk" if kept.content is None else "ram"
    coded = {coding.decode(): len(body) for coding, body in kept.coded.items() if body}
    return Exhibit(kept.entry, kept.size, place, coded)


class KeptAnswers:
    """Renders what is stored, has it coded where a client would like that, and counts."""

    def __init__(self, coder: Coder, clock: Callable[[], Instant], counts: Counter[str]) -> None:
        self._coder = coder
        self._clock = clock
        self._counts = counts

    def render(
        self, key: bytes, kept: Kept, request: Request, policy: RoutePolicy,
        handling: Handling, now: Instant,
    ) -> Response:  # fmt: skip
        """`kept`, stored under `key`, as the answer to `request`."""
        face = face_of(kept, request.headers, policy.coding)
        if face.wish is not None:
            self._coder.wish_nowait(key, kept, face.wish)
        return from_kept(kept, face, request, handling, policy.name, now)

    def prepare(self, ask: Ask, kept: Kept) -> None:
        """What `ask` brought was stored: the next who asks alike is to get it coded."""
        wish = face_of(kept, ask.request.headers, ask.policy.coding).wish
        if wish is not None:
            self._coder.wish_nowait(ask.key, kept, wish)

    def send(self, ask: Ask, decision: ServeDecision, asked: int | None = None) -> Response:
        """What is stored for `ask`; `asked`: the upstream's status, where it was asked first."""
        assert ask.kept is not None
        fresh = decision.serve is Serve.FRESH
        self._counts["hit" if fresh else "stale"] += 1
        handling = Handling(decision.reason, asked, remaining=decision.remaining)
        now = self._clock()
        response = self.render(ask.key, ask.kept, ask.request, ask.policy, handling, now)
        return response if fresh else replace(response, remember=False)

    def stale(self, ask: Ask, failure: Failure, status: int | None) -> Response | None:
        """What is stored, though stale, where policy allows it after a failure."""
        if ask.kept is None:
            return None
        decision = may_serve_stale(ask.decision, ask.kept.entry, failure, self._clock())
        return self.send(ask, decision, status) if decision.sends_stored else None
