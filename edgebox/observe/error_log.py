"""The error log: one line an event, with a time, a level and whose fault it was."""

from __future__ import annotations

import time

from edgebox.observe.sink import Sink

LEVELS: dict[str, int] = {"debug": 0, "info": 1, "warning": 2, "error": 3}


class ErrorLog:
    """Writes lines at or above `level` into a sink."""

    def __init__(self, sink: Sink, level: str) -> None:
        self._sink = sink
        self._least = LEVELS[level]

    def __call__(self, level: str, text: str) -> None:
        """Log `text`; newlines in it are folded, so that one event is one line."""
        if LEVELS[level] < self._least or not self._sink.enabled:
            return
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S%z")
        line = f"{stamp} {level}: {' | '.join(text.splitlines())}\n"
        self._sink.add(line.encode("utf-8", "backslashreplace"))
