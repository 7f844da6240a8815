"""Answers for one client alone: whole, or what is left of them by its conditions and its range.

The first time that a URL is asked for, neither is told to the upstream, since its answer may have
to be stored. When it turns out that it may not, the client gets what it asked for nevertheless.
"""

from __future__ import annotations

from edgebox.cache.answer import Answer
from edgebox.cache.answering import Relay, evaluate, from_incoming, position, single_range, told
from edgebox.cache.entry import with_date
from edgebox.cache.flight import Passed
from edgebox.cache.status import Handling, add_cache_status, cache_status
from edgebox.cache.vary import vary_names
from edgebox.http import ranges
from edgebox.http.conditions import Verdict
from edgebox.http.message import Request, Response, Stream
from edgebox.http.ranges import Outcome, Span
from edgebox.upstream.incoming import Incoming

# Octets that are read in vain to cut a range out of what passes by; for one further in, the
# upstream is better asked again.
MOST_SKIPPED = 1024 * 1024


async def from_passed(
    passed: Passed, request: Request, handling: Handling, name: bytes
) -> Response:
    """An answer for this client alone, whose conditions may have been kept from the upstream.

    So may its range have been: a single one is cut out as the answer passes by.
    """
    answer, incoming = passed.answer, passed.incoming
    if answer.status == 200 and not _may_name_a_file(answer):
        etag = next(iter(answer.headers.all(b"etag")), None)
        member, label = cache_status(name, handling), handling.reason.key
        fields = add_cache_status(with_date(answer.headers.fields, answer), member)
        verdict = evaluate(request, etag, answer)
        if verdict is Verdict.NOT_MODIFIED:
            await incoming.aclose()
            return Response(304, fields, forwarded=True, label=label)
        if verdict is Verdict.FAILED and passed.plain:
            await incoming.aclose()
            return told(412, member)
        length = _length_of(incoming)
        span = single_range(answer, length, request) if passed.plain else Outcome.IGNORE
        if span is Outcome.UNSATISFIABLE and length is not None:
            await incoming.aclose()
            return told(416, member, position(None, length))
        if isinstance(span, Span) and length is not None:
            body = await _cut(incoming, span)
            fields = (*fields, *position(span, length))
            return Response(206, fields, body, forwarded=True, label=label)
    return await from_incoming(incoming, answer, request, handling, name)


def skips_much(passed: Passed, request: Request) -> bool:
    """Whether to cut the client's part out of the answer would be to read much of it in vain.

    Then the upstream is better asked again, for that part.
    """
    wanted, length = request.headers.get(b"range"), passed.incoming.length
    if wanted is None or request.method != b"GET" or not passed.plain:
        return False
    if passed.answer.status != 200 or passed.incoming.whole is not None:
        return False
    if _may_name_a_file(passed.answer):
        return False
    if length is None:
        return True
    spans = ranges.resolve(wanted, length)
    return not isinstance(spans, Outcome) and (len(spans) > 1 or spans[0].first > MOST_SKIPPED)


class Excerpt(Relay):
    """Of the octets of an answer those of a span."""

    __slots__ = ("_left", "_skip")

    def __init__(self, incoming: Incoming, span: Span) -> None:
        super().__init__(incoming)
        self._skip, self._left = span.first, span.length

    async def __anext__(self) -> bytes:
        while self._left:
            octets = await super().__anext__()
            part = octets[self._skip : self._skip + self._left]
            self._skip = max(0, self._skip - len(octets))
            self._left -= len(part)
            if part:
                return part
        raise StopAsyncIteration


async def _cut(incoming: Incoming, span: Span) -> bytes | Stream:
    """The octets of `span` of an answer that nobody else wants."""
    if incoming.whole is not None:
        octets = incoming.whole[span.first : span.last + 1]
        await incoming.aclose()
        return octets
    return Stream(Excerpt(incoming, span), span.length, incoming.aclose)


def _may_name_a_file(answer: Answer) -> bool:
    """Vary: * is what stands on answers that do; the file has a tag and a length of its own."""
    return vary_names(answer.headers) is None


def _length_of(incoming: Incoming) -> int | None:
    return incoming.length if incoming.whole is None else len(incoming.whole)
