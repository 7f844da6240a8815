"""From what is stored, or is coming in, to the response that one client gets.

A stored 200 is a representation like a file: conditions and ranges of the request are met
from it here, whatever the upstream would have made of them.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from edgebox.cache.answer import Answer, Instant
from edgebox.cache.entry import StoredResponse, with_date
from edgebox.cache.flight import Shared
from edgebox.cache.shelf import Kept
from edgebox.cache.status import Handling, add_cache_status, cache_status
from edgebox.http import conditions, ranges
from edgebox.http.conditions import Verdict
from edgebox.http.dates import parse_date
from edgebox.http.headers import Field, Fields
from edgebox.http.message import FileSlice, Piece, Request, Response, Stream, StreamBroken
from edgebox.http.ranges import Outcome, Span
from edgebox.http.representation import Representation, represent
from edgebox.upstream.errors import Truncated
from edgebox.upstream.incoming import Incoming

_OWN = frozenset((b"content-type", b"accept-ranges"))


def from_kept(
    kept: Kept, request: Request, handling: Handling, name: bytes, now: Instant
) -> Response:
    """What is stored, as the answer to `request`; `name` is what this cache is called."""
    entry = kept.entry
    fields = add_cache_status(entry.fields_at(now), cache_status(name, handling))
    in_ram = kept.content is not None
    if entry.status != 200:
        return Response(entry.status, fields, _take(kept, None), in_ram, forwarded=True)
    whole = Representation(
        kind=_first(entry.fields, b"content-type"),
        fields=_without_own(fields),
        etag=entry.etag,
        modified=_modified(entry, now),
        size=kept.size,
        take=partial(_take, kept),
        remember=in_ram,
    )
    return replace(represent(request, whole, int(now.wall)), forwarded=True)


def from_spool(
    shared: Shared, request: Request, handling: Handling, name: bytes, leads: bool, now: Instant
) -> Response:
    """An answer that is still coming in. The client that led gets its fields as they came.

    Its validators are known, so a condition can end it at once; a single range can be cut
    out of it as it passes, where its length is known. Several ranges get the whole.
    """
    entry, length = shared.entry, shared.length
    theirs = with_date(shared.answer.headers.fields, shared.answer)
    fields = theirs if leads else entry.fields_at(now)
    fields = add_cache_status(fields, cache_status(name, handling))
    status, first, count = entry.status, 0, length
    if status == 200:
        verdict = conditions.evaluate(
            request.method, request.headers, entry.etag, _modified(entry, now), int(now.wall)
        )
        if verdict is not Verdict.PROCEED:
            return Response(verdict.value, fields, forwarded=True)
        span = _single_range(entry, length, request, now)
        if span is not None and length is not None:
            status, first, count = 206, span.first, span.length
            fields = (*fields, (b"Content-Range", ranges.content_range(span, length)))
    reader = shared.spool.read(first)
    body = Stream(reader, count, reader.aclose, lambda: shared.spool.trailers)
    return Response(status, fields, body, forwarded=True)


async def from_incoming(
    incoming: Incoming, answer: Answer, request: Request, handling: Handling, name: bytes
) -> Response:
    """An answer that goes to this client and to nobody else."""
    fields = with_date(answer.headers.fields, answer)
    fields = add_cache_status(fields, cache_status(name, handling))
    if incoming.whole is not None and request.method != b"HEAD":
        octets = incoming.whole
        await incoming.aclose()
        return Response(answer.status, fields, octets, forwarded=True)
    body = Stream(Relay(incoming), incoming.length, incoming.aclose, lambda: incoming.trailers)
    return Response(answer.status, fields, body, forwarded=True)


class Relay:
    """The octets of an answer, whose failure is told in terms of this side."""

    __slots__ = ("_incoming",)

    def __init__(self, incoming: Incoming) -> None:
        self._incoming = incoming

    def __aiter__(self) -> Relay:
        return self

    async def __anext__(self) -> bytes:
        try:
            return await self._incoming.__anext__()
        except Truncated as broken:
            raise StreamBroken(str(broken)) from broken


def _single_range(
    entry: StoredResponse, length: int | None, request: Request, now: Instant
) -> Span | None:
    wanted = request.headers.get(b"range") if request.method == b"GET" else None
    if wanted is None or length is None:
        return None
    condition = request.headers.get(b"if-range")
    if condition is not None and not conditions.if_range_holds(
        condition, entry.etag, _modified(entry, now), entry.date
    ):
        return None
    spans = ranges.resolve(wanted, length)
    return spans[0] if not isinstance(spans, Outcome) and len(spans) == 1 else None


def _take(kept: Kept, span: Span | None) -> Piece:
    first, length = (span.first, span.length) if span is not None else (0, kept.size)
    if kept.content is not None:
        return kept.content if span is None else kept.content[first : first + length]
    assert kept.file is not None
    return FileSlice(kept.file.acquire(), kept.offset + first, length)


def _modified(entry: StoredResponse, now: Instant) -> int | None:
    modified = entry.last_modified
    return parse_date(modified, int(now.wall)) if modified is not None else None


def _first(fields: Fields, name: bytes) -> bytes | None:
    return next((value for given, value in fields if given.lower() == name), None)


def _without_own(fields: Fields) -> tuple[Field, ...]:
    return tuple(field for field in fields if field[0].lower() not in _OWN)
