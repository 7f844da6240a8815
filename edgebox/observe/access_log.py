"""What is written of each answer, and the combined format, in three pieces.

A line is the client's address, then what belongs to the answer, then what belongs to
the header block (Referer, User-Agent). The express lane keeps the second with the
answer and the third with the head, so that logging costs it three list appends. Formats that
do not come in this order are written whole (`log_format`), for each request anew.
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from typing import Protocol

from msgspec import Struct, field

from edgebox.http.headers import OWS
from edgebox.http.tracing import REQUEST_ID, is_sound
from edgebox.observe.outcome import outcome_of

_UNSAFE = re.compile(rb"[^\x20\x21\x23-\x5b\x5d-\x7e]")


class Asked(Struct):
    """What asking an upstream came to: filled in as it goes, read when the answer is out.

    Times are those of one monotonic clock. `server` is a URL. `settled`: the client has its
    answer, and what is still asked is asked for others.
    """

    server: str = ""
    request_id: bytes = b""
    traceparent: bytes = b""
    began: float | None = None
    headed: float | None = None
    ended: float | None = None
    settled: bool = False

    def begin(self, now: float) -> None:
        """An upstream is asked, perhaps once more: the time goes on from the first."""
        if self.began is None:
            self.began = now
        self.ended = None

    def end(self, now: float) -> None:
        """The last octet came, or none will; the first word counts."""
        if self.ended is None:
            self.ended = now

    def follow(self, other: Asked) -> None:
        """What was asked is what `other` tells."""
        for name in self.__struct_fields__:
            setattr(self, name, getattr(other, name))

    @property
    def head_seconds(self) -> float | None:
        """From asking to the head of the answer."""
        return _between(self.began, self.headed)

    @property
    def seconds(self) -> float | None:
        """From asking, with all waiting and trying again, to the end of the answer."""
        return _between(self.began, self.ended)


class Entry(Struct, frozen=True, kw_only=True):
    """One answer that went out.

    `line` is the request line and `block` what came behind it, as received; `size` counts
    octets of body, `octets` all. `host` is b"" where it is to be looked up in the block.
    `member` is ours of Cache-Status; `seconds` counts from the first octet of the request to
    the last of the answer, 0.0 in the express lane; `requests` those on this connection so far.
    """

    line: bytes = b""
    status: int = 0
    size: int = 0
    octets: int = 0
    block: bytes = b""
    peer: bytes = b""
    host: bytes = b""
    member: bytes = b""
    seconds: float = 0.0
    requests: int = 0
    asked: Asked = field(default_factory=Asked)


@dataclass(frozen=True, slots=True)
class LogStamp:
    """One second as each format writes it; `epoch` is in seconds since 1970."""

    combined: bytes
    iso: bytes
    epoch: int


class Format(Protocol):
    """How a line is written.

    With `in_pieces` it is `client`, `answer` and `agent` joined with nothing between, and
    each of these depends on nothing but its arguments; else only `line` may be called.
    """

    @property
    def in_pieces(self) -> bool: ...
    @property
    def tells_asking(self) -> bool:
        """Whether it tells of an answer what only those have that took time: what an upstream
        was asked, when and as what. Then pieces will not do for these."""
        ...

    def client(self, peer: bytes) -> bytes:
        """The piece that names the client; kept on the connection."""
        ...

    def answer(self, entry: Entry, stamp: LogStamp) -> bytes:
        """The piece of one answer: of the entry's line, status, size, octets, host, member."""
        ...

    def agent(self, referer: bytes, user_agent: bytes, block: bytes) -> bytes:
        """The piece of a header block, of which two fields are known, with the line's end."""
        ...

    def line(self, entry: Entry, stamp: LogStamp) -> bytes:
        """The whole line."""
        ...


class Combined:
    """The NCSA combined format, which every log reader knows."""

    in_pieces = True
    tells_asking = False

    def client(self, peer: bytes) -> bytes:
        return peer

    def answer(self, entry: Entry, stamp: LogStamp) -> bytes:
        line = escape(entry.line)
        return b' - - [%s] "%s" %d %d "' % (stamp.combined, line, entry.status, entry.size)

    def agent(self, referer: bytes, user_agent: bytes, block: bytes) -> bytes:
        return b'%s" "%s"\n' % (escape(referer) or b"-", escape(user_agent) or b"-")

    def line(self, entry: Entry, stamp: LogStamp) -> bytes:
        fields = _AGENT.find(entry.block)
        agent = self.agent(fields.get(b"referer", b""), fields.get(b"user-agent", b""), b"")
        return entry.peer + self.answer(entry, stamp) + agent


