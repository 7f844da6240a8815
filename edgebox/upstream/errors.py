"""Every way in which an app server can fail a request, each with its status and culprit.

502: it answered wrongly or not at all. 503: nobody was there to ask. 504: it took too
long (RFC 9110 §15.6). What a server said wrong is told apart by `Malformed`, for the log.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from edgebox.http.faults import Whose


class _Why(NamedTuple):
    status: int
    text: str
    whose: Whose = Whose.UPSTREAM
    counts: bool = True


class Reason(Enum):
    """Why there is no (whole) answer; `.value` is (status, text, whose, counts)."""

    # before a connection
    NO_SERVER = _Why(503, "no server is up", counts=False)
    QUEUE_FULL = _Why(503, "every connection is in use, and so is the queue", counts=False)
    QUEUE_TIMEOUT = _Why(503, "no connection became free in time", counts=False)
    NO_DESCRIPTORS = _Why(503, "no descriptor or port is left", Whose.US, counts=False)
    CONNECT_FAILED = _Why(502, "cannot connect")
    CONNECT_TIMEOUT = _Why(504, "did not take the connection in time")
    TLS_FAILED = _Why(502, "TLS handshake failed")
    # between the request and the answer's head
    REQUEST_BODY = _Why(400, "the request's body ended early", Whose.CLIENT, counts=False)
    SEND_TIMEOUT = _Why(504, "stopped reading the request")
    RESET = _Why(502, "closed the connection before it answered")
    HEAD_TIMEOUT = _Why(504, "did not answer in time")
    BAD_RESPONSE = _Why(502, "answered what is not HTTP/1.1")
    # after the head: too late for a status
    TRUNCATED = _Why(502, "closed the connection in the middle of its answer")
    BODY_TIMEOUT = _Why(504, "stopped sending in the middle of its answer")

    @property
    def status(self) -> int:
        return self.value.status

    @property
    def text(self) -> str:
        return self.value.text

    @property
    def whose(self) -> Whose:
        return self.value.whose

    @property
    def counts(self) -> bool:
        """Whether it speaks against the server that was asked."""
        return self.value.counts


class Malformed(Enum):
    """What is wrong with an answer; `.value` is told to the operator."""

    HEAD = "not the head of an HTTP/1 response (RFC 9112 §4)"
    VERSION = "neither HTTP/1.0 nor HTTP/1.1 (RFC 9112 §2.3)"
    STATUS = "a status outside 100 to 599 (RFC 9110 §15)"
    TOO_LARGE = "the head is larger than head_size"
    TOO_MANY_FIELDS = "too many header fields"
    LENGTH = "Content-Length is not one number (RFC 9112 §6.3)"
    LENGTH_AND_CODING = "Content-Length with Transfer-Encoding (RFC 9112 §6.3)"
    CODING = "a transfer coding other than chunked (RFC 9112 §6.1)"
    CODING_ON_1_0 = "Transfer-Encoding in HTTP/1.0 (RFC 9112 §6.1)"
    CHUNK = "chunked framing malformed (RFC 9112 §7.1)"
    TRAILERS = "trailer section malformed or too large (RFC 9112 §7.1.2)"
    SWITCHED = "101, which nobody asked for (RFC 9110 §15.2.2)"
    INTERIM_FLOOD = "interim responses without end (RFC 9110 §15.2)"


class UpstreamError(Exception):
    """A request that was not answered.

    `server` is its URL, "" where none was chosen; `detail` is for the log. `unsent`: not an
    octet of the request left. `unanswered`: not an octet of an answer came. `resendable`: the
    body was not begun, or can be sent again.
    """

    def __init__(
        self,
        reason: Reason,
        detail: str = "",
        *,
        unsent: bool = False,
        unanswered: bool = False,
        resendable: bool = False,
    ) -> None:
        super().__init__(reason, detail)
        self.reason = reason
        self.detail = detail
        self.unsent = unsent
        self.unanswered = unanswered
        self.resendable = resendable
        self.server = ""

    @property
    def status(self) -> int:
        return self.reason.status

    def __str__(self) -> str:
        return ": ".join(filter(None, (self.server, self.reason.text, self.detail)))


class Truncated(UpstreamError):
    """The head came, the whole body did not: what came must not pass for complete."""
