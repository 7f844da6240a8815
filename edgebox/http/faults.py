"""Every way in which a request can be refused before a handler sees it.

A fault names its status, whether the connection must end, whose fault it was, and
the RFC section that says so. Functions return a Fault as a value; nothing is raised.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class Whose(Enum):
    """Who erred: tells an operator where to look."""

    CLIENT = "client"
    UPSTREAM = "upstream"
    US = "us"


class _Fault(NamedTuple):
    status: int
    text: str
    source: str
    close: bool = True
    whose: Whose = Whose.CLIENT


class Fault(Enum):
    """Refusals; `.value` is (status, text, source, close, whose)."""

    # framing of the head
    NOT_HTTP = _Fault(400, "not an HTTP request line", "RFC 9112 §3")
    VERSION = _Fault(505, "HTTP version not supported", "RFC 9110 §15.6.6")
    BARE_LF = _Fault(400, "line ends in LF without CR", "RFC 9112 §2.2")
    BARE_CR = _Fault(400, "CR inside a line", "RFC 9112 §2.2")
    CONTROL = _Fault(400, "control character in the head", "RFC 9110 §5.5")
    OBS_FOLD = _Fault(400, "folded header line", "RFC 9112 §5.2")
    FIELD_NAME = _Fault(400, "header name is not a token", "RFC 9112 §5.1")
    HEAD_TOO_LARGE = _Fault(431, "request head too large", "RFC 6585 §5")
    TOO_MANY_FIELDS = _Fault(431, "too many header fields", "RFC 6585 §5")
    TARGET_TOO_LONG = _Fault(414, "request target too long", "RFC 9110 §15.5.15")
    # framing of the body
    LENGTH_AND_CODING = _Fault(400, "Content-Length with Transfer-Encoding", "RFC 9112 §6.1")
    CODING_ON_1_0 = _Fault(400, "Transfer-Encoding in HTTP/1.0", "RFC 9112 §6.1")
    CODING_UNKNOWN = _Fault(501, "transfer coding not implemented", "RFC 9112 §6.1")
    CODING_BAD = _Fault(400, "Transfer-Encoding malformed or repeated", "RFC 9112 §6.1")
    LENGTH = _Fault(400, "Content-Length is not one decimal number", "RFC 9112 §6.3")
    CHUNK = _Fault(400, "chunked framing malformed", "RFC 9112 §7.1")
    CHUNK_OVERHEAD = _Fault(400, "chunked framing outweighs its data", "RFC 9112 §7.1.1")
    TRAILERS = _Fault(400, "trailer section too large or malformed", "RFC 9110 §6.5")
    EXPECTATION = _Fault(417, "expectation not supported", "RFC 9110 §10.1.1")
    # who is asked, and for what
    HOST = _Fault(400, "Host missing, repeated or malformed", "RFC 9112 §3.2")
    TARGET = _Fault(400, "request target malformed", "RFC 9112 §3.2")
    PATH = _Fault(400, "path leaves the root or holds forbidden octets", "RFC 3986 §5.2.4")
    METHOD_UNKNOWN = _Fault(501, "method not implemented", "RFC 9110 §9.1", close=False)
    METHOD_CONNECT = _Fault(405, "CONNECT is not served here", "RFC 9110 §9.3.6")
    # time and room
    HEAD_TIMEOUT = _Fault(408, "the head took too long", "RFC 9110 §15.5.9")
    BODY_TIMEOUT = _Fault(408, "the body came too slowly", "RFC 9110 §15.5.9")
    BODY_TOO_LARGE = _Fault(413, "request body too large", "RFC 9110 §15.5.14")
    BUSY = _Fault(503, "connection limit reached", "RFC 9110 §15.6.4", whose=Whose.US)
    INTERNAL = _Fault(500, "internal error", "RFC 9110 §15.6.1", whose=Whose.US)

    @property
    def status(self) -> int:
        return self.value.status

    @property
    def text(self) -> str:
        return self.value.text

    @property
    def close(self) -> bool:
        return self.value.close

    @property
    def whose(self) -> Whose:
        return self.value.whose
