"""Writes down each answer: the access log's line, and what went wrong in the error log.

Which answers the log has is decided here: all, those that a query means, or one in so many.
Whoever taps the recorder hears of every one, log or no log.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from enum import Enum

from edgebox.observe.access_log import Entry, Format, as_record, split_head, stamp_of
from edgebox.observe.error_log import ErrorLog, tell_lost
from edgebox.observe.query import Query
from edgebox.observe.sink import Sink

Tap = Callable[[dict[str, object]], None]


class Recorder:
    """Access lines of the task path; the express lane writes its own to the same sink.

    With `in_pieces` the lane adds the three pieces of a line to the sink by itself; with
    `wants_entries` it calls `record` as tasks do. With neither, nobody cares.
    """

    def __init__(
        self,
        sink: Sink,
        form: Format,
        errors: ErrorLog,
        only: Query | None = None,
        sample: int = 1,
    ) -> None:
        """`only`: which answers are logged; `sample`: of those below 400, one in so many."""
        self.sink = sink
        self.form = form
        self.errors = errors
        self._only = only
        self._sample = sample
        self._passed_over = 0
        self._taps: list[Tap] = []
        self._on_change: list[Callable[[], None]] = []
        self._now = 0
        self._lost = 0
        self.stamp = stamp_of(0)

    @property
    def in_pieces(self) -> bool:
        whole = self._only is not None or self._sample > 1 or bool(self._taps)
        return self.sink.enabled and self.form.in_pieces and not whole

    @property
    def wants_entries(self) -> bool:
        return (self.sink.enabled or bool(self._taps)) and not self.in_pieces

    def on_change(self, call: Callable[[], None]) -> None:
        """Have `call` run whenever `in_pieces` or `wants_entries` may have changed."""
        self._on_change.append(call)

    def tap(self, call: Tap) -> Callable[[], None]:
        """Have `call` get every answer as `as_record` has it; returns what ends that.

        `call` must neither wait nor raise: it runs between two clients.
        """
        self._taps.append(call)
        self._tell_change()

        def untap() -> None:
            if call in self._taps:
                self._taps.remove(call)
                self._tell_change()

        return untap

    def turn(self, now: int) -> None:
        """A new second has begun."""
        self._now = now
        self.stamp = stamp_of(now)
        self.sink.flush()
        if lost := tell_lost(self.sink, self._lost):
            self._lost = self.sink.dropped
            self.errors("warning", lost)
        self.errors.turn()

    def record(self, entry: Entry) -> None:
        """One answer went out."""
        if self._taps or self._only is not None:
            told = as_record(entry, self._now)
            for tap in tuple(self._taps):
                tap(told)
            if self._only is not None and not self._only(told):
                return
        if self.sink.enabled and not self._skips(entry.status):
            self.sink.add(self.form.line(entry, self.stamp))

    def cut(self, peer: bytes, head: bytes, why: Enum, more: str = "") -> None:
        """An answer was cut off. A client that left is no news; the rest is."""
        level = "info" if why.name in ("GONE", "SLOW") else "error"
        line = split_head(head)[0].decode("latin-1")
        self.errors(level, f'{peer.decode()}: "{line}" cut off: {more or why.value}')

    def bug(self, peer: bytes, problem: Exception) -> None:
        """Something of ours broke: the connection gets a 500 or an end, the log the trace."""
        trace = "".join(traceback.format_exception(problem))
        self.errors("error", f"{peer.decode()}: internal error: {trace}")

    def statistics(self) -> dict[str, int]:
        """The sink's, and how many `tap` it."""
        return self.sink.statistics() | {"taps": len(self._taps)}

    def _skips(self, status: int) -> bool:
        """Whether this one is among those that the sample leaves out."""
        if self._sample == 1 or status >= 400:
            return False
        self._passed_over = (self._passed_over + 1) % self._sample
        return self._passed_over != 1

    def _tell_change(self) -> None:
        for call in self._on_change:
            call()
