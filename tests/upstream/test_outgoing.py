"""The head of a request to an app server."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

import h11
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgebox.upstream.outgoing import Outgoing, render_head

TOKEN = st.text("abcXYZ-_09", min_size=1).map(str.encode)
VALUE = st.text('abc ,;=/"é\t', max_size=20).map(lambda text: text.strip().encode())


def make(**parts: object) -> Outgoing:
    return Outgoing(**{"method": b"GET", "target": b"/", "fields": ((b"Host", b"x"),)} | parts)


def endings(head: bytes) -> list[bytes]:
    return [line for line in head.split(b"\r\n") if b": " in line and not line.startswith(b"Host")]


def test_fields_go_out_in_order_as_they_are() -> None:
    fields = ((b"Host", b"x"), (b"cookie", b"a"), (b"X-Y", b""), (b"Cookie", b"b"))
    head = render_head(make(fields=fields), close=False)
    assert head == b"GET / HTTP/1.1\r\nHost: x\r\ncookie: a\r\nX-Y: \r\nCookie: b\r\n\r\n"


@pytest.mark.parametrize(
    ("parts", "lines"),
    [
        ({}, []),
        ({"body": b"12345"}, [b"Content-Length: 5"]),
        ({"body": b""}, [b"Content-Length: 0"]),
        ({"method": b"POST"}, [b"Content-Length: 0"]),
        ({"method": b"DELETE"}, []),
        ({"upgrade": b"websocket"}, [b"Connection: upgrade", b"Upgrade: websocket"]),
    ],
)
def test_the_end_of_the_body_is_told(parts: dict[str, object], lines: list[bytes]) -> None:
    assert endings(render_head(make(**parts), close=False)) == lines


def test_a_stream_goes_by_its_length_or_in_chunks(
    pieces: Callable[..., AsyncIterator[bytes]],
) -> None:
    assert endings(render_head(make(body=pieces(), length=7), False)) == [b"Content-Length: 7"]
    assert endings(render_head(make(body=pieces()), False)) == [b"Transfer-Encoding: chunked"]


def test_close_is_asked_for_where_connections_are_not_kept() -> None:
    assert endings(render_head(make(), close=True)) == [b"Connection: close"]


@pytest.mark.parametrize(
    "name", [b"Content-Length", b"transfer-encoding", b"Connection", b"UPGRADE"]
)
def test_nobody_else_frames_the_message(name: bytes) -> None:
    with pytest.raises(ValueError, match="caller"):
        render_head(make(fields=((b"Host", b"x"), (name, b"5"))), close=False)


@pytest.mark.parametrize(
    "parts",
    [
        {"target": b"/ HTTP/1.1\r\nX: y"},
        {"target": b"/\n"},
        {"fields": ((b"Host", b"x\r\nContent-Length: 5"),)},
        {"fields": ((b"Host", b"x"), (b"A\rB", b""))},
        {"upgrade": b"a\r\n\r\nGET / HTTP/1.1"},
    ],
)
def test_a_request_cannot_be_split(parts: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="line end"):
        render_head(make(**parts), close=False)


@given(st.lists(st.tuples(TOKEN, VALUE), max_size=8), st.sampled_from([b"GET", b"POST", b"X"]))
def test_a_server_reads_what_was_meant(fields: list[tuple[bytes, bytes]], method: bytes) -> None:
    fields = [(b"Host", b"x"), *((b"x-" + name, value) for name, value in fields)]
    head = render_head(make(method=method, fields=tuple(fields), body=b"body"), close=False)
    server = h11.Connection(h11.SERVER)
    server.receive_data(head + b"body")
    request = server.next_event()
    assert isinstance(request, h11.Request)
    assert (request.method, request.target) == (method, b"/")
    assert request.headers.raw_items() == [*fields, (b"Content-Length", b"4")]
    assert server.next_event().data == b"body"
    assert isinstance(server.next_event(), h11.EndOfMessage)
