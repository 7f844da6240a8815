"""Held connections are checked octet by octet; sockets' memory is read from ss."""

from __future__ import annotations

import socket

import pytest

from perf.connections import exchange, request, socket_memory

SS = """\
0      26890  127.0.0.1:8080  127.0.0.1:40000
\t skmem:(r0,rb131072,t100,tb87040,f1024,w2048,o0,bl0,d0)
0      0      127.0.0.1:8080  127.0.0.1:40001
\t skmem:(r512,rb131072,t0,tb87040,f0,w0,o16,bl256,d3)
"""
HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"


def test_socket_memory_counts_what_is_used_and_not_what_is_allowed() -> None:
    assert socket_memory(SS) == (1024 + 2048 + 512 + 16 + 256, 2)
    assert socket_memory("") == (0, 0)


def test_an_answer_of_the_right_length_is_read_whole() -> None:
    near, far = socket.socketpair()
    with near, far:
        far.sendall(HEAD + b"hello")
        exchange(near, request(1, "/x"), 5)
        assert far.recv(100) == b"GET /x HTTP/1.1\r\nHost: 127.0.0.1:1\r\n\r\n"


@pytest.mark.parametrize(
    "answer",
    [
        HEAD + b"hello more",
        HEAD.replace(b"200 OK", b"404 No") + b"hello",
        HEAD + b"hel",
        b"",
    ],
)
def test_any_other_answer_is_refused(answer: bytes) -> None:
    near, far = socket.socketpair()
    with near, far:
        far.sendall(answer)
        far.shutdown(socket.SHUT_WR)
        with pytest.raises(ValueError):
            exchange(near, b"x", 5)
