"""From what is stored, or is coming in, to the response that one client gets.

A stored 200 is a representation like a file: conditions and ranges of the request are met
from it here, whatever the upstream would have made of them.
"""

from __future__ import annotations

from functools import partial

from msgspec.structs import replace

from edgebox.cache.answer import Answer, Instant
from edgebox.cache.coding import CodingRules, Face, choose_face, dress, is_codable
from edgebox.cache.entry import StoredResponse, with_date
from edgebox.cache.flight import RoutePolicy, Shared
from edgebox.cache.shelf import Kept
from edgebox.cache.status import Handling, add_cache_status, cache_status
from edgebox.http import conditions, ranges
from edgebox.http.conditions import Verdict
from edgebox.http.dates import parse_date
from edgebox.http.headers import Field, Fields, Headers
from edgebox.http.message import FileSlice, Piece, Request, Response, Stream, StreamBroken
from edgebox.http.phrases import PHRASES
from edgebox.http.ranges import Outcome, Span
from edgebox.http.representation import Representation, represent
from edgebox.upstream.errors import Truncated
from edgebox.upstream.incoming import Incoming

_OWN = frozenset((b"content-type", b"accept-ranges"))
_RETRIEVALS = (b"GET", b"HEAD")


def face_of(kept: Kept, asked: Headers, rules: CodingRules) -> Face:
    """Which representation of what is stored a client is to get."""
    if kept.content is not None and is_codable(kept.entry, kept.size, rules):
        return choose_face(asked, kept.entry, kept.coded, rules)
    return Face(etag=kept.entry.etag)


def from_kept(
    kept: Kept, face: Face, request: Request, handling: Handling, name: bytes, now: Instant
) -> Response:
    """What is stored, as the answer to `request`; `name` is what this cache is called."""
    entry, label = kept.entry, handling.reason.key
    member = cache_status(name, handling)
    fields = add_cache_status(dress(entry.fields_at(now), face), member)
    in_ram = kept.content is not None
    if entry.status != 200:
        body = _take(kept, kept.content, None)
        return Response(entry.status, fields, body, in_ram, forwarded=True, label=label)
    content = kept.coded[face.coding] if face.coding else kept.content
    whole = Representation(
        kind=_first(entry.fields, b"content-type"),
        fields=_without_own(fields),
        etag=face.etag,
        modified=_modified(entry, request.headers),
        size=kept.size if content is None else len(content),
        take=partial(_take, kept, content),
        remember=in_ram,
    )
    # The Date it came with, not the hour of this request, says whether its Last-Modified is
    # strong (RFC 9110 §8.8.2.2).
    response = represent(request, whole, entry.date)
    if response.status in (412, 416):
        return told(response.status, member, response.fields, remember=in_ram)
    return replace(response, forwarded=True, label=label)


def from_spool(
    shared: Shared, request: Request, handling: Handling, policy: RoutePolicy, now: Instant
) -> Response:
    """An answer that is still coming in. The client that led gets its fields as they came.

    Its validators are known, so a condition can end it at once; a single range can be cut
    out of it as it passes, where its length is known. Several ranges get the whole.
    """
    entry, length = shared.entry, shared.length
    face = Face(etag=entry.etag)
    if is_codable(entry, length, policy.coding):
        face = choose_face(request.headers, entry, {}, policy.coding)
    leads = handling.collapsed is None
    fields = with_date(shared.answer.headers.fields, shared.answer)
    fields = dress(fields if leads else entry.fields_at(now), face)
    member = cache_status(policy.name, handling)
    fields = add_cache_status(fields, member)
    status, first, stop = entry.status, 0, None
    label = handling.reason.key
    if status == 200 and request.method in _RETRIEVALS:
        verdict = evaluate(request, face.etag, entry)
        if verdict is Verdict.FAILED:
            return told(412, member)
        if verdict is Verdict.NOT_MODIFIED:
            return Response(304, fields, forwarded=True, label=label)
        span = single_range(entry, length, request)
        if span is Outcome.UNSATISFIABLE and length is not None:
            return told(416, member, position(None, length))
        if isinstance(span, Span) and length is not None:
            status, first, stop = 206, span.first, span.last + 1
            fields = (*fields, *position(span, length))
    reader = shared.spool.read(first, stop)
    count = length if stop is None else stop - first
    body = Stream(reader, count, reader.aclose, lambda: shared.spool.trailers)
    return Response(status, fields, body, forwarded=True, label=label)


