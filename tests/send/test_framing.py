"""One rendering of a response: how its end is told, and whether the connection goes on."""

from __future__ import annotations

from collections.abc import AsyncIterator

import h11
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgebox.http.message import Response, Stream
from edgebox.send.framing import frame, wants_keep_alive

STAMP = b"Date: Mon, 30 Nov 2026 10:00:00 GMT\r\nServer: edgebox\r\n"


async def nothing() -> AsyncIterator[bytes]:
    return
    yield b""


def test_a_whole_head_octet_for_octet() -> None:
    wire = frame(Response(200, ((b"X", b"y"),), b"abc"), b"GET", 1, True, STAMP)
    assert wire.head == b"HTTP/1.1 200 OK\r\n" + STAMP + b"X: y\r\nContent-Length: 3\r\n\r\n"
    assert (wire.body, wire.chunked, wire.keep_alive) == (True, False, True)


def test_http_1_0_is_told_that_the_connection_goes_on() -> None:
    assert b"Connection: keep-alive\r\n" in frame(Response(200), b"GET", 0, True, STAMP).head
    assert b"Connection: close\r\n" in frame(Response(200), b"GET", 0, False, STAMP).head


def test_unknown_length_is_chunked_or_ends_with_the_connection() -> None:
    response = Response(200, (), Stream(nothing()))
    new = frame(response, b"GET", 1, True, STAMP)
    assert (new.chunked, new.keep_alive) == (True, True)
    assert b"Transfer-Encoding: chunked\r\n" in new.head
    old = frame(response, b"GET", 0, True, STAMP)
    assert (old.chunked, old.keep_alive) == (False, False)
    assert b"Transfer-Encoding" not in old.head


@pytest.mark.parametrize("status", [204, 304])
def test_bodiless_statuses_have_no_body_and_no_length(status: int) -> None:
    wire = frame(Response(status, (), b"never"), b"GET", 1, True, STAMP)
    assert not wire.body
    assert b"Content-Length" not in wire.head


def test_a_response_can_insist_on_close() -> None:
    assert not frame(Response(400, close=True), b"GET", 1, True, STAMP).keep_alive


@given(
    st.sampled_from([200, 206, 204, 304, 404, 500]),
    st.binary(max_size=50),
    st.sampled_from([b"GET", b"HEAD"]),
    st.booleans(),
)
def test_any_client_reads_what_was_meant(
    status: int, body: bytes, method: bytes, keep_alive: bool
) -> None:
    wire = frame(Response(status, (), body), method, 1, keep_alive, STAMP)
    client = h11.Connection(h11.CLIENT)
    client.send(h11.Request(method=method, target="/", headers=[("Host", "x")]))
    client.send(h11.EndOfMessage())
    client.receive_data(wire.head + (body if wire.body else b""))
    head = client.next_event()
    assert isinstance(head, h11.Response)
    seen = b""
    while isinstance(event := client.next_event(), h11.Data):
        seen += bytes(event.data)
    assert isinstance(event, h11.EndOfMessage)
    assert seen == (body if wire.body else b"")
    assert client.trailing_data[0] == b""
    assert (client.their_state is h11.DONE) == keep_alive


@pytest.mark.parametrize(
    ("minor", "options", "kept"),
    [
        (1, [], True), (1, [b"close"], False), (1, [b"keep-alive"], True), (0, [], False),
        (0, [b"keep-alive"], True), (0, [b"keep-alive", b"close"], False), (1, [b"x"], True),
    ],
)  # fmt: skip
def test_keep_alive_follows_version_and_field(minor: int, options: list[bytes], kept: bool) -> None:
    assert wants_keep_alive(minor, options) is kept