class FieldFinder:
    """Finds some fields in a header block that nobody has taken apart, or judged."""

    def __init__(self, *names: bytes) -> None:
        """`names` in lower case."""
        self._names = frozenset(names)

    def find(self, block: bytes) -> dict[bytes, bytes]:
        """Values by lower-case name; of a field that is there twice, the last."""
        found = {}
        for line in block.split(b"\r\n"):
            name, _, value = line.partition(b":")
            if (name := name.lower()) in self._names:
                found[name] = value.strip(OWS)
        return found


_AGENT = FieldFinder(b"referer", b"user-agent")
_TOLD = FieldFinder(b"host", b"referer", b"user-agent", REQUEST_ID)


def stamp_of(now: int) -> LogStamp:
    """The stamp of wall second `now`, in the machine's time zone."""
    local = time.localtime(now)
    zone = time.strftime("%z", local)
    return LogStamp(
        time.strftime("%d/%b/%Y:%H:%M:%S %z", local).encode(),
        f"{time.strftime('%Y-%m-%dT%H:%M:%S', local)}{zone[:3]}:{zone[3:]}".encode(),
        now,
    )


def escape(value: bytes) -> bytes:
    """Octets that could end the quotes, the line or the reader's patience, as \\xNN."""
    if _UNSAFE.search(value) is None:
        return value
    return _UNSAFE.sub(lambda m: b"\\x%02X" % m[0][0], value)


def split_head(head: bytes) -> tuple[bytes, bytes]:
    """Request line and header block; of what has no line end, as much as tells what it was."""
    line, end, block = head.partition(b"\r\n")
    return (line, block) if end else (head[:1024], b"")


def split_line(line: bytes) -> tuple[bytes, bytes, bytes]:
    """Method, target and protocol; b"" for what is not there."""
    method, _, rest = line.partition(b" ")
    target, _, protocol = rest.partition(b" ")
    return method, target, protocol


def host_of(entry: Entry, fields: dict[bytes, bytes]) -> bytes:
    """The host that was asked for: lower case, no port."""
    if entry.host or b"host" not in fields:
        return entry.host
    host = fields[b"host"].lower()
    end = host.find(b"]") + 1 if host.startswith(b"[") else host.find(b":")
    return host[:end] if end > 0 else host


def request_id_of(entry: Entry, fields: dict[bytes, bytes]) -> bytes:
    """The id that the upstream got; else the client's own, if it has one that is sound."""
    given = fields.get(REQUEST_ID, b"")
    return entry.asked.request_id or (given if is_sound(given) else b"")


def as_record(entry: Entry, now: int) -> dict[str, object]:
    """An entry for whoever asks or listens: `query` names the fields that it goes by.

    Beside those: `at` in seconds since 1970, `octets` with the head, `upstream_time` in
    seconds or None, and some texts. All can be JSON.
    """
    fields = _TOLD.find(entry.block)
    method, target, protocol = split_line(entry.line)
    cache, reason = outcome_of(entry.member)
    texts = {
        "peer": entry.peer,
        "method": method,
        "host": host_of(entry, fields),
        "path": target,
        "protocol": protocol,
        "referer": fields.get(b"referer", b""),
        "user_agent": fields.get(b"user-agent", b""),
        "request_id": request_id_of(entry, fields),
    }
    return {
        "at": now,
        "status": entry.status,
        "bytes": entry.size,
        "octets": entry.octets,
        "time": entry.seconds,
        "cache": cache,
        "reason": reason,
        "upstream": entry.asked.server,
        "upstream_time": entry.asked.seconds,
    } | {name: text.decode("latin-1") for name, text in texts.items()}


def _between(began: float | None, ended: float | None) -> float | None:
    return None if began is None or ended is None else max(0.0, ended - began)