def from_whole(
    answer: Answer, entry: StoredResponse | None, content: bytes, request: Request,
    handling: Handling, policy: RoutePolicy,
) -> Response:  # fmt: skip
    """A whole answer for the client that asked for it, without conditions or a range.

    `entry` where it may be stored. What `from_spool` and `from_passed` make of the same.
    """
    fields = with_date(answer.headers.fields, answer)
    if entry is not None and is_codable(entry, len(content), policy.coding):
        fields = dress(fields, choose_face(request.headers, entry, {}, policy.coding))
    fields = add_cache_status(fields, cache_status(policy.name, handling))
    return Response(answer.status, fields, content, forwarded=True, label=handling.reason.key)


async def from_incoming(
    incoming: Incoming, answer: Answer, request: Request, handling: Handling, name: bytes
) -> Response:
    """An answer that goes to this client and to nobody else, as it is."""
    label = handling.reason.key
    fields = with_date(answer.headers.fields, answer)
    fields = add_cache_status(fields, cache_status(name, handling))
    if incoming.whole is not None and request.method != b"HEAD":
        octets = incoming.whole
        await incoming.aclose()
        return Response(answer.status, fields, octets, forwarded=True, label=label)
    body = Stream(Relay(incoming), incoming.length, incoming.aclose, lambda: incoming.trailers)
    return Response(answer.status, fields, body, forwarded=True, label=label)


def told(status: int, member: bytes, extra: Fields = (), *, remember: bool = False) -> Response:
    """An answer of our own to what cannot be had; `member` is what Cache-Status says of it."""
    text = f"{status} {PHRASES[status]}\n".encode()
    position = tuple(field for field in extra if field[0] == b"Content-Range")
    fields = (
        (b"Content-Type", b"text/plain; charset=utf-8"),
        *position,
        (b"Cache-Status", member),
    )
    return Response(status, fields, text, remember=remember)


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


def evaluate(request: Request, etag: bytes | None, made: StoredResponse | Answer) -> Verdict:
    """What the preconditions of a request come to for what was made, which has that tag."""
    modified, date = _dates(made, request.headers)
    return conditions.evaluate(request.method, request.headers, etag, modified, date)


def single_range(
    made: StoredResponse | Answer, length: int | None, request: Request
) -> Span | Outcome:
    """The one span of `length` octets that is asked for; IGNORE where the whole is to be sent."""
    wanted = request.headers.get(b"range") if request.method == b"GET" else None
    if wanted is None or length is None:
        return Outcome.IGNORE
    condition = request.headers.get(b"if-range")
    if condition is not None:
        etag = made.etag if isinstance(made, StoredResponse) else made.headers.get(b"etag")
        if not conditions.if_range_holds(condition, etag, *_dates(made, request.headers)):
            return Outcome.IGNORE
    spans = ranges.resolve(wanted, length)
    if isinstance(spans, Outcome):
        return spans
    return spans[0] if len(spans) == 1 else Outcome.IGNORE


def position(span: Span | None, length: int) -> Fields:
    """Content-Range of a 206, or of a 416."""
    return ((b"Content-Range", ranges.content_range(span, length)),)


def _take(kept: Kept, content: bytes | None, span: Span | None) -> Piece:
    first, length = (span.first, span.length) if span is not None else (0, kept.size)
    if content is not None:
        return content if span is None else content[first : first + length]
    assert kept.file is not None
    return FileSlice(kept.file.acquire(), kept.offset + first, length)


def _dates(made: StoredResponse | Answer, asked: Headers) -> tuple[int | None, int]:
    """Last-Modified, if it is known, and Date."""
    if isinstance(made, StoredResponse):
        return _modified(made, asked), made.date
    return made.date_in(b"last-modified"), made.date()


def _modified(entry: StoredResponse, asked: Headers) -> int | None:
    """Last-Modified, in seconds; for If-Modified-Since alone Date may stand in for it.

    RFC 9111 §4.3.2 wants that of caches. Other conditions have no use for it: it is no
    validator.
    """
    if entry.last_modified is not None:
        return parse_date(entry.last_modified, entry.date)
    if b"if-unmodified-since" in asked or b"if-range" in asked:
        return None
    return entry.date


def _first(fields: Fields, name: bytes) -> bytes | None:
    return next((value for given, value in fields if given.lower() == name), None)


def _without_own(fields: Fields) -> tuple[Field, ...]:
    return tuple(field for field in fields if field[0].lower() not in _OWN)
