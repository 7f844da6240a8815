"""Regression: the end of a multipart answer waited 200 ms in the kernel for more to come."""

from __future__ import annotations

import fcntl
import os
import socket
import struct
from pathlib import Path

import trio

from edgebox.files.entry import OpenFile
from edgebox.http.message import FileSlice, Response
from edgebox.listen.connection import Connection
from edgebox.send.framing import frame
from edgebox.send.writer import SendLimits, Sent, Writer

SIOCOUTQNSD = 0x894B  # linux/sockios.h: octets that were not sent even once


def unsent(sock: socket.socket) -> int:
    octets = fcntl.ioctl(sock, SIOCOUTQNSD, bytes(4))
    return int(struct.unpack("i", octets)[0])


async def test_nothing_of_a_finished_answer_is_held_back(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"0123456789")
    file = OpenFile(os.open(tmp_path / "file", os.O_RDONLY))
    bodies = [
        (b"head", FileSlice(file, 0, 5), b"head", FileSlice(file, 5, 5), b"end"),
        FileSlice(file, 0, 10),
        b"octets",
        b"",
    ]
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # as `listen` does
        with socket.create_connection(listener.getsockname()) as client:
            with listener.accept()[0] as sock:
                conn = Connection(sock, b"", b"", 0)
                for body in bodies:
                    response = Response(206, (), body)
                    wire = frame(response, b"GET", 1, True, b"")
                    limits = SendLimits(1, 5, 65536, trio.CapacityLimiter(1))
                    assert await Writer(conn, limits).write(wire, response) is Sent.WHOLE
                    assert unsent(sock) == 0, body
                    client.recv(65536)
    file.release()
