"""Long files: exact to the octet or visibly cut off, without a task, and gone when they end."""

from __future__ import annotations

import gc
import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
import trio

from edgebox.send import bandwidth, carrier
from tests.send.conftest import Boxes
from tests.wire import PATIENCE, Client, request

GIB = 1024 * 1024 * 1024


async def read_head(client: Client) -> bytes:
    """The head of an answer; what came of the body stays in the client's buffer."""
    with trio.fail_after(PATIENCE):
        while b"\r\n\r\n" not in client.buffer:
            client.buffer += await client.stream.receive_some(1024)
    head, _, client.buffer = client.buffer.partition(b"\r\n\r\n")
    return head


async def wait_for(condition: Callable[[], object]) -> None:
    with trio.fail_after(PATIENCE):
        while not condition():
            await trio.sleep(0.005)


def test_who_is_in_time_catches_up_little_and_who_is_late_what_he_missed() -> None:
    assert carrier.catch_up(0.0, True) < carrier.catch_up(0.0, False) <= bandwidth.CATCH_UP
    assert carrier.catch_up(0.080, False) == carrier.catch_up(0.080, True) >= 0.080
    assert carrier.catch_up(10.0, False) == bandwidth.OWED


@pytest.mark.slow
async def test_a_long_file_is_exact_and_the_connection_goes_on(boxes: Boxes) -> None:
    async with boxes() as box, box.connect() as client:
        for _ in range(2):
            await client.send(request("/long.bin"))
            assert (await client.read_answer()).body == box.body
            await client.send(request("/a.txt"))
            assert (await client.read_answer()).status == 200


@pytest.mark.slow
async def test_what_is_asked_meanwhile_is_answered_afterwards(boxes: Boxes) -> None:
    async with boxes() as box, box.connect() as client:
        await client.send(request("/long.bin"))
        await read_head(client)
        await client.send(request("/a.txt") + request("/long.bin") + request("/a.txt"))
        got = client.buffer
        with trio.fail_after(PATIENCE):
            while len(got) < len(box.body):
                got += await client.stream.receive_some(65536)
        assert got[: len(box.body)] == box.body
        client.buffer = got[len(box.body) :]
        assert (await client.read_answer()).body == b"0123456789" * 10
        assert (await client.read_answer()).body == box.body
        assert (await client.read_answer()).body == b"0123456789" * 10


@pytest.mark.slow
@pytest.mark.parametrize("field", ["Connection: close", "X: y"])
async def test_a_client_that_asks_for_the_end_gets_all_before_it(boxes: Boxes, field: str) -> None:
    async with boxes() as box, box.connect() as client:
        await client.send(request("/long.bin", field).replace(b"HTTP/1.1", b"HTTP/1.0"))
        await client.send(b"\r\n")  # some do; closing with it unread must not destroy the answer
        assert (await client.read_all()).partition(b"\r\n\r\n")[2] == box.body


@pytest.mark.slow
async def test_ranges_beyond_4_gib_are_exact(boxes: Boxes, root: Path) -> None:
    with (root / "large.bin").open("wb") as file:
        file.truncate(5 * GIB)
        file.seek(4 * GIB - 5)
        file.write(b"the middle")
    async with boxes() as box, box.connect() as client:
        first, last = 4 * GIB - 400_000, 4 * GIB + 400_000
        await client.send(request("/large.bin", f"Range: bytes={first}-{last}"))
        answer = await client.read_answer()
        assert answer.status == 206
        assert answer.headers["content-range"] == f"bytes {first}-{last}/{5 * GIB}"
        expected = bytearray(last - first + 1)
        expected[400_000 - 5 : 400_000 + 5] = b"the middle"
        assert answer.body == bytes(expected)


@pytest.mark.slow
async def test_an_answer_on_its_way_is_a_transfer_and_no_task(boxes: Boxes) -> None:
    async with boxes() as box:
        before = box.server.usage()
        async with box.connect(4096) as client:
            await client.send(request("/long.bin"))
            await read_head(client)
            await wait_for(lambda: box.transfers == 1)
            during = box.server.usage()
            assert (during.tasks, during.children) == (before.tasks + 1, before.children)
            assert box.server.worker.admission.carried == 1


@pytest.mark.slow
async def test_a_file_that_shrinks_is_cut_off_and_told(boxes: Boxes, root: Path) -> None:
    async with boxes() as box, box.connect(4096) as client:
        await client.send(request("/long.bin"))
        await read_head(client)
        await wait_for(lambda: box.transfers == 1)
        os.truncate(root / "long.bin", 400_000)
        assert len(await client.read_all()) <= 400_000
        await wait_for(lambda: b"shrank" in box.errors.read_bytes())


