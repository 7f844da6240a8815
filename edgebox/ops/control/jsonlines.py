"""JSON lines: how processes and operators' tools speak with each other here. Pure.

A message is one JSON object on one line. What a peer sends may be cut anywhere, be longer
than it may, or be no JSON at all; each has a name here, and none is an exception that could
end a process which has other peers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

Message = dict[str, Any]

_decoder = msgspec.json.Decoder(dict[str, Any])


class BadLine(ValueError):
    """A line that is no message; the text is for whoever sent it."""


class LineTooLong(ValueError):
    """A line beyond the limit: where the next one begins is not known."""


class LineReader:
    """Puts lines together from octets as they come; at most `limit` octets a line."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._begun = bytearray()

    def feed(self, octets: bytes) -> Iterator[bytes]:
        """The lines that `octets` complete, without their ends. Raises LineTooLong after them."""
        *ends, rest = octets.split(b"\n")
        for end in ends:
            self._extend(end)
            yield self.last()
        self._extend(rest)

    def last(self) -> bytes:
        """What came after the last end of a line: a message, if the peer is done with it."""
        line = bytes(self._begun)
        self._begun.clear()
        return line

    def _extend(self, octets: bytes) -> None:
        self._begun += octets
        if len(self._begun) > self._limit:
            self._begun.clear()
            raise LineTooLong(f"a line may have {self._limit} octets")


def decode(line: bytes) -> Message:
    """The message on a line. Raises BadLine."""
    try:
        return _decoder.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as problem:
        raise BadLine(f"not one JSON object on a line: {problem}") from problem


def encode(message: Mapping[str, object]) -> bytes:
    """The line of a message, with its end. What JSON cannot say is a bug: TypeError."""
    return msgspec.json.encode(message) + b"\n"


def refusal(why: str) -> Message:
    """The answer to what cannot be done."""
    return {"ok": False, "error": why}
