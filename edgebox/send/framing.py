"""From a response to the head of an HTTP/1 message: one rendering of it.

Pure. Decides how the body is delimited (RFC 9112 §6) and whether the connection goes
on (§9.3), and writes the head in one go. The lane and the tasks both come through
here, which is why their answers are equal octet for octet.
"""

from __future__ import annotations

from msgspec import Struct

from edgebox.http.message import Response, body_length
from edgebox.http.phrases import PHRASES

STATUS_LINES = {
    n: b"HTTP/1.1 %d %s\r\n" % (n, PHRASES.get(n, "").encode()) for n in range(100, 600)
}


class Wire(Struct, frozen=True):
    """A rendered head and how its body goes out.

    `body`: whether any body octets follow (not for HEAD, 204, 304).
    `chunked`: each piece is wrapped as a chunk. `keep_alive`: another request may follow.
    """

    head: bytes
    body: bool
    chunked: bool
    keep_alive: bool


def frame(response: Response, method: bytes, minor: int, keep_alive: bool, stamp: bytes) -> Wire:
    """Render `response` as the answer to a `method` request of HTTP/1.`minor`.

    `keep_alive` is what the client and the limits allow; `stamp` are the Date and
    Server lines. The status line always says HTTP/1.1 (RFC 9112 §2.3).
    """
    status = response.status
    keep_alive = keep_alive and not response.close
    length = body_length(response.body)
    # RFC 9112 §6.3: these never have a body, whatever Content-Length says.
    bodiless = method == b"HEAD" or status in (204, 304) or status < 200
    chunked = length is None and minor == 1
    if length is None and minor == 0 and not bodiless:
        keep_alive = False  # only the end of the connection tells the end of the body
    lines = [STATUS_LINES[status], b"" if response.forwarded else stamp]
    lines += [b"%s: %s\r\n" % field for field in response.fields]
    if status not in (204, 304) and status >= 200:
        if length is not None:
            lines.append(b"Content-Length: %d\r\n" % length)
        elif chunked:
            lines.append(b"Transfer-Encoding: chunked\r\n")
    if status == 101:
        lines.append(b"Connection: upgrade\r\n")
    elif not keep_alive:
        lines.append(b"Connection: close\r\n")
    elif minor == 0:
        lines.append(b"Connection: keep-alive\r\n")
    lines.append(b"\r\n")
    return Wire(b"".join(lines), not bodiless, chunked and not bodiless, keep_alive)


def wants_keep_alive(minor: int, connection: list[bytes]) -> bool:
    """Whether the client lets the connection go on (RFC 9112 §9.3).

    `connection` holds the lower-case options of the Connection field.
    """
    if b"close" in connection:
        return False
    return minor == 1 or b"keep-alive" in connection
