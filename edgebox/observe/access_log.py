"""Access log lines, combined or JSON, in three pieces.

A line is the client's address, then what belongs to the answer, then what belongs to
the header block (Referer, User-Agent). The express lane keeps the second with the
answer and the third with the head, so that logging costs it three list appends
(0.3 µs a request, 2026-11-30, on the machine of perf/RESULTS.md).
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from typing import Protocol

import msgspec

_UNSAFE = re.compile(rb"[^\x20\x21\x23-\x5b\x5d-\x7e]")


class Format(Protocol):
    """How a line is written, in pieces that are joined without anything between."""

    def client(self, peer: bytes) -> bytes:
        """The piece that names the client; kept on the connection."""
        ...

    def answer(self, line: bytes, status: int, size: int, stamp: LogStamp) -> bytes:
        """The piece of one answer: request line, status, body octets sent."""
        ...

    def agent(self, referer: bytes, user_agent: bytes) -> bytes:
        """The piece of a header block, with the end of the line."""
        ...


@dataclass(frozen=True, slots=True)
class LogStamp:
    """One second as each format writes it."""

    combined: bytes
    iso: bytes


def stamp_of(now: int) -> LogStamp:
    """The stamp of wall second `now`, in the machine's time zone."""
    local = time.localtime(now)
    return LogStamp(
        time.strftime("%d/%b/%Y:%H:%M:%S %z", local).encode(),
        time.strftime("%Y-%m-%dT%H:%M:%S%z", local).encode(),
    )


def _escape(value: bytes) -> bytes:
    """Octets that could end the quotes, the line or the reader's patience, as \\xNN."""
    if _UNSAFE.search(value) is None:
        return value
    return _UNSAFE.sub(lambda m: b"\\x%02X" % m[0][0], value)


class Combined:
    """The NCSA combined format, which every log reader knows."""

    def client(self, peer: bytes) -> bytes:
        return peer

    def answer(self, line: bytes, status: int, size: int, stamp: LogStamp) -> bytes:
        return b' - - [%s] "%s" %d %d "' % (stamp.combined, _escape(line), status, size)

    def agent(self, referer: bytes, user_agent: bytes) -> bytes:
        return b'%s" "%s"\n' % (_escape(referer) or b"-", _escape(user_agent) or b"-")


class Json:
    """One JSON object a line."""

    def client(self, peer: bytes) -> bytes:
        return b'{"client":%s' % _quote(peer)

    def answer(self, line: bytes, status: int, size: int, stamp: LogStamp) -> bytes:
        return b',"time":"%s","request":%s,"status":%d,"bytes":%d' % (
            stamp.iso, _quote(line), status, size,
        )  # fmt: skip

    def agent(self, referer: bytes, user_agent: bytes) -> bytes:
        return b',"referer":%s,"user_agent":%s}\n' % (_quote(referer), _quote(user_agent))


def _quote(value: bytes) -> bytes:
    return msgspec.json.encode(value.decode("latin-1"))


FORMATS: dict[str, type[Combined | Json]] = {"combined": Combined, "json": Json}
