"""Writes down each answer: the access log's line, and what went wrong in the error log."""

from __future__ import annotations

import re
import traceback
from enum import Enum

from edgebox.observe.access_log import Combined, Json, stamp_of
from edgebox.observe.error_log import ErrorLog
from edgebox.observe.sink import Sink

_AGENT = re.compile(rb"(?i)\r\n(referer|user-agent):[ \t]*([^\r\n]*?)[ \t]*(?=\r\n)")


class Recorder:
    """Access lines for the task path; the express lane writes its own to the same sink."""

    def __init__(self, sink: Sink, form: Combined | Json, errors: ErrorLog) -> None:
        self.sink = sink
        self.form = form
        self.errors = errors
        self.stamp = stamp_of(0)

    def turn(self, now: int) -> None:
        """A new second has begun."""
        self.stamp = stamp_of(now)
        self.sink.flush()

    def record(self, log_peer: bytes, head: bytes, status: int, size: int) -> None:
        """One answer went out: `size` octets of body for the request in `head`."""
        if not self.sink.enabled:
            return
        line = head[: head.find(b"\r\n")] if b"\r\n" in head else head[:1024]
        agent = {name.lower(): value for name, value in _AGENT.findall(head)}
        self.sink.add(log_peer)
        self.sink.add(self.form.answer(line, status, size, self.stamp))
        self.sink.add(self.form.agent(agent.get(b"referer", b""), agent.get(b"user-agent", b"")))

    def cut(self, peer: bytes, head: bytes, why: Enum, more: str = "") -> None:
        """An answer was cut off. A client that left is no news; the rest is."""
        level = "info" if why.name in ("GONE", "SLOW") else "error"
        line = head.split(b"\r\n", 1)[0].decode("latin-1")
        self.errors(level, f'{peer.decode()}: "{line}" cut off: {more or why.value}')

    def bug(self, peer: bytes, problem: Exception) -> None:
        """Something of ours broke: the connection gets a 500 or an end, the log the trace."""
        trace = "".join(traceback.format_exception(problem))
        self.errors("error", f"{peer.decode()}: internal error: {trace}")
