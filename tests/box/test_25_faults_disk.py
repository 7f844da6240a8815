"""Trouble with the disk: plain files are served all the same, whole, current, or visibly cut.

The numbers are those of the project's list of fault classes; here they touch files and
the directory of compressed variants.
"""

from __future__ import annotations

import ctypes
import gzip
import os
import random
import re
import resource
import signal
import struct
import time
from collections.abc import Callable
from pathlib import Path

import brotli
import pytest
import trio
from inotify_simple import flags

from edgebox.files import seal
from edgebox.files.compression.variants import variant_name
from edgebox.files.entry import Identity
from tests.box.conftest import Arena, Box, Start, ask, wait_until
from tests.conftest import HELLO
from tests.wire import PATIENCE, Server, configure, request, unharmed

slow = pytest.mark.slow

WORDS = random.Random(7).randbytes(90_000).hex(" ", 3).encode()  # 210 kB, 90 of them news


@pytest.fixture
def text(root: Path) -> Path:
    """A page that gets smaller by half."""
    (root / "page.txt").write_bytes(WORDS)
    return root / "page.txt"


@pytest.fixture
def box(start: Start, root: Path, tmp_path: Path) -> Callable[..., Box]:
    """Starts a box of `root` that makes br only and logs errors to `error.log`."""

    def start_one(cache: Path, **popen: object) -> Box:
        (tmp_path / "edgebox.toml").write_text(
            f'[log]\nerror = "{tmp_path / "error.log"}"\nlevel = "debug"\n'
            f'[compression]\ndir = "{cache}"\ncodings = ["br"]\n[[site]]\nroot = "{root}"\n'
        )
        return start(cwd=tmp_path, **popen)

    return start_one


def is_plain(box: Box) -> bool:
    reply = ask(box, "/page.txt", accept_encoding="br")
    return "content-encoding" not in reply.headers and reply.body == WORDS


def variants(directory: Path) -> list[Path]:
    return [path for path in directory.glob("??/*") if path.stat().st_size]


