"""Answers on a real socket: whole, or visibly cut off."""

from __future__ import annotations

import os
import socket
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import trio

from edgebox.files.entry import OpenFile
from edgebox.http.message import FileSlice, Response, Stream
from edgebox.listen.connection import Connection
from edgebox.send.framing import frame
from edgebox.send.writer import SendLimits, Sent, Writer

Pair = tuple[Connection, socket.socket]


@pytest.fixture
def pair() -> Iterator[Pair]:
    ours, theirs = socket.socketpair()
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 8192)
    theirs.setblocking(False)
    yield Connection(ours, b"", b"", 0), theirs
    ours.close()
    theirs.close()


def limits(window: float = 5, rate: int = 1) -> SendLimits:
    return SendLimits(rate, window, 65536, trio.CapacityLimiter(1))


async def read_all(sock: socket.socket, size: int) -> bytes:
    data = b""
    with trio.fail_after(10):
        while len(data) < size:
            await trio.lowlevel.wait_readable(sock)
            data += sock.recv(65536)
    return data


async def send(pair: Pair, response: Response) -> tuple[Sent, bytes, int]:
    """Outcome, what the other side got, and what the writer says it sent."""
    conn, theirs = pair
    wire = frame(response, b"GET", 1, True, b"")
    writer = Writer(conn, limits())
    got = b""
    outcome = []

    async def write() -> None:
        outcome.append(await writer.write(wire, response))
        conn.sock.shutdown(socket.SHUT_WR)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(write)
        with trio.fail_after(10):
            while True:
                await trio.lowlevel.wait_readable(theirs)
                data = theirs.recv(65536)
                if not data:
                    break
                got += data
    return outcome[0], got.partition(b"\r\n\r\n")[2], writer.sent - len(wire.head)


def open_file(path: Path, octets: bytes) -> OpenFile:
    path.write_bytes(octets)
    return OpenFile(os.open(path, os.O_RDONLY))


async def test_octets_larger_than_the_sockets_buffer(pair: Pair) -> None:
    body = os.urandom(300_000)
    assert await send(pair, Response(200, (), body)) == (Sent.WHOLE, body, len(body))


async def test_pieces_of_ram_and_file_in_order(pair: Pair, tmp_path: Path) -> None:
    octets = os.urandom(400_000)
    file = open_file(tmp_path / "f", octets)
    body = (b"<", FileSlice(file, 10, 300_000), b">", FileSlice(file, 0, 5))
    outcome, got, count = await send(pair, Response(200, (), body))
    assert outcome is Sent.WHOLE
    assert got == b"<" + octets[10:300_010] + b">" + octets[:5]
    assert count == len(got)


async def test_a_file_that_shrank_is_cut_off_and_said(pair: Pair, tmp_path: Path) -> None:
    file = open_file(tmp_path / "f", b"x" * 100_000)
    os.truncate(tmp_path / "f", 70_000)
    outcome, got, _ = await send(pair, Response(200, (), FileSlice(file, 0, 100_000)))
    assert (outcome, len(got)) == (Sent.SHRUNK, 70_000)


async def pieces(*parts: bytes) -> AsyncIterator[bytes]:
    for part in parts:
        yield part


async def test_a_stream_of_unknown_length_is_chunked(pair: Pair) -> None:
    outcome, got, _ = await send(pair, Response(200, (), Stream(pieces(b"ab", b"", b"c" * 20))))
    assert (outcome, got) == (Sent.WHOLE, b"2\r\nab\r\n14\r\n" + b"c" * 20 + b"\r\n0\r\n\r\n")


async def test_a_stream_shorter_than_it_said_is_no_whole_answer(pair: Pair) -> None:
    outcome, got, _ = await send(pair, Response(200, (), Stream(pieces(b"abc"), 10)))
    assert (outcome, got) == (Sent.BROKEN, b"abc")


async def test_a_reader_that_stops_is_too_slow(pair: Pair) -> None:
    conn, _theirs = pair
    response = Response(200, (), bytes(1_000_000))
    writer = Writer(conn, limits(window=0.1))
    with trio.fail_after(5):
        sent = await writer.write(frame(response, b"GET", 1, True, b""), response)
    assert sent is Sent.SLOW
    assert 0 < writer.sent < 1_000_000


async def test_a_client_that_left_is_nobodys_mistake(pair: Pair) -> None:
    conn, theirs = pair
    theirs.close()
    response = Response(200, (), bytes(1_000_000))
    sent = await Writer(conn, limits()).write(frame(response, b"GET", 1, True, b""), response)
    assert sent is Sent.GONE
