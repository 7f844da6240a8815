"""What a client got: read from the octets of a connection, and judged. Pure.

An answer is right if its status is 200 and its body, coding undone, is what was put there,
octet for octet. A server that cannot may say so, by a status that says whose fault it is (502,
503, 504); anything else is wrong.
"""

from __future__ import annotations

import gzip
import zlib
from dataclasses import dataclass, field
from enum import Enum

NAMED = (502, 503, 504)
LONGEST_HEAD = 64 * 1024


class Garbage(Exception):
    """What came is no HTTP/1.1 answer; says why."""


@dataclass(frozen=True, slots=True)
class Target:
    """A path, and what is there."""

    path: str
    body: bytes


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole answer, field names in lower case; `keep`: another request may follow."""

    status: int
    fields: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    keep: bool = True


class Verdict(Enum):
    """What a request came to."""

    RIGHT = "right"
    NAMED = "named status"
    WRONG = "wrong"


def request(target: Target, coding: str = "") -> bytes:
    """A GET; `coding` is what it accepts."""
    accept = f"Accept-Encoding: {coding}\r\n" if coding else ""
    return f"GET {target.path} HTTP/1.1\r\nHost: faults\r\n{accept}\r\n".encode()


def read(octets: bytes | bytearray) -> tuple[Answer, int] | None:
    """The answer that `octets` begin with and its length; None: not yet whole. Raises Garbage."""
    end = octets.find(b"\r\n\r\n")
    if end < 0:
        if len(octets) > LONGEST_HEAD or not b"HTTP/1.1 ".startswith(octets[:9]):
            raise Garbage(f"no head: {bytes(octets[:40])!r}")
        return None
    line, *lines = octets[:end].decode("latin-1").split("\r\n")
    words = line.split(" ", 2)
    if words[0] != "HTTP/1.1" or len(words) < 2 or not words[1].isdecimal():
        raise Garbage(f"no status line: {line[:60]!r}")
    fields = {}
    for each in lines:
        name, colon, value = each.partition(":")
        if not colon:
            raise Garbage(f"no field: {each[:60]!r}")
        fields[name.lower()] = value.strip()
    body = _read_body(octets, end + 4, fields)
    if body is None:
        return None
    keep = fields.get("connection", "").lower() != "close"
    return Answer(int(words[1]), fields, body[0], keep), body[1]


def _read_body(
    octets: bytes | bytearray, start: int, fields: dict[str, str]
) -> tuple[bytes, int] | None:
    """The body from `start` on, and where it ends; None: not yet whole."""
    if fields.get("transfer-encoding") == "chunked":
        return _read_chunks(octets, start)
    length = fields.get("content-length", "")
    if not length.isdecimal():
        raise Garbage("neither Content-Length nor chunks")
    end = start + int(length)
    return (bytes(octets[start:end]), end) if len(octets) >= end else None


def _read_chunks(octets: bytes | bytearray, start: int) -> tuple[bytes, int] | None:
    pieces: list[bytes] = []
    while (line := octets.find(b"\r\n", start)) >= 0:
        try:
            size = int(octets[start:line], 16)
        except ValueError as problem:
            raise Garbage(f"no chunk: {bytes(octets[start:line][:20])!r}") from problem
        begin, start = line + 2, line + 2 + size + 2
        if len(octets) < start:
            return None
        if octets[start - 2 : start] != b"\r\n":
            raise Garbage("a chunk without its end")
        if not size:
            return b"".join(pieces), start
        pieces.append(bytes(octets[begin : start - 2]))
    return None


def judge(answer: Answer, target: Target) -> tuple[Verdict, str]:
    """What to make of it, and why if it is wrong."""
    if answer.status in NAMED:
        return Verdict.NAMED, str(answer.status)
    if answer.status != 200:
        return Verdict.WRONG, f"status {answer.status}"
    coding = answer.fields.get("content-encoding", "")
    if coding not in ("", "gzip"):
        return Verdict.WRONG, f"a coding that nobody asked for: {coding}"
    try:
        body = gzip.decompress(answer.body) if coding else answer.body
    except (OSError, EOFError, zlib.error) as problem:
        return Verdict.WRONG, f"not gzip: {problem}"
    if body != target.body:
        return Verdict.WRONG, f"another body, of {len(body):,} octets and not {len(target.body):,}"
    return Verdict.RIGHT, ""
