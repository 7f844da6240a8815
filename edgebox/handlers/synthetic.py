"""Answers that edgebox makes up: errors, redirects, OPTIONS. Pure."""

from __future__ import annotations

from html import escape

from edgebox.http.faults import Fault
from edgebox.http.headers import Fields
from edgebox.http.message import Response
from edgebox.http.phrases import PHRASES

ALLOW = (b"Allow", b"GET, HEAD, OPTIONS")
HTML = (b"Content-Type", b"text/html; charset=utf-8")

_PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<meta name="color-scheme" content="light dark"><title>{status} {reason}</title>
<style>body{{font:1.1rem/1.5 system-ui,sans-serif;max-width:34rem;margin:18vh auto;padding:0 1rem}}
h1{{font-weight:600}}p{{opacity:.75}}</style>
<h1>{status} {reason}</h1>
<p>{text}</p>
</html>
"""

_TEXTS = {
    403: "This file may not be read by the server.",
    404: "There is nothing here under this name.",
    405: "This resource is read, not written to.",
    412: "A precondition of the request does not hold.",
    416: "The range asked for lies beyond the end.",
    500: "The server could not read this file. The fault is on our side.",
    503: "The server has no room for this request just now. Please try again.",
}


def error(status: int, text: str = "", extra: Fields = (), *, close: bool = False) -> Response:
    """A small page that says `status`, for a person."""
    reason = PHRASES[status]
    page = _PAGE.format(status=status, reason=reason, text=escape(text or _TEXTS.get(status, "")))
    return Response(status, (HTML, *extra), page.encode(), remember=status < 500, close=close)


def refusal(fault: Fault) -> Response:
    """The answer to a request that was refused before any handler saw it."""
    extra: Fields = ()
    if fault.status == 405:
        extra = (ALLOW,)
    elif fault.status == 503:
        extra = ((b"Retry-After", b"1"),)
    text = f"The request was refused: {fault.text}."
    return error(fault.status, text, extra, close=fault.close)


def redirect(location: bytes, status: int = 301) -> Response:
    """`location` must be a reference that is safe in a field: no control octets."""
    page = b'<!doctype html><title>Moved</title><p><a href="%s">Moved</a>' % escape(
        location.decode("latin-1")
    ).encode("latin-1")
    return Response(status, (HTML, (b"Location", location)), page, remember=True)


def options() -> Response:
    """What may be done here (RFC 9110 §9.3.7)."""
    return Response(204, (ALLOW,), remember=True)
