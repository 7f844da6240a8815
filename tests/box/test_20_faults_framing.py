"""Hostile framing: each way to blur where a request ends gets its status and the end.

The numbers are those of the project's list of fault classes. Every input is followed by a
whole request that must never be answered: no octet of one request is read as another.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import pytest
from msgspec.structs import replace

from edgebox.config.schema import Site
from edgebox.config.settle import look_at_machine, settle
from tests.box.conftest import Arena
from tests.conftest import HELLO
from tests.wire import configure, count_answers, first_status, request, serving

NEXT = request("/a.txt")  # what an attacker would like to have read as a request of its own
BODY = NEXT + b"x" * 40


def head(*lines: str, first: str = "POST /sub/ HTTP/1.1") -> bytes:
    """A head with Host, then `lines`."""
    return "".join(f"{line}\r\n" for line in (first, "Host: x", *lines, "")).encode("latin-1")


def raw(*lines: bytes) -> bytes:
    """A head of exactly these lines."""
    return b"".join(line + b"\r\n" for line in (*lines, b""))


def chunked(body: bytes) -> bytes:
    return head("Transfer-Encoding: chunked") + body


@dataclass(frozen=True)
class Refused:
    """Inputs of one class, each of which gets one of `statuses` and then the end."""

    number: int
    name: str
    inputs: tuple[bytes, ...]
    statuses: tuple[int, ...] = (400,)

    def __str__(self) -> str:
        return f"{self.number:02}-{self.name}"


def lengths(values: Iterable[str]) -> tuple[bytes, ...]:
    return tuple(head(f"Content-Length: {value}") for value in values)


def codings(values: Iterable[str]) -> tuple[bytes, ...]:
    return tuple(head(f"Transfer-Encoding: {value}") for value in values)


TABLE = [
    Refused(1, "length-beside-coding", (
        head("Content-Length: 4", "Transfer-Encoding: chunked") + b"0\r\n\r\n",
        head("Transfer-Encoding: chunked", "Content-Length: 4") + b"0\r\n\r\n",
        head("Content-Length: 0", "Transfer-Encoding: identity"),
    )),
    Refused(2, "lengths-that-differ", (
        head("Content-Length: 5", "Content-Length: 6") + b"hello",
        head("Content-Length: 5", "content-length: 5") + b"hello",
        *lengths(["5,6", "5, 5", "5,", ",5"]),
    )),
    Refused(3, "length-not-decimal", lengths(
        ["+5", "0x5", "1_0", "-1", "", " ", "5 5", "5.0", "5e0", "\xb2", "five", "5;"]
    )),
    Refused(4, "length-of-thirty-digits", lengths(["9" * 30, "0" * 29 + "5", "9" * 5000])),
    Refused(5, "coding-repeated-or-unknown", (
        *codings([
            "chunked, chunked", ",chunked", "\x0bchunked", "\x0cchunked", "chunked;q=1", "x",
            "gzip", "gzip, chunked", "chunked, gzip", "identity", "", "chunked chunked", "chunke",
            '"chunked"', "chunked\xa0",
        ]),
        head("Transfer-Encoding: chunked", "Transfer-Encoding: chunked"),
        head("Transfer-Encoding: identity", "Transfer-Encoding: chunked"),
    ), (400, 501)),
    Refused(6, "coding-in-1.0", (
        head("Transfer-Encoding: chunked", first="POST / HTTP/1.0") + b"0\r\n\r\n",
        head("Transfer-Encoding: chunked", "Connection: keep-alive", first="GET / HTTP/1.0"),
    )),
    Refused(7, "chunk-size-malformed", tuple(chunked(size + b"\r\nhello\r\n0\r\n\r\n") for size in (
        b"0x1", b"-1", b"1_0", b"", b"+5", b" 5", b"5 ", b"5\t", b"g", b"F" * 16, b"F" * 17,
        b"1" + b"0" * 20, b"8" + b"0" * 15, b"\xb5",
    ))),
    Refused(8, "chunk-without-its-end", tuple(chunked(body) for body in (
        b"5\r\nhelloX\r\n0\r\n\r\n", b"5\r\nhello\n0\r\n\r\n", b"5\r\nhello0\r\n\r\n",
        b"5\r\nhello\r0\r\n\r\n", b"5\r\nhello\rX0\r\n\r\n", b"2\r\nhello\r\n0\r\n\r\n",
    ))),
    Refused(9, "bare-cr-or-lf-in-chunk-line", tuple(chunked(body) for body in (
        b"5\nhello\r\n0\r\n\r\n", b"5;a\rb\r\nhello\r\n0\r\n\r\n", b"5;a\nb\r\nhello\r\n0\r\n\r\n",
        b"5\r\r\nhello\r\n0\r\n\r\n", b"5;\x00\r\nhello\r\n0\r\n\r\n", b"5\r\nhello\r\n0\n\r\n",
        b"5\r\nhello\r\n0\r\n\n",
    ))),
    Refused(10, "framing-that-outweighs-data", (
        chunked(b"1;%s\r\nx\r\n" % (b"e" * 2000) * 50 + b"0\r\n\r\n"),
        chunked(b"1;%s\r\nx\r\n" % (b"e" * 5000) + b"0\r\n\r\n"),
        chunked(b"1\r\nx\r\n" * 10_000 + b"0\r\n\r\n"),
    )),
    Refused(11, "trailer-flood", tuple(chunked(b"0\r\n" + trailers + b"\r\n") for trailers in (
        b"X: y\r\n" * 1000, b"X: " + b"y" * 20_000 + b"\r\n", b"X : y\r\n", b" X: y\r\n",
        b"X: y\n", b"X: \x00\r\n", b"no colon\r\n",
    ))),
    Refused(12, "space-around-the-name", (
        head("Content-Length : 5"), head("X\t: y"),
        raw(b"GET / HTTP/1.1", b" X: y", b"Host: x"), raw(b"GET / HTTP/1.1", b"\tHost: x"),
    )),
    Refused(13, "folded-line", (head("X: y", " z"), head("X: y", "\tz"), head("X:", " "))),
    Refused(14, "control-in-value", tuple(
        raw(b"GET / HTTP/1.1", b"Host: x", b"X: a" + octet + b"b")
        for octet in (b"\r", b"\0", b"\x01", b"\x0b", b"\x0c", b"\x1b", b"\x7f")
    )),
    Refused(15, "line-ends-in-bare-lf", (
        b"GET / HTTP/1.1\nHost: x\n\n", b"GET / HTTP/1.1\nHost: x\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\n\r\n", b"GET / HTTP/1.1\r\nHost: x\r\n\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nX: y\nContent-Length: 5\r\n\r\n",
    )),
    Refused(16, "name-not-a-token", tuple(
        raw(b"GET / HTTP/1.1", b"Host: x", line) for line in (
            b": y", b"na me: y", b"na(me: y", b"\xe9: y", b"no-colon", b'"X": y', b"X\0: y",
        )
    )),
    Refused(17, "padding-that-str-strip-would-eat", tuple(
        raw(b"POST / HTTP/1.1", b"Host: x", line) + b"0\r\n\r\n" for pad in (b"\x85", b"\xa0")
        for line in (
            b"Transfer-Encoding: chunked" + pad, b"Transfer-Encoding: " + pad + b"chunked",
            b"Transfer-Encoding" + pad + b": chunked", b"Content-Length: 5" + pad,
            b"Content-Length: " + pad + b"5", b"Content-Length:" + pad + b" 5",
        )
    ), (400, 501)),
    Refused(18, "host-missing-repeated-or-bad", (
        raw(b"GET / HTTP/1.1"), raw(b"GET / HTTP/1.1", b"Host: x", b"Host: x"),
        raw(b"GET / HTTP/1.1", b"Host: x", b"host: y"),
        *(raw(b"GET / HTTP/1.1", b"Host: " + value) for value in (
            b"", b"a b", b"a/b", b"a@b", b"a:b", b"a:99999", b"[::1", b"::1", b"a?b",
            b"a#b", b"a\\b", b"..", b"x\x85", b"x\xa0", b"\xe9",
        )),
    )),
    Refused(20, "target-of-no-known-form", (
        *(head(first=f"GET {target} HTTP/1.1") for target in (
            "foo", "*", "http://", "http:///a.txt", "ftp://x/", "?q", "x:80", "/a#b", "",
        )),
        head(first="CONNECT x:80 HTTP/1.1"), head(first="CONNECT / HTTP/1.1"),
        head(first="POST * HTTP/1.1"), head(first="GET /a b HTTP/1.1"),
        head(first="GET  / HTTP/1.1"), head(first="GET / HTTP/1.1 "), head(first="GET\t/ HTTP/1.1"),
    ), (400, 405)),
    Refused(21, "version", (
        *(head(first=f"GET / {version}") for version in (
            "HTTP/1.32", "HTTP/1.2", "HTTP/2.0", "HTTP/0.9", "http/1.1", "HTTP/1.", "HTTP/11",
            "HTTP/1.1x", "HTTPS/1.1", "HTTP/ 1.1", "HTTP/1,1",
        )),
        b"GET /\r\n", b"GET /\r\n\r\n", b"GET /a.txt\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\xab" * 64,  # a TLS hello
    ), (400, 505)),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("refused", TABLE, ids=str)
async def test_it_is_refused_and_nothing_after_it_is_answered(
    arena: Arena, refused: Refused
) -> None:
    async with arena() as server:
        for octets in refused.inputs:
            # Long ones in pieces that cut anywhere: octet by octet would take its time.
            for step in (None, 1 if len(octets) < 400 else 997):
                answer = await server.exchange(octets + NEXT, step)
                assert first_status(answer) in refused.statuses, (octets[:200], answer[:200])
                assert count_answers(answer) == 1, octets[:200]
                assert b"\r\nConnection: close\r\n" in answer


async def test_11_a_trailer_is_dropped_and_never_merged(arena: Arena) -> None:
    async with arena() as server, server.connect() as client:
        trailers = b"Content-Length: 100\r\nHost: y\r\nRange: bytes=0-0\r\n"
        body = b"5\r\nhello\r\n0\r\n" + trailers + b"\r\n"
        get = head("Transfer-Encoding: chunked", first="GET / HTTP/1.1")
        for step in (None, 1):
            await client.send(get + body + request("/sub/"), step)
            assert (await client.read_answer()).body == HELLO
            assert (await client.read_answer()).body == b"sub"


@pytest.mark.parametrize("express", [True, False], ids=["lane", "tasks"])
async def test_19_the_targets_authority_wins_over_host(root: Path, express: bool) -> None:
    config = configure(root, server={"express": express})
    sites = (
        Site(root=str(root), hosts=("a.example",)),
        Site(root=str(root / "sub"), hosts=("b.example",)),
    )
    config = settle(replace(config, site=sites), look_at_machine())
    async with serving(config) as server, server.connect() as client:
        for target, host, body in [
            ("/", "a.example", HELLO),
            ("/", "B.EXAMPLE.:80", b"sub"),
            ("http://b.example/", "a.example", b"sub"),
            ("HTTP://B.Example:8080/index.html", "a.example", b"sub"),
            ("http://a.example", "b.example", HELLO),
            ("http://a.example?q", "b.example", HELLO),
        ]:
            for _ in range(3):  # the third time the lane has it in memory, if it may
                await client.send(request(target, host=host))
                answer = await client.read_answer()
                assert (answer.status, answer.body) == (200, body), target
        await client.send(request("http://c.example/", host="a.example"))
        assert (await client.read_answer()).status == 404


async def test_20_options_may_ask_for_the_server_as_a_whole(arena: Arena) -> None:
    async with arena() as server, server.connect() as client:
        await client.send(request("*", method="OPTIONS") + request("/"))
        assert (await client.read_answer("OPTIONS")).status == 204
        assert (await client.read_answer()).body == HELLO


@pytest.mark.slow
@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "OPTIONS"])
async def test_22_a_body_is_never_the_next_request(arena: Arena, method: str) -> None:
    plain = head(f"Content-Length: {len(BODY)}", first=f"{method} / HTTP/1.1") + BODY
    coded = head("Transfer-Encoding: chunked", first=f"{method} / HTTP/1.1")
    coded += b"%x\r\n%b\r\n0\r\n\r\n" % (len(BODY), BODY)
    status = {"POST": 405, "OPTIONS": 204}.get(method, 200)
    async with arena() as server, server.connect() as client:
        for octets in (plain, coded):
            for step in (None, 1, 7):
                await client.send(octets + request("/sub/"), step)
                assert (await client.read_answer(method)).status == status
                assert (await client.read_answer()).body == b"sub"


async def test_22_a_body_too_long_to_read_off_ends_the_connection(arena: Arena) -> None:
    body = NEXT * 5000
    async with arena(limits={"body_discard": 1000}) as server:
        plain = head(f"Content-Length: {len(body)}", first="GET / HTTP/1.1") + body
        coded = head("Transfer-Encoding: chunked", first="GET / HTTP/1.1")
        coded += b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
        for octets in (plain, coded):
            answer = await server.exchange(octets + NEXT)
            assert count_answers(answer) == 1
            assert answer.endswith(HELLO)
            assert b"\r\nConnection: close\r\n" in answer


async def test_a_head_that_is_refused_gets_no_content_either(arena: Arena) -> None:
    async with arena() as server:
        for octets in (raw(b"HEAD / HTTP/1.1"), head("X : y", first="HEAD / HTTP/1.1")):
            answer = await server.exchange(octets)
            assert first_status(answer) == 400
            assert answer.endswith(b"\r\n\r\n")  # RFC 9110 §9.3.2


async def test_an_empty_line_before_a_request_is_ignored(arena: Arena) -> None:
    async with arena() as server, server.connect() as client:
        for _ in range(3):  # RFC 9112 §2.2; h11 alone would refuse it
            await client.send(b"\r\n" + request("/") + b"\r\n\r\n" + request("/sub/"))
            assert (await client.read_answer()).body == HELLO
            assert (await client.read_answer()).body == b"sub"


def test_no_class_of_this_section_is_missing() -> None:
    special = {int(found[1]) for name in globals() if (found := re.match(r"test_(\d\d)_", name))}
    assert special | {refused.number for refused in TABLE} == set(range(1, 23))
