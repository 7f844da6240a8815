"""HEAD requests that what is stored does not answer: forwarded, and learned from.

The answer to a HEAD says what a GET would have got, so it may renew what is stored for that,
or show that it is past (RFC 9111 §4.3.5).
"""

from __future__ import annotations

from collections.abc import Callable

from edgebox.cache.answer import Answer, Instant
from edgebox.cache.answering import from_incoming
from edgebox.cache.flight import Ask
from edgebox.cache.keeping import KeptAnswers
from edgebox.cache.reasons import HeadReason
from edgebox.cache.revalidate import judge_head, renew
from edgebox.cache.serving import Failure, failure_of
from edgebox.cache.shelf import Kept
from edgebox.cache.status import Handling
from edgebox.cache.tiers import Tiers
from edgebox.cache.vary import fits
from edgebox.http.headers import Headers
from edgebox.http.message import Response
from edgebox.upstream.errors import UpstreamError
from edgebox.upstream.incoming import Incoming


async def ask_head(
    ask: Ask, tiers: Tiers, answers: KeptAnswers, clock: Callable[[], Instant]
) -> Response:
    """The upstream's answer, or what is stale where policy prefers that to a failure.

    Raises UpstreamError.
    """
    sent, born = clock(), tiers.mark()
    try:
        incoming = await ask.fetch(ask.request.headers.fields)
    except UpstreamError:
        stale = answers.stale(ask, Failure.UNREACHABLE, None)
        if stale is None:
            raise
        return stale
    failure = failure_of(incoming.status)
    stale = answers.stale(ask, failure, incoming.status) if failure is not None else None
    if stale is not None:
        await incoming.aclose()
        return stale
    answer = Answer(incoming.status, Headers(incoming.fields), sent, clock())
    with_length = _with_length(answer, incoming)
    for kept in ask.variants:
        if fits(kept.entry.variant, ask.request.headers):
            await _learn(ask, kept, with_length, tiers, born)
    handling = Handling(ask.decision.reason, incoming.status)
    return await from_incoming(incoming, answer, ask.request, handling, ask.policy.name)


async def _learn(ask: Ask, kept: Kept, answer: Answer, tiers: Tiers, born: int) -> None:
    told = judge_head(kept.entry, kept.size, answer)
    if told is HeadReason.OUTDATES:
        await tiers.replace(ask.key, kept, kept.with_entry(kept.entry.invalidated()), born)
    elif told is HeadReason.RENEWS:
        renewed = renew(ask.request, kept.entry, answer, ask.policy.rules)
        if renewed.decision.stores:
            await tiers.replace(ask.key, kept, kept.with_entry(renewed.entry), born)
        elif renewed.drop:
            await tiers.drop(ask.key, kept)


def _with_length(answer: Answer, incoming: Incoming) -> Answer:
    """The answer with the length that a GET would have, which stands beside its fields."""
    if incoming.length is None:
        return answer
    length = (b"Content-Length", b"%d" % incoming.length)
    fields = (*answer.headers.fields, length)
    return Answer(answer.status, Headers(fields), answer.sent, answer.received)
