"""From a whole representation, at hand, to what one request gets of it: 200, 206, 304 or 412.

A file and a stored answer of an app server come through here alike. Preconditions are
evaluated before ranges (RFC 9110 §13.2.1), and both only where the answer would be a 200.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from edgebox.http import conditions, ranges
from edgebox.http.conditions import Verdict
from edgebox.http.headers import Fields
from edgebox.http.message import Body, Piece, Request, Response
from edgebox.http.mime import OCTET_STREAM
from edgebox.http.ranges import Outcome, Span


class Representation(Struct, frozen=True):
    """Something with validators, of which parts can be taken.

    `kind` is its Content-Type, if it has one; `fields` go on 200, 206 and 304 alike
    (RFC 9110 §15.4.5). `modified` is Last-Modified in seconds. `take(span)` gives octets
    or a slice of a file, all of it for None. `remember` as in Response.
    """

    kind: bytes | None
    fields: Fields
    etag: bytes | None
    modified: int | None
    size: int
    take: Callable[[Span | None], Piece]
    remember: bool


def represent(request: Request, whole: Representation, now: int) -> Response:
    """The answer to a GET or HEAD of `whole`; what a 412 or 416 says of itself is the caller's."""
    verdict = conditions.evaluate(request.method, request.headers, whole.etag, whole.modified, now)
    if verdict is Verdict.NOT_MODIFIED:
        return Response(304, whole.fields, remember=whole.remember)
    if verdict is Verdict.FAILED:
        return Response(412, remember=whole.remember)
    kind = ((b"Content-Type", whole.kind),) if whole.kind is not None else ()
    fields = (*kind, *whole.fields, (b"Accept-Ranges", b"bytes"))
    wanted = request.headers.get(b"range") if request.method == b"GET" else None
    if wanted is not None and _range_counts(request, whole, now):
        spans = ranges.resolve(wanted, whole.size)
        if spans is Outcome.UNSATISFIABLE:
            position = (b"Content-Range", ranges.content_range(None, whole.size))
            return Response(416, (position, *whole.fields), remember=whole.remember)
        if not isinstance(spans, Outcome):
            return _partial(whole, spans, kind, wanted)
    return Response(200, fields, whole.take(None), remember=whole.remember)


def _range_counts(request: Request, whole: Representation, now: int) -> bool:
    condition = request.headers.get(b"if-range")
    return condition is None or conditions.if_range_holds(
        condition, whole.etag, whole.modified, now
    )


def _partial(
    whole: Representation, spans: tuple[Span, ...], kind: Fields, wanted: bytes
) -> Response:
    fields = (*whole.fields, (b"Accept-Ranges", b"bytes"))
    if len(spans) == 1:
        position = (b"Content-Range", ranges.content_range(spans[0], whole.size))
        one = whole.take(spans[0])
        return Response(206, (*kind, *fields, position), one, remember=whole.remember)
    boundary = ranges.boundary_for(whole.etag or b"", wanted)
    parts = ranges.multipart(spans, whole.size, whole.kind or OCTET_STREAM, boundary)
    pieces = tuple(part if isinstance(part, bytes) else whole.take(part) for part in parts)
    fields = ((b"Content-Type", b"multipart/byteranges; boundary=" + boundary), *fields)
    octets = [piece for piece in pieces if isinstance(piece, bytes)]
    # All in RAM: one piece.
    body: Body = b"".join(octets) if len(octets) == len(pieces) else pieces
    return Response(206, fields, body, remember=whole.remember)
