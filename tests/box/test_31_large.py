"""Files that are large, and files that shrink: exact to the octet, or visibly cut off."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.box.conftest import Box, Start, ask, running, wait_until

pytestmark = pytest.mark.slow

GIB = 1024 * 1024 * 1024
SIZE = 5 * GIB
MARKS = {  # position → octets written there; the rest is a hole and takes no disk
    0: b"the beginning",
    4 * GIB - 7: b"across 4 GiB",
    SIZE - 7: b"the end",
}


@pytest.fixture(scope="module")
def box(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Box]:
    root = tmp_path_factory.mktemp("large")
    with (root / "five.bin").open("wb") as file:
        file.truncate(SIZE)
        for position, octets in MARKS.items():
            file.seek(position)
            file.write(octets)
    with running("--root", str(root), "--listen", "127.0.0.1:0") as box:
        yield box
    (root / "five.bin").unlink()


def expected(first: int, last: int) -> bytes:
    octets = bytearray(last - first + 1)
    for position, mark in MARKS.items():
        for number, octet in enumerate(mark, position - first):
            if 0 <= number < len(octets):
                octets[number] = octet
    return bytes(octets)


def test_the_length_of_more_than_4_gib_is_told_in_full(box: Box) -> None:
    reply = ask(box, "/five.bin", method="HEAD")
    assert (reply.status, reply.headers["content-length"]) == (200, str(SIZE))


@pytest.mark.parametrize(
    ("first", "last"),
    [
        (0, 20),
        (2 * GIB - 1, 2 * GIB),
        (4 * GIB - 1, 4 * GIB),
        (4 * GIB - 10, 4 * GIB + 10),
        (4 * GIB, 4 * GIB),
        (4 * GIB - 2_000_000, 4 * GIB + 2_000_000),
        (SIZE - 10, SIZE - 1),
    ],
)
def test_ranges_around_4_gib_are_exact(box: Box, first: int, last: int) -> None:
    reply = ask(box, "/five.bin", range=f"bytes={first}-{last}")
    assert reply.status == 206
    assert reply.headers["content-range"] == f"bytes {first}-{last}/{SIZE}"
    assert reply.body == expected(first, last)


def test_open_and_suffix_ranges_at_the_end_are_exact(box: Box) -> None:
    for value in (f"bytes={SIZE - 7}-", "bytes=-7", f"bytes={SIZE - 7}-{SIZE * 2}"):
        reply = ask(box, "/five.bin", range=value)
        assert (reply.status, reply.body) == (206, b"the end")
    beyond = ask(box, "/five.bin", range=f"bytes={SIZE}-")
    assert (beyond.status, beyond.headers["content-range"]) == (416, f"bytes */{SIZE}")
    several = ask(box, "/five.bin", range=f"bytes=0-2,{4 * GIB - 7}-{4 * GIB + 4},-3")
    assert re.findall(rb"\r\n\r\n([^\r]+)\r\n--", several.body) == [b"the", b"across 4 GiB", b"end"]


def test_a_long_answer_across_4_gib_arrives_whole(box: Box) -> None:
    """Many turns of sendfile; all five GiB would push the rest out of the page cache."""
    first, last = 4 * GIB - GIB // 16, 4 * GIB + GIB // 16
    with box.connect() as sock:
        sock.sendall(b"GET /five.bin HTTP/1.0\r\nRange: bytes=%d-%d\r\n\r\n" % (first, last))
        octets = b""
        while b"\r\n\r\n" not in octets:
            octets += sock.recv(65536)
        head, _, content = octets.partition(b"\r\n\r\n")
        assert b"Content-Length: %d\r\n" % (last - first + 1) in head
        count, marks = len(content), b""
        buffer, hole = memoryview(bytearray(1024 * 1024)), bytes(1024 * 1024)
        while received := sock.recv_into(buffer):
            count += received
            if buffer[:received] != hole[:received]:
                marks += bytes(buffer[:received]).strip(b"\0")
    assert count == last - first + 1
    assert marks == MARKS[4 * GIB - 7]


def test_a_file_that_shrinks_while_it_is_sent_cuts_the_answer_and_is_logged(
    start: Start, root: Path, tmp_path: Path
) -> None:
    size, rest = 200 * 1024 * 1024, 60 * 1024 * 1024
    with (root / "shrinking.bin").open("wb") as file:
        file.truncate(size)
    log = tmp_path / "error.log"
    (tmp_path / "edgebox.toml").write_text(f'[log]\nerror = "{log}"\n[[site]]\nroot = "{root}"\n')
    box = start(cwd=tmp_path)
    with socket.create_connection(("127.0.0.1", box.port), timeout=30) as sock:
        sock.sendall(b"GET /shrinking.bin HTTP/1.1\r\nHost: x\r\n\r\n")
        count = len(sock.recv(1000))
        os.truncate(root / "shrinking.bin", rest)
        while received := len(sock.recv(1024 * 1024)):
            count += received
    assert rest <= count < size
    line = 'error: 127.0.0.1: "GET /shrinking.bin HTTP/1.1" cut off: file shrank'
    wait_until(lambda: line in log.read_text())
    assert ask(box, "/shrinking.bin", method="HEAD").headers["content-length"] == str(rest)


def test_a_large_file_does_not_go_through_memory(start: Start, root: Path) -> None:
    size = 300 * 1024 * 1024
    with (root / "large.bin").open("wb") as file:
        file.truncate(size)
    box = start("--root", str(root))

    def peak() -> int:
        status = Path(f"/proc/{box.worker}/status").read_text()
        return int(re.search(r"VmHWM:\s+(\d+) kB", status)[1]) * 1024  # type: ignore[index]

    ask(box, "/big.bin")
    before = peak()
    assert len(ask(box, "/large.bin").body) == size
    assert peak() - before < size // 10
