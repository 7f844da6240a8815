"""An app server's response head: read as h11 reads it, refused where that is not enough."""

from __future__ import annotations

import h11
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgebox.upstream.errors import Malformed
from edgebox.upstream.reply import Ending, Reply, is_hopeless, parse_reply, strip_trailers

OK = b"HTTP/1.1 200 OK\r\n"


def parse(*lines: bytes, start: bytes = OK, method: bytes = b"GET") -> Reply | Malformed:
    return parse_reply(start + b"".join(line + b"\r\n" for line in lines) + b"\r\n", method)


def test_fields_keep_their_order_and_case() -> None:
    reply = parse(b"Server: x", b"set-cookie: a", b'ETag:  "1" ', b"Set-Cookie:b", b"X-Empty:")
    assert isinstance(reply, Reply)
    assert reply.fields == (
        (b"Server", b"x"),
        (b"set-cookie", b"a"),
        (b"ETag", b'"1"'),
        (b"Set-Cookie", b"b"),
        (b"X-Empty", b""),
    )


@pytest.mark.parametrize(
    ("lines", "start", "method", "ending", "length"),
    [
        ([b"Content-Length: 5"], OK, b"GET", Ending.LENGTH, 5),
        ([b"content-length: 0"], OK, b"GET", Ending.LENGTH, 0),
        ([b"Content-Length: 5", b"Content-Length: 5"], OK, b"GET", Ending.LENGTH, 5),
        ([b"Content-Length: 5, 5"], OK, b"GET", Ending.LENGTH, 5),
        ([b"Transfer-Encoding: Chunked"], OK, b"GET", Ending.CHUNKED, None),
        ([], OK, b"GET", Ending.CLOSE, None),
        ([], b"HTTP/1.0 200 OK\r\n", b"GET", Ending.CLOSE, None),
        ([b"Content-Length: 5"], OK, b"HEAD", Ending.AT_ONCE, 5),
        ([b"Transfer-Encoding: chunked"], OK, b"HEAD", Ending.AT_ONCE, None),
        ([b"Content-Length: 0"], b"HTTP/1.1 304 x\r\n", b"GET", Ending.AT_ONCE, 0),
        ([b"Content-Length: 9"], b"HTTP/1.1 204 x\r\n", b"GET", Ending.AT_ONCE, 9),
        ([], b"HTTP/1.1 103 x\r\n", b"GET", Ending.AT_ONCE, None),
        ([b"Content-Length: 5"], b"HTTP/1.1 205 x\r\n", b"GET", Ending.LENGTH, 5),
    ],
)
def test_how_the_body_ends(
    lines: list[bytes], start: bytes, method: bytes, ending: Ending, length: int | None
) -> None:
    reply = parse(*lines, start=start, method=method)
    assert isinstance(reply, Reply)
    assert (reply.ending, reply.length, reply.fields) == (ending, length, ())


@pytest.mark.parametrize(
    ("lines", "start", "malformed"),
    [
        ([b"Content-Length: 5", b"Content-Length: 6"], OK, Malformed.LENGTH),
        ([b"Content-Length: 5, 6"], OK, Malformed.LENGTH),
        ([b"Content-Length: +5"], OK, Malformed.LENGTH),
        ([b"Content-Length: -5"], OK, Malformed.LENGTH),
        ([b"Content-Length: 0x5"], OK, Malformed.LENGTH),
        ([b"Content-Length: 1_0"], OK, Malformed.LENGTH),
        ([b"Content-Length:"], OK, Malformed.LENGTH),
        ([b"Content-Length: \xb2"], OK, Malformed.LENGTH),
        ([b"Content-Length: " + b"9" * 30], OK, Malformed.LENGTH),
        ([b"Content-Length: x"], b"HTTP/1.1 304 x\r\n", Malformed.LENGTH),
        ([b"Content-Length: 5", b"Transfer-Encoding: chunked"], OK, Malformed.LENGTH_AND_CODING),
        ([b"Transfer-Encoding: chunked"], b"HTTP/1.0 200 OK\r\n", Malformed.CODING_ON_1_0),
        ([b"Transfer-Encoding: gzip, chunked"], OK, Malformed.CODING),
        ([b"Transfer-Encoding: \x0bchunked"], OK, Malformed.HEAD),
        ([b"Transfer-Encoding: chunked", b"Transfer-Encoding: chunked"], OK, Malformed.CODING),
        ([b"Transfer-Encoding: identity"], OK, Malformed.CODING),
    ],
)
def test_a_body_whose_end_is_in_doubt_is_refused(
    lines: list[bytes], start: bytes, malformed: Malformed
) -> None:
    assert parse(*lines, start=start) is malformed


