"""FAULTS: every class of the list has a test that bears its number, and those of nowhere else."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.box.conftest import Arena
from tests.wire import request

TESTS = Path(__file__).parent.parent
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
SETTINGS, CONTINUATION, RESET = (
    b"\0\0\0\4\0\0\0\0\0",
    b"\0\0\0\x09\0\0\0\0\1",
    b"\0\0\4\3\0\0\0\0\1\0\0\0\x08",
)


@pytest.mark.parametrize("frames", [SETTINGS, CONTINUATION * 1000, RESET * 1000])
async def test_49_http2_is_not_spoken_so_none_of_its_floods_is_heard(
    arena: Arena, frames: bytes
) -> None:
    async with arena() as server:
        octets = await server.exchange(PREFACE + frames)
        assert octets.startswith((b"HTTP/1.1 400 ", b"HTTP/1.1 505 "))
        assert octets.count(b"HTTP/1.1 ") == 1


async def test_49_nor_is_it_switched_to(arena: Arena) -> None:
    asks = ("Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABk")
    async with arena() as server:
        octets = await server.exchange(request("/a.txt", *asks), end=True)
        assert octets.startswith(b"HTTP/1.1 200 OK\r\n")


def test_every_class_of_the_list_has_a_test() -> None:
    covered: set[int] = set()
    for path in TESTS.rglob("test_*.py"):
        text = path.read_text()
        for names in re.findall(r"def test((?:_\d\d)+)_", text):
            covered |= {int(number) for number in re.findall(r"\d\d", names)}
        if path.parent.name == "box":  # tables of one row a case
            rows = re.findall(r"^    [A-Z][a-zA-Z]+\((\d{1,2}),", text, re.MULTILINE)
            covered |= {int(number) for number in rows}
    assert set(range(1, 84)) - covered == set()
