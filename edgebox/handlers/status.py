"""The status page, its data and the metrics: what is answered at the status address.

Reads the shared pages, never the worker that it happens to run in, so any worker can answer
for the whole box. One look a second serves all who watch.

    GET /            the page
    GET /?events     what it shows, each second, as server-sent events
    GET /?json       the same, once
    GET /?auto       lighttpd's mod_status, for scripts that read it
    GET /metrics     OpenMetrics, or the older text form where only that is accepted
"""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator

import msgspec
import trio

from edgebox.config.schema import Status
from edgebox.epoch import Moment
from edgebox.handlers import synthetic
from edgebox.handlers.exchange import Exchange
from edgebox.handlers.forward import contains, parse_networks
from edgebox.http.headers import Field, Fields
from edgebox.http.message import Request, Response, Stream
from edgebox.observe.metrics import OPEN_METRICS, PLAIN, render
from edgebox.observe.pages import Pages
from edgebox.observe.status import snapshot
from edgebox.observe.status.auto import auto
from edgebox.observe.status.history import History
from edgebox.observe.status.page import page

_UNSTORED: Field = (b"Cache-Control", b"no-store")
# The page is all in one piece and asks nobody but us.
_POLICY: Fields = (
    (
        b"Content-Security-Policy",
        b"default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
        b"img-src data:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
        b"frame-ancestors 'none'",
    ),
    (b"X-Content-Type-Options", b"nosniff"),
    (b"Referrer-Policy", b"no-referrer"),
)


class StatusHandler:
    """Answers at the status address; `turn` once a second, when all workers have published."""

    def __init__(self, pages: Pages, config: Status, moment: Moment) -> None:
        self._pages = pages
        self._path, self._metrics = config.path.encode(), config.metrics.encode()
        self._networks = parse_networks(config.allow)
        self._page = page(config.metrics)
        self._history = History()
        self._snapshot: snapshot.Snapshot | None = None
        self._json = b""
        self._turned = trio.Event()
        self._ended = False
        self.turn(moment)

    def turn(self, moment: Moment) -> None:
        """A new second has begun: whoever watches is told of it."""
        self._moment = moment
        self._history.add(moment.steady, self._pages.totals())
        self._snapshot = None
        self._turned.set()
        self._turned = trio.Event()

    def end(self) -> None:
        """Let go of those who watch: their browsers come back, to another worker."""
        self._ended = True
        self._turned.set()

    async def answer(self, exchange: Exchange) -> Response:
        """The answer, where it is for this client. Raises BodyRefused."""
        request = exchange.request
        if not contains(self._networks, exchange.peer):
            return synthetic.error(403, "This page is not shown to you.", close=True)
        if await exchange.body.discard(0) is not None:
            return synthetic.error(413, close=True)
        if request.method not in (b"GET", b"HEAD"):
            return synthetic.error(405, extra=((b"Allow", b"GET, HEAD"),))
        if request.target.path == self._metrics:
            return self._tell_metrics(request)
        if request.target.path == self._path:
            return self._tell(request)
        if request.target.path == b"/":
            return synthetic.redirect(self._path, 302)
        return synthetic.error(404)

    def _tell(self, request: Request) -> Response:
        match request.target.query:
            case b"json":
                return _told(b"application/json", self._encoded() + b"\n")
            case b"auto":
                return _told(b"text/plain; charset=utf-8", auto(self._look()))
            case b"events":
                events = self._events() if request.method == b"GET" else None
                kind = b"text/event-stream"
                return _told(kind, Stream(events, None, events.aclose) if events else b"")
        fields = ((b"Content-Type", b"text/html; charset=utf-8"), _UNSTORED, *_POLICY)
        return Response(200, fields, self._page)

    def _tell_metrics(self, request: Request) -> Response:
        accepted = b",".join(request.headers.all(b"accept"))
        openly = b"openmetrics" in accepted or b"text/plain" not in accepted
        # Looked at anew: another worker that was asked before may have looked later than we had,
        # and a counter never goes back.
        look = snapshot.take(self._pages, self._history, self._moment.wall, os.uname().nodename)
        text = render(look, self._pages.totals().histograms, openly=openly)
        return _told(OPEN_METRICS if openly else PLAIN, text)

    async def _events(self) -> AsyncGenerator[bytes, None]:
        yield b"retry: 1000\n\n"
        while not self._ended:
            yield b"data: %s\n\n" % self._encoded()
            await self._turned.wait()

    def _look(self) -> snapshot.Snapshot:
        if self._snapshot is None:
            now, host = self._moment.wall, os.uname().nodename
            self._snapshot = snapshot.take(self._pages, self._history, now, host)
            self._json = msgspec.json.encode(self._snapshot)
        return self._snapshot

    def _encoded(self) -> bytes:
        self._look()
        return self._json

    def statistics(self) -> dict[str, int]:
        return self._history.statistics()


def _told(kind: bytes, body: bytes | Stream) -> Response:
    fields = ((b"Content-Type", kind), _UNSTORED, (b"X-Content-Type-Options", b"nosniff"))
    return Response(200, fields, body)