@pytest.mark.parametrize(
    "head",
    [
        b"\r\n\r\n",
        b"HTTP/1.1\r\n\r\n",
        b"HTTP/1.1 20 OK\r\n\r\n",
        b"HTTP/1.1 2000 OK\r\n\r\n",
        b"HTTP/1.1 abc OK\r\n\r\n",
        b"HTTP/1.1 \xb2\xb2\xb2 OK\r\n\r\n",
        b"HTTP/1.1  200 OK\r\n\r\n",
        b"HTTP/1.1 099 OK\r\n\r\n",
        b"HTTP/1.1 600 OK\r\n\r\n",
        b"HTTP/1.1 200 O\0K\r\n\r\n",
        b"HTTP/2.0 200 OK\r\n\r\n",
        b"HTTP/1.2 200 OK\r\n\r\n",
        b"HTTP/1.10 200 OK\r\n\r\n",
        b"http/1.1 200 OK\r\n\r\n",
        b"ICY 200 OK\r\n\r\n",
        OK + b"A\0: b\r\n\r\n",
        OK + b"A: b\0\r\n\r\n",
        OK + b"A: b\rc\r\n\r\n",
        OK + b"A : b\r\n\r\n",
        OK + b": b\r\n\r\n",
        OK + b"no colon\r\n\r\n",
        OK + b" folded: first\r\n\r\n",
        OK + b"A: b\r\n" * 257 + b"\r\n",
    ],
)
def test_garbage_is_refused(head: bytes) -> None:
    assert isinstance(parse_reply(head, b"GET"), Malformed)


def test_small_sins_are_forgiven() -> None:
    bare = parse_reply(b"HTTP/1.1 200 OK\nA: b\nContent-Length: 3\n\n", b"GET")
    assert isinstance(bare, Reply)
    assert (bare.fields, bare.length) == (((b"A", b"b"),), 3)
    # RFC 9112 §5.2: a proxy replaces the fold by spaces, or the message by a 502.
    folded = parse(b"A: b", b"  c", b"Content-Length: 3")
    assert isinstance(folded, Reply)
    assert folded.fields == ((b"A", b"b c"),)
    silent = parse_reply(b"HTTP/1.1 200\r\nContent-Length: 3\r\n\r\n", b"GET")
    assert isinstance(silent, Reply)
    assert silent.status == 200


@pytest.mark.parametrize(
    ("lines", "start", "keep_alive"),
    [
        ([], OK, True),
        ([b"Connection: close"], OK, False),
        ([b"Connection: keep-alive, Close"], OK, False),
        ([b"Connection: x", b"Connection: close"], OK, False),
        ([b"Connection: keep-alive"], OK, True),
        ([], b"HTTP/1.0 200 OK\r\n", False),
        ([b"Connection: Keep-Alive"], b"HTTP/1.0 200 OK\r\n", True),
    ],
)
def test_whether_the_connection_goes_on(lines: list[bytes], start: bytes, keep_alive: bool) -> None:
    reply = parse(b"Content-Length: 0", *lines, start=start)
    assert isinstance(reply, Reply)
    assert reply.keep_alive is keep_alive