@pytest.mark.slow
async def test_who_does_not_read_is_cut_off_and_told(boxes: Boxes) -> None:
    limits = {"send_timeout": 0.2, "send_rate": 100_000}
    async with boxes(limits=limits) as box, box.connect(4096) as client:
        await client.send(request("/long.bin"))
        await wait_for(lambda: b"client too slow" in box.errors.read_bytes())
        assert box.transfers == 0
        assert len(await client.read_all()) < len(box.body)


@pytest.mark.slow
async def test_a_slow_reader_above_the_minimum_rate_gets_all(boxes: Boxes) -> None:
    limits = {"send_timeout": 0.3, "send_rate": 1000}
    async with boxes(limits=limits) as box, box.connect(16_384) as client:
        await client.send(request("/long.bin", "Range: bytes=0-299999"))
        await read_head(client)
        got = client.buffer
        with trio.fail_after(PATIENCE):
            for _ in range(8):
                await trio.sleep(0.06)
                got += await client.stream.receive_some(16_384)
            while len(got) < 300_000:
                got += await client.stream.receive_some(16_384)
        assert got == box.body[:300_000]


@pytest.mark.slow
async def test_a_client_that_leaves_frees_everything_at_once(boxes: Boxes) -> None:
    async with boxes(limits={"send_timeout": 600}) as box:
        before = box.server.usage()
        async with box.connect(4096) as client:
            await client.send(request("/long.bin"))
            await wait_for(lambda: box.transfers == 1)
        await wait_for(lambda: box.transfers == 0)
        assert await box.server.wait_rest() == before


@pytest.mark.slow
async def test_a_client_that_leaves_while_a_limit_holds_it_frees_everything(boxes: Boxes) -> None:
    async with boxes(limits={"client_rate": 1000}) as box:
        async with box.connect() as client:
            await client.send(request("/long.bin"))
            await wait_for(lambda: box.transfers == 1)
            await trio.sleep(0.05)
        await wait_for(lambda: box.transfers == 0)


@pytest.mark.slow
async def test_what_is_not_in_the_page_cache_is_read_in_by_a_thread(
    boxes: Boxes, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = []

    def load(fd: int, offset: int, length: int) -> None:
        loaded.append((offset, length))

    monkeypatch.setattr(carrier, "is_resident", lambda fd, offset, length: False)
    monkeypatch.setattr(carrier, "load_window", load)
    chunk = 400_000
    async with boxes(files={"sendfile_chunk": chunk}) as box, box.connect() as client:
        await client.send(request("/long.bin"))
        assert (await client.read_answer()).body == box.body
    size = len(box.body)
    assert loaded == [(at, min(chunk, size - at)) for at in range(0, size, chunk)]


@pytest.mark.slow
async def test_a_disk_that_fails_cuts_the_answer_off(
    boxes: Boxes, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(fd: int, offset: int, length: int) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(carrier, "is_resident", lambda fd, offset, length: False)
    monkeypatch.setattr(carrier, "load_window", fail)
    async with boxes() as box:
        async with box.connect() as client:
            await client.send(request("/long.bin"))
            assert (await client.read_all()).endswith(b"\r\n\r\n")
        gc.collect()  # the error that was raised above has frames that know the file


@pytest.mark.slow
async def test_draining_waits_until_the_file_is_out(boxes: Boxes) -> None:
    async with boxes() as box, box.connect(4096) as client:
        await client.send(request("/long.bin", "Connection: close"))
        await read_head(client)
        await wait_for(lambda: box.transfers == 1)
        worker = box.server.worker
        with trio.move_on_after(0.1) as waited:
            await worker.admission.wait_none()
        assert waited.cancelled_caught
        async with trio.open_nursery() as nursery:
            nursery.start_soon(worker.admission.wait_none)
            # With so small a window the rest would take up to half a minute.
            client.stream.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
            got = client.buffer
            while len(got) < len(box.body):
                got += await client.stream.receive_some(65536)
        assert got == box.body


@pytest.mark.slow
async def test_octets_are_counted_and_logged_whole_or_not(boxes: Boxes) -> None:
    async with boxes() as box:
        counters = box.server.worker.counters
        before = counters.statistics()["octets"]
        async with box.connect() as client:
            await client.send(request("/long.bin"))
            head = await read_head(client)
            got = client.buffer
            while len(got) < len(box.body):
                got += await client.stream.receive_some(65536)
        await wait_for(lambda: len([x for x in box.lines() if b"/long.bin" in x]) == 1)
        assert counters.statistics()["octets"] - before == len(head) + 4 + len(box.body)
        assert f'" 200 {len(box.body)} '.encode() in box.lines()[-1]
        async with box.connect(4096) as client:
            await client.send(request("/long.bin"))
            await wait_for(lambda: box.sent)
        await wait_for(lambda: len([x for x in box.lines() if b"/long.bin" in x]) == 2)
        size = int(box.lines()[-1].partition(b'" 200 ')[2].split()[0])
        assert 0 < size < len(box.body)