def small_disk(directory: Path) -> Callable[[], None]:
    """To be run between fork and exec: `directory` becomes a disk of 64 KiB.

    Where no file system may be mounted, no file may grow beyond that: the same for whoever
    writes, under another errno.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    path = os.fsencode(directory)
    new_user, new_mount, private = 0x10000000, 0x20000, 0x44000

    def fill() -> None:
        if libc.unshare(new_mount) == 0 or libc.unshare(new_user | new_mount) == 0:
            libc.mount(b"none", b"/", None, private, None)
            if libc.mount(b"tmpfs", path, b"tmpfs", 0, b"size=64k") == 0:
                return
        resource.setrlimit(resource.RLIMIT_FSIZE, (32768, 32768))

    return fill


@slow
def test_77_a_full_cache_disk_leaves_plain_files_and_no_debris(
    box: Callable[..., Box], text: Path, tmp_path: Path
) -> None:
    cache = tmp_path / "small"
    cache.mkdir()
    full = box(cache, preexec_fn=small_disk(cache))
    inside = Path(f"/proc/{full.process.pid}/root{cache}")  # as the process sees it
    mounted = str(cache) in Path(f"/proc/{full.process.pid}/mountinfo").read_text()
    deadline = time.monotonic() + (PATIENCE if mounted else 3)
    while time.monotonic() < deadline and "paused" not in (tmp_path / "error.log").read_text():
        assert is_plain(full)
        time.sleep(0.1)  # the helper gives way to everyone
    assert is_plain(full)
    assert ask(full, "/").body == HELLO
    assert variants(inside) == []
    assert list(inside.glob(".new-*")) == []
    full.signal(signal.SIGTERM)
    assert full.wait() == 0
    log = (tmp_path / "error.log").read_text()
    assert log.count("compression paused") == int(mounted)
    assert " error: " not in log


@slow
def test_78_a_read_only_cache_is_said_once(
    box: Callable[..., Box], text: Path, tmp_path: Path
) -> None:
    cache = tmp_path / "readonly"
    cache.mkdir(mode=0o555)
    if os.geteuid() == 0:  # whom no mode bits stop: the helper becomes the owner
        os.chown(cache, 65534, 65534)
    denied = box(cache)
    wait_until(lambda: is_plain(denied) and (tmp_path / "error.log").read_text())
    for _ in range(20):
        assert is_plain(denied)
    assert list(cache.iterdir()) == []
    denied.signal(signal.SIGTERM)
    assert denied.wait() == 0
    lines = (tmp_path / "error.log").read_text().splitlines()
    assert len(lines) == 1
    assert "warning: compression paused" in lines[0]


@slow
def test_79_a_kill_in_the_middle_leaves_nothing_that_is_served_wrong(
    box: Callable[..., Box], root: Path, tmp_path: Path
) -> None:
    cache = tmp_path / "cache"
    pages = {f"/{number}.txt": WORDS[number:] for number in range(3)}
    for path, content in pages.items():
        (root / path[1:]).write_bytes(content)
    for pause in (0.1, 0.6):
        killed = box(cache)
        for path in pages:
            ask(killed, path, accept_encoding="br")
        time.sleep(pause)
        killed.signal(signal.SIGKILL)
        killed.wait()
    cache.mkdir(exist_ok=True)  # one may be killed before it makes it
    (cache / ".new-1-0").write_bytes(b"left by another")
    last = box(cache)
    coded = set()
    deadline = time.monotonic() + PATIENCE * 3
    while coded != set(pages):
        assert time.monotonic() < deadline
        time.sleep(0.1)
        for path, content in pages.items():
            reply = ask(last, path, accept_encoding="br")
            if reply.headers.get("content-encoding") == "br":
                coded.add(path)
                assert brotli.decompress(reply.body) == content
            else:
                assert reply.body == content
    wait_until(lambda: not (cache / ".new-1-0").exists())
    for path in variants(cache):
        assert brotli.decompress(path.read_bytes()[: -seal.SIZE]) in pages.values()


async def test_80_an_empty_variant_or_sidecar_is_none(
    root: Path, text: Path, tmp_path: Path
) -> None:
    cache = tmp_path / "cache"
    for coding in (b"br", b"gzip", b"zstd"):
        name = os.fsdecode(variant_name(Identity.of(text.stat()), coding))
        (cache / name).parent.mkdir(parents=True, exist_ok=True)
        (cache / name).touch()
    (root / "a.txt.gz").touch()
    async with unharmed(configure(root, cache), tmp_path / "error.log") as server:
        for path in ("page.txt", "a.txt"):
            for _ in range(3):
                answer = await server.get(f"/{path}", "Accept-Encoding: br, gzip, zstd")
                assert "content-encoding" not in answer.headers
                assert answer.body == (root / path).read_bytes()


async def test_80_a_sidecar_older_than_its_source_is_none(arena: Arena, root: Path) -> None:
    (root / "a.txt.gz").write_bytes(gzip.compress(b"old"))
    os.utime(root / "a.txt.gz", (1_000_000_000, 1_000_000_000))
    async with arena() as server:
        answer = await server.get("/a.txt", "Accept-Encoding: gzip")
        assert answer.body == (root / "a.txt").read_bytes()


async def test_81_an_object_over_the_budget_is_not_kept_in_ram(arena: Arena, root: Path) -> None:
    whole = (root / "big.bin").read_bytes()
    files = {"working_set": 100_000, "object_size": 10_000_000}
    async with arena(files=files) as server:
        for _ in range(3):
            answer = await server.get("/big.bin")
            assert answer.body == whole
            accounts = server.worker.ledger.statistics().accounts
            assert accounts["working set"] <= 100_000
            assert sum(accounts.values()) < len(whole)


def lose(server: Server, *events: bytes) -> None:
    """Have the events that wait unread lost, and these heard instead."""
    watchdog = server.worker.store._watchdog
    assert watchdog._inotify is not None
    os.read(watchdog._inotify.fileno(), 65536)
    for event in events:
        watchdog.hear(event)


def event(descriptor: int, mask: int) -> bytes:
    """As inotify(7) lays it out."""
    return struct.pack("iIII", descriptor, mask, 0, 0)


async def current(server: Server, target: str, body: bytes, within: float) -> None:
    with trio.fail_after(within):
        while (await server.get(target)).body != body:
            await trio.sleep(0.005)


@slow
async def test_82_after_an_overflow_everything_is_looked_at_again(
    arena: Arena, root: Path, tmp_path: Path
) -> None:
    async with arena() as server:
        await server.get("/a.txt")
        (root / "a.txt").write_bytes(b"new")
        lose(server, event(-1, flags.Q_OVERFLOW))
        assert (await server.get("/a.txt")).body == b"new"
        (root / "a.txt").write_bytes(b"newer")  # and events are heard again
        await current(server, "/a.txt", b"newer", 1)
    assert (tmp_path / "error.log").read_text().count("overflow") == 1


@slow
async def test_82_lost_events_cost_at_most_the_bound(arena: Arena, root: Path) -> None:
    async with arena(files={"stale_bound": 1.2}) as server:
        await server.get("/a.txt")
        (root / "a.txt").write_bytes(b"new")
        lose(server)
        await current(server, "/a.txt", b"new", 1.2 + 1)


@slow
async def test_82_after_an_unmount_a_path_is_looked_at_again(
    arena: Arena, root: Path, tmp_path: Path
) -> None:
    async with arena(files={"stale_bound": 1.2}) as server:
        await server.get("/a.txt")
        (root / "a.txt").write_bytes(b"new")
        descriptors = list(server.worker.store._watchdog._by_descriptor)
        lose(server, *(event(number, flags.UNMOUNT) for number in descriptors))
        assert (await server.get("/a.txt")).body == b"new"
        for number in descriptors:
            server.worker.store._watchdog.hear(event(number, flags.IGNORED))
        (root / "a.txt").write_bytes(b"newer")
        await current(server, "/a.txt", b"newer", 1.2 + 1)
    assert (tmp_path / "error.log").read_text().count("unmounted") == 1


@slow
@pytest.mark.parametrize("watches", [0, 1])
async def test_82_without_watches_the_bound_still_holds(
    arena: Arena, root: Path, tmp_path: Path, watches: int
) -> None:
    paths = [root / "a.txt", root / "sub" / "index.html"]
    async with arena(files={"stale_bound": 1.2, "watches": watches}) as server:
        for path in paths:
            await server.get(f"/{path.relative_to(root)}")
            path.write_bytes(b"new")
        for path in paths:
            await current(server, f"/{path.relative_to(root)}", b"new", 1.2 + 1)


@slow
async def test_83_a_file_that_shrinks_while_it_is_sent_is_cut_off(
    arena: Arena, root: Path, tmp_path: Path
) -> None:
    size = 64 * 1024 * 1024
    with (root / "huge.bin").open("wb") as file:
        file.truncate(size)
    async with arena() as server, server.connect() as client:
        await client.send(request("/huge.bin"))
        head = await client.stream.receive_some(100)
        assert b" 200 OK\r\n" in head
        os.truncate(root / "huge.bin", 20 * 1024 * 1024)
        assert len(await client.read_all()) < size
        assert (await server.get("/huge.bin", "Range: bytes=0-0")).headers[
            "content-range"
        ] == f"bytes 0-0/{20 * 1024 * 1024}"
    assert '"GET /huge.bin HTTP/1.1" cut off: file shrank' in (tmp_path / "error.log").read_text()


def test_no_class_of_this_section_is_missing() -> None:
    covered = {int(found[1]) for name in globals() if (found := re.match(r"test_(\d\d)_", name))}
    assert covered == set(range(77, 84))