def test_what_belongs_to_the_connection_stays_here() -> None:
    reply = parse(
        b"Connection: X-Auth, keep-alive, x-OTHER",
        b"Keep-Alive: timeout=5",
        b"Proxy-Connection: keep-alive",
        b"TE: trailers",
        b"Trailer: X-Sum",
        b"Upgrade: h2c",
        b"x-auth: secret",
        b"X-Other: y",
        b"Content-Length: 0",
        b"A: b",
    )
    assert isinstance(reply, Reply)
    assert reply.fields == ((b"A", b"b"),)


def test_an_upgrade_counts_only_where_the_connection_says_so() -> None:
    start = b"HTTP/1.1 101 Switching\r\n"
    reply = parse(b"Connection: Upgrade", b"Upgrade: websocket", start=start)
    assert isinstance(reply, Reply)
    assert reply.upgrade == b"websocket"
    silent = parse(b"Upgrade: websocket", start=start)
    assert isinstance(silent, Reply)
    assert silent.upgrade == b""


def test_trailers_cannot_frame_or_steer() -> None:
    trailers = ((b"X-Sum", b"1"), (b"Content-Length", b"5"), (b"transfer-encoding", b"chunked"))
    assert strip_trailers(trailers) == ((b"X-Sum", b"1"),)


def test_what_cannot_become_a_response_is_seen_early() -> None:
    assert not any(is_hopeless(OK[:n]) for n in range(len(OK)))
    assert is_hopeless(b"S")
    assert is_hopeless(b"HTTP/2")
    assert is_hopeless(b"\r\n")


VALUE = st.text('abc \t,"é\x01', max_size=12).map(lambda text: text.encode("latin-1"))
LINE = st.one_of(
    st.tuples(st.sampled_from([b"A", b"b-C", b"X!", b"Set-Cookie"]), VALUE).map(b":".join),
    st.sampled_from([b"Content-Length: 3", b"Transfer-Encoding: chunked", b"Connection: A, close"]),
    st.sampled_from([b" folded", b"no colon", b"A : b", b": b", b"A: b\0", b"A: \rb", b"\xffA: b"]),
)
START = st.one_of(
    st.sampled_from([OK, b"HTTP/1.0 404 No\r\n", b"HTTP/1.1 304\r\n", b"HTTP/1.1 204 \r\n"]),
    st.sampled_from([b"HTTP/1.1 200 \xe9\r\n", b"HTTP/1.1 99 x\r\n", b"HTTP/3.0 200 x\r\n"]),
)


@given(START, st.lists(LINE, max_size=5), st.sampled_from([b"\r\n", b"\r\n", b"\n"]))
def test_whatever_is_accepted_h11_reads_the_same_way(
    start: bytes, lines: list[bytes], end: bytes
) -> None:
    head = start + b"".join(line + end for line in lines) + b"\r\n"
    reply = parse_reply(head, b"GET")
    reader = h11.Connection(h11.CLIENT)
    reader.send(h11.Request(method="GET", target="/", headers=[("Host", "x")]))
    reader.send(h11.EndOfMessage())
    reader.receive_data(head)
    try:
        event = reader.next_event()
    except h11.RemoteProtocolError:
        assert isinstance(reply, Malformed)
        return
    if isinstance(reply, Malformed):
        return
    assert reply.status == event.status_code
    options = {b"a", b"close"} if any(b"A, close" in line for line in lines) else set()
    ours = {b"content-length", b"transfer-encoding", b"connection"} | options
    raw = event.headers.raw_items()
    assert list(reply.fields) == [field for field in raw if field[0].lower() not in ours]
    body = reader.next_event()
    match reply.ending:
        case Ending.LENGTH:
            assert reply.length == 3
            assert body is h11.NEED_DATA
        case Ending.AT_ONCE:
            assert isinstance(body, h11.EndOfMessage)
        case _:
            assert body is h11.NEED_DATA
