from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgebox.bench.connection import HEAD_SIZE, Answer, Connection, Heads
from edgebox.upstream.errors import Malformed

# Answers, the length of their content, and whether the connection may go on.
WHOLE = [
    (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", 5, True),
    (b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", 0, True),
    (b"HTTP/1.1 204 No Content\r\n\r\n", 0, True),
    (b"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", 0, True),
    (b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 1\r\n\r\nx", 1, False),
    (b"HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\nx", 1, False),
    (b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 1\r\n\r\nx", 1, True),
    (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
        b"3;x=y\r\nabc\r\n10\r\n0123456789abcdef\r\n0\r\nT: v\r\n\r\n",
        19,
        True,
    ),
    (b"HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", 2, True),
]


def connection() -> Connection:
    return Connection(Heads(b"GET"))


@given(st.sampled_from(WHOLE), st.lists(st.integers(1, 20)))
def test_an_answer_is_the_same_however_its_octets_are_cut(
    case: tuple[bytes, int, bool], steps: list[int]
) -> None:
    octets, length, reusable = case
    asked, answer = connection(), None
    for step in [*steps, len(octets)]:
        if octets:
            assert answer is None
            answer = asked.take(octets[:step])
            octets = octets[step:]
    assert isinstance(answer, Answer)
    assert (answer.length, answer.reusable) == (length, reusable)


def test_what_ends_with_the_connection_is_whole_then() -> None:
    asked = connection()
    assert asked.take(b"HTTP/1.1 200 OK\r\n\r\nabc") is None
    answer = asked.take_end()
    assert answer is not None
    assert (answer.length, answer.reusable) == (3, False)


@pytest.mark.parametrize(
    "octets",
    [b"", b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell",
     b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n"],
)  # fmt: skip
def test_what_is_cut_off_is_no_answer(octets: bytes) -> None:
    asked = connection()
    assert asked.take(octets) is None
    assert asked.take_end() is None


def test_octets_beyond_the_answer_spoil_the_connection() -> None:
    answer = connection().take(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nxy")
    assert isinstance(answer, Answer)
    assert (answer.length, answer.reusable) == (1, False)


@pytest.mark.parametrize(
    "octets",
    [b"SSH-2.0-OpenSSH\r\n\r\n", b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\n\r\n",
     b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n", b"x" * (HEAD_SIZE + 1)],
    ids=["not HTTP", "another protocol", "no chunk", "no end"],
)  # fmt: skip
def test_what_is_not_http_is_called_malformed(octets: bytes) -> None:
    assert isinstance(connection().take(octets), Malformed)
