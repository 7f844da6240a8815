"""What a crowd reads from a growing file is exact, read once for all of them, and counted."""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio
import trio.testing

from edgebox.cache.readback import BLOCK, KEPT, ReadBack
from edgebox.files.entry import OpenFile
from edgebox.http.message import StreamBroken
from edgebox.memory.ledger import Account, Ledger

BODY = random.Random(5).randbytes(5 * BLOCK + 4321)


class Room:
    cramped = False

    def __init__(self) -> None:
        account: Account = Ledger(1 << 30).account("blocks")
        self.account = account
        self.charge, self.refund = account.charge, account.refund


@pytest.fixture
def file(tmp_path: Path) -> Iterator[OpenFile]:
    opened = OpenFile(os.open(tmp_path / "body", os.O_RDWR | os.O_CREAT))
    yield opened
    opened.release()


@pytest.fixture
def preads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Where each began."""
    begun: list[int] = []
    pread = os.pread

    def counted(fd: int, count: int, position: int) -> bytes:
        begun.append(position)
        return pread(fd, count, position)

    monkeypatch.setattr("edgebox.cache.readback.os.pread", counted)
    return begun


async def read_all(back: ReadBack, start: int, readers: int) -> bytes:
    got = bytearray()
    while start + len(got) < len(BODY):
        got += await back.get(start + len(got), len(BODY), readers)
    return bytes(got)


async def test_a_crowd_reads_each_block_once(file: OpenFile, preads: list[int]) -> None:
    os.write(file.fileno(), BODY)
    room = Room()
    back = ReadBack(file, room)
    got: list[bytes] = []

    async def follow() -> None:
        got.append(await read_all(back, 0, 100))

    async with trio.open_nursery() as nursery:
        for _ in range(100):
            nursery.start_soon(follow)
    assert got == [BODY] * 100
    assert sorted(preads) == list(range(0, len(BODY), BLOCK))
    assert 0 < room.account.held <= KEPT * BLOCK
    back.close()
    assert room.account.held == 0


@pytest.mark.parametrize("readers", [1, 2, 3])
@pytest.mark.parametrize("start", [0, 1, BLOCK - 1, BLOCK, 3 * BLOCK + 7, len(BODY) - 1])
async def test_from_anywhere_the_rest_is_exact(file: OpenFile, start: int, readers: int) -> None:
    os.write(file.fileno(), BODY)
    back = ReadBack(file, Room())
    assert await read_all(back, start, readers) == BODY[start:]


async def test_who_follows_what_grows_gets_it_all(file: OpenFile) -> None:
    back = ReadBack(file, Room())
    chance, written = random.Random(6), 0
    got = bytearray()
    while len(got) < len(BODY):
        more = BODY[written : written + chance.randrange(1, BLOCK)]
        os.write(file.fileno(), more)
        written += len(more)
        while len(got) < written:
            got += await back.get(len(got), written, 2)
    assert got == BODY


async def test_one_reader_holds_nothing(file: OpenFile) -> None:
    os.write(file.fileno(), BODY)
    room = Room()
    back = ReadBack(file, room)
    assert await back.get(0, len(BODY), 2) == BODY[:BLOCK]
    assert room.account.held == BLOCK
    assert await back.get(100, len(BODY), 1) == BODY[100 : 100 + BLOCK]
    assert room.account.held == 0


async def test_what_is_let_go_of_while_it_grows_is_counted_once(
    file: OpenFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.write(file.fileno(), BODY)
    monkeypatch.setattr("edgebox.cache.readback.KEPT", 1)
    room = Room()
    back = ReadBack(file, room)
    assert await back.get(0, 10, 2) == BODY[:10]
    go_on, pread = threading.Event(), os.pread

    def slow(fd: int, count: int, position: int) -> bytes:
        if position == 10:
            go_on.wait(5)
        return pread(fd, count, position)

    monkeypatch.setattr("edgebox.cache.readback.os.pread", slow)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(back.get, 10, 20, 2)
        await trio.testing.wait_all_tasks_blocked()
        await back.get(BLOCK, BLOCK + 5, 2)
        assert room.account.held == 5
        go_on.set()
    assert room.account.held == 20
    back.close()
    assert room.account.held == 0


async def test_what_the_disk_does_not_give_back_is_told_to_all(file: OpenFile) -> None:
    back = ReadBack(file, Room())
    told: list[str] = []

    async def follow() -> None:
        with pytest.raises(StreamBroken) as broken:
            await back.get(0, 100, 9)
        told.append(str(broken.value))

    async with trio.open_nursery() as nursery:
        for _ in range(9):
            nursery.start_soon(follow)
    assert told == ["the file of a fetch in progress is short"] * 9


async def test_a_reader_that_leaves_while_it_reads_leaves_it_to_another(file: OpenFile) -> None:
    os.write(file.fileno(), BODY)
    back = ReadBack(file, Room())
    with trio.CancelScope() as leaving:
        leaving.cancel()
        await back.get(0, len(BODY), 2)
    with trio.fail_after(5):
        assert await back.get(0, len(BODY), 2) == BODY[:BLOCK]
