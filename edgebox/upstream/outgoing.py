"""A request to forward, and its head as octets.

Whoever makes one has cleaned its fields: they go out as they are. How the body ends and
what becomes of the connection is written here, and nobody else may say it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable

from msgspec import Struct

from edgebox.http.headers import Fields

# RFC 9110 §9.2.2. To send one of these twice is no different from sending it once.
IDEMPOTENT = frozenset({b"GET", b"HEAD", b"OPTIONS", b"TRACE", b"PUT", b"DELETE"})
# A length is told for these even if there is no body (RFC 9110 §8.6).
_BODY_EXPECTED = frozenset({b"POST", b"PUT", b"PATCH"})
_OURS = frozenset({b"content-length", b"transfer-encoding", b"connection", b"upgrade"})

OnInterim = Callable[[int, Fields], Awaitable[None]]


class Outgoing(Struct, frozen=True):
    """What is asked of an app server.

    `target` is as it shall be sent; `fields` have Host and none of Content-Length,
    Transfer-Encoding, Connection and Upgrade. `body`: octets can be sent again, an iterator
    is read once, by a task of this room, and closed; with `length` None it goes out chunked.
    `upgrade`: the protocol to switch to. `on_interim` gets 1xx responses other than 100.
    """

    method: bytes
    target: bytes
    fields: Fields
    body: bytes | AsyncIterator[bytes] | None = None
    length: int | None = None
    upgrade: bytes = b""
    on_interim: OnInterim | None = None

    @property
    def chunked(self) -> bool:
        return self.length is None and not isinstance(self.body, bytes | None)


def render_head(outgoing: Outgoing, close: bool) -> bytes:
    """The head of an HTTP/1.1 request; `close` asks for the connection to end with it.

    ValueError where fields would frame the message anew, or end the head early.
    """
    lines = [b"%b %b HTTP/1.1\r\n" % (outgoing.method, outgoing.target)]
    for field in outgoing.fields:
        if field[0].lower() in _OURS:
            raise ValueError(f"{field[0]!r} is not the caller's to set")
        lines.append(b"%b: %b\r\n" % field)
    match outgoing.body:
        case None:
            if outgoing.method in _BODY_EXPECTED:
                lines.append(b"Content-Length: 0\r\n")
        case bytes() as octets:
            lines.append(b"Content-Length: %d\r\n" % len(octets))
        case _ if outgoing.length is not None:
            lines.append(b"Content-Length: %d\r\n" % outgoing.length)
        case _:
            lines.append(b"Transfer-Encoding: chunked\r\n")
    if outgoing.upgrade:
        lines.append(b"Connection: upgrade\r\nUpgrade: %b\r\n" % outgoing.upgrade)
    elif close:
        lines.append(b"Connection: close\r\n")
    lines.append(b"\r\n")
    head = b"".join(lines)
    # Each line end is one of ours, or somebody has split the request in two.
    expected = len(lines) + bool(outgoing.upgrade)
    if head.count(b"\n") != expected or head.count(b"\r") != expected:
        raise ValueError("a line end within a request line or field")
    return head
