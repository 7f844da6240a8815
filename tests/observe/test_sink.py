"""A log never holds up the server, and says what it lost."""

from __future__ import annotations

import errno
import fcntl
import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
import trio
import trio.testing

from edgebox.observe.sink import FileTarget, Sink


async def until(true: Callable[[], bool]) -> None:
    with trio.fail_after(5):
        while not true():
            await trio.sleep(0.01)


async def test_lines_reach_the_file_after_a_flush(tmp_path: Path, nursery: trio.Nursery) -> None:
    path = tmp_path / "log"
    sink = Sink(str(path), 1, 1000)
    nursery.start_soon(sink.run)
    sink.add(b"one ")
    sink.add(b"line\n")
    assert path.read_bytes() == b""
    sink.flush()
    await until(lambda: path.read_bytes() == b"one line\n")
    sink.add(b"last\n")
    sink.close()
    assert path.read_bytes() == b"one line\nlast\n"


async def test_after_rotation_lines_go_to_the_new_file(
    tmp_path: Path, nursery: trio.Nursery
) -> None:
    path = tmp_path / "log"
    sink = Sink(str(path), 1, 1000)
    nursery.start_soon(sink.run)
    sink.add(b"old\n")
    sink.flush()
    await until(lambda: path.stat().st_size > 0)
    path.rename(tmp_path / "log.1")
    sink.reopen()
    sink.add(b"new\n")
    sink.flush()
    await until(lambda: path.exists() and path.read_bytes() == b"new\n")
    assert (tmp_path / "log.1").read_bytes() == b"old\n"
    sink.close()


async def test_a_stuck_pipe_costs_lines_and_nothing_else(nursery: trio.Nursery) -> None:
    reader, writer = os.pipe()
    sink = Sink("-", writer, 300_000)
    nursery.start_soon(sink.run)
    for _ in range(10):
        sink.add(b"x" * 99_999 + b"\n")
        sink.flush()
        await trio.sleep(0.01)
    assert sink.dropped >= 6
    assert sink.statistics()["held"] <= 300_000
    nursery.cancel_scope.cancel()
    os.close(reader)
    os.close(writer)


async def test_a_batch_under_way_at_the_end_is_whole_before_the_file_is_closed(
    tmp_path: Path,
) -> None:
    path = tmp_path / "log"
    sink = Sink(str(path), 1, 100_000_000)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(sink.run)
        sink.add(b"x" * 50_000_000)
        sink.flush()
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    sink.close()
    assert path.stat().st_size == 50_000_000


async def test_a_full_disk_is_counted(nursery: trio.Nursery) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("needs /dev/full: mknod /dev/full c 1 7")
    sink = Sink("/dev/full", 1, 1000)
    nursery.start_soon(sink.run)
    sink.add(b"gone\n")
    sink.flush()
    await until(lambda: sink.dropped == 1)
    assert sink.statistics() == {"held": 0, "dropped": 1}
    assert sink.problem == os.strerror(errno.ENOSPC)
    sink.close()


async def test_a_line_that_was_torn_does_not_tear_the_next(tmp_path: Path) -> None:
    """A disk that is full for a moment: what was cut off stays on a line of its own."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096)
    target = FileTarget("", writer)
    lost = target.write(b"a" * 6000 + b"\n" + b"b\n")
    assert (lost, target.problem) == (2, os.strerror(errno.EAGAIN))
    assert os.read(reader, 10_000) == b"a" * 4096
    assert target.write(b"c\n") == 0
    assert target.write(b"d\n") == 0
    assert target.problem == ""
    assert os.read(reader, 10_000) == b"\nc\nd\n"
    os.close(reader)
    os.close(writer)


async def test_a_named_pipe_needs_no_reader_to_begin_with(
    tmp_path: Path, nursery: trio.Nursery
) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    sink = Sink(str(path), 1, 1000)
    nursery.start_soon(sink.run)
    sink.add(b"early\n")
    sink.flush()
    sink.reopen()
    await until(lambda: sink.statistics()["held"] == 0)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    assert os.read(reader, 100) == b"early\n"
    os.close(reader)
    assert sink.dropped == 0
    sink.close()


async def test_workers_do_not_write_into_each_other_s_lines(nursery: trio.Nursery) -> None:
    """Some workers, one pipe, and more in a batch than goes into it in one piece."""
    reader, writer = os.pipe()
    sinks = [Sink("-", writer, 1_000_000) for _ in range(3)]
    for number, sink in enumerate(sinks):
        nursery.start_soon(sink.run)
        for _ in range(1000):
            sink.add(b"%d" % number * 99 + b"\n")
        sink.flush()
    text = b""
    while len(text) < 300_000:
        text += await trio.to_thread.run_sync(os.read, reader, 10_000)
    for line in text.splitlines():
        assert line == line[:1] * 99
    os.close(reader)
    os.close(writer)


async def test_syslog_gets_a_message_a_line(tmp_path: Path, nursery: trio.Nursery) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        receiver.bind(str(tmp_path / "log"))
        receiver.settimeout(5)
        sink = Sink(f"syslog:{tmp_path}/log", 1, 1000, "access")
        assert sink.enabled
        nursery.start_soon(sink.run)
        sink.add(b"one\ntwo\n")
        sink.flush()
        for line in (b"one", b"two"):
            assert (await trio.to_thread.run_sync(receiver.recv, 1000)).endswith(
                b" access - " + line
            )
        sink.close()


def test_off_is_off() -> None:
    assert not Sink("off", 1, 10).enabled
