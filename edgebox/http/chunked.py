"""The gate before h11 for chunked request bodies: where does the body end?

h11 0.16 takes any octet but LF in chunk extensions, 20-digit sizes and blanks after
them, and has no bound on framing that carries no data. This reader walks the same
octets, refuses all of that, and tells how far the body goes, so that what follows
belongs to the next request for both (RFC 9112 §7.1). It keeps no data: the payload is
h11's to extract. Trailers are checked, counted and forgotten; none ever reaches a header
section (RFC 9110 §6.5.1), whatever its name.

Octets may come in any portions; that never changes a verdict.
"""

from __future__ import annotations

import re
from enum import Enum

from edgebox.http.faults import Fault
from edgebox.http.gate import FIELD_LINE

LINE_SIZE = 4096  # of a chunk-size line with its extensions; Go's net/http has the same
OVERHEAD = 16 * 1024  # octets by which framing may outweigh the data it carries
TRAILER_SIZE = 8 * 1024
TRAILER_FIELDS = 32

_SIZE_LINE = re.compile(rb"([0-9A-Fa-f]{1,16}+)(?:;[\t\x20-\x7e\x80-\xff]*+)?\r\n")
_TRAILER_LINE = re.compile(FIELD_LINE)
_SIZE_END = 2**63


class _Await(Enum):
    """What the next octets must be."""

    SIZE = "a chunk-size line"
    DATA = "chunk data"
    DATA_END = "the CRLF after chunk data"
    TRAILER = "a trailer line or the last empty line"
    NOTHING = "nothing: the body is over"


class ChunkGate:
    """Follows one chunked body.

    `done`: the body's last octet was seen. `consumed`: octets of all that was fed which
    belong to the body; once done, what was fed beyond belongs to the next request.
    `announced`: data octets that the chunk sizes so far promise, for a body limit.
    After a fault only the fault has a meaning.
    """

    __slots__ = (
        "_await",
        "_fault",
        "_framing",
        "_left",
        "_line",
        "_trailer_fields",
        "_trailer_size",
        "announced",
        "consumed",
    )

    def __init__(self) -> None:
        self._await = _Await.SIZE
        self._fault: Fault | None = None
        self._line = bytearray()  # the part of a line that has come
        self._left = 0  # data octets of the current chunk yet to come
        self._framing = 0
        self._trailer_size = 0
        self._trailer_fields = 0
        self.announced = 0
        self.consumed = 0

    @property
    def done(self) -> bool:
        return self._await is _Await.NOTHING

    def feed(self, data: bytes) -> Fault | None:
        """Follow the next octets; a fault, once returned, is returned for ever.

        CHUNK: malformed size, extension or line end. CHUNK_OVERHEAD: framing that
        outweighs the data. TRAILERS: a malformed, long or crowded trailer section.
        """
        position = 0
        while position < len(data) and self._fault is None and not self.done:
            if self._await is _Await.DATA:
                taken = min(self._left, len(data) - position)
                self._left -= taken
                if self._left == 0:
                    self._await = _Await.DATA_END
            else:
                end = data.find(b"\n", position) + 1 or len(data)
                taken = end - position
                self._fault = self._extend_line(data[position:end])
            position += taken
        self.consumed += position
        return self._fault

    def _extend_line(self, piece: bytes) -> Fault | None:
        self._line += piece
        match self._await:
            case _Await.SIZE if len(self._line) > LINE_SIZE:
                return Fault.CHUNK_OVERHEAD
            case _Await.DATA_END if not b"\r\n".startswith(self._line):
                return Fault.CHUNK
            case _Await.TRAILER if self._trailer_size + len(self._line) > TRAILER_SIZE:
                return Fault.TRAILERS
        if not piece.endswith(b"\n"):
            return None
        line = bytes(self._line)
        self._line.clear()
        match self._await:
            case _Await.SIZE:
                return self._start_chunk(line)
            case _Await.DATA_END:
                self._await = _Await.SIZE
                return None
            case _:
                return self._take_trailer(line)

    def _start_chunk(self, line: bytes) -> Fault | None:
        parts = _SIZE_LINE.fullmatch(line)
        size = int(parts[1], 16) if parts else _SIZE_END
        if size >= _SIZE_END:
            return Fault.CHUNK
        self.announced += size
        self._left = size
        self._framing += len(line) + 2  # the CRLF after the data, too
        if self._framing > OVERHEAD + self.announced:
            return Fault.CHUNK_OVERHEAD
        self._await = _Await.DATA if size else _Await.TRAILER
        return None

    def _take_trailer(self, line: bytes) -> Fault | None:
        if line == b"\r\n":
            self._await = _Await.NOTHING
            return None
        self._trailer_size += len(line)
        self._trailer_fields += 1
        if self._trailer_fields > TRAILER_FIELDS or _TRAILER_LINE.fullmatch(line) is None:
            return Fault.TRAILERS
        return None
