"""A warm start: paths are handed on, and each is looked at anew."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio

from edgebox.config.schema import Compression, Config, Site
from edgebox.config.settle import look_at_machine, settle
from edgebox.files.entry import Docroot, FileEntry
from edgebox.files.statcache import Key
from edgebox.files.store import FileStore
from edgebox.memory.ledger import Ledger
from edgebox.memory.workingset import WorkingSet
from edgebox.ops.worker import warm
from tests.conftest import HELLO


@pytest.fixture
def fd() -> Iterator[int]:
    number = os.memfd_create("warm")
    yield number
    os.close(number)


def config_of(root: Path) -> Config:
    return settle(
        Config(site=(Site(root=str(root)),), compression=Compression(dir="/variants")),
        look_at_machine(),
    )


def store_of(config: Config) -> FileStore:
    working_set = WorkingSet(1 << 24, Ledger(1 << 25))
    return FileStore(config.files, working_set, lambda: None, lambda level, text: None)


def docroot(root: Path) -> Docroot:
    return Docroot(os.fsencode(root))


async def test_what_was_hot_is_known_to_the_next_one(root: Path, fd: int) -> None:
    config, before = config_of(root), store_of(config_of(root))
    for path in (b"/a.txt", b"/none", b"/sub", b"/index.html"):
        await before.find(docroot(root), path, time.monotonic())
        await trio.sleep(0.01)
    warm.leave(fd, before.hottest(warm.COUNT))
    before.close()
    found = warm.find(fd, config)
    assert found == [(docroot(root), b"/index.html"), (docroot(root), b"/a.txt")]

    after = store_of(config)
    (root / "a.txt").write_text("changed meanwhile")
    assert await warm.warm_up(after, found) == 2
    hits = after.statistics().hits
    entry = after.find_nowait(docroot(root), b"/index.html", time.monotonic())
    assert isinstance(entry, FileEntry)
    assert entry.content == HELLO
    assert after.statistics().hits == hits + 1
    entry = after.find_nowait(docroot(root), b"/a.txt", time.monotonic())
    assert isinstance(entry, FileEntry)
    assert entry.content == b"changed meanwhile"
    after.close()


def test_the_hottest_come_first_and_so_many(root: Path) -> None:
    store = store_of(config_of(root))
    for path in (b"/a.txt", b"/big.bin", b"/index.html", b"/empty.txt"):
        store.find_nowait(docroot(root), path, time.monotonic())
    assert [path for _, path in store.hottest(2)] == [b"/empty.txt", b"/index.html"]
    store.close()


def test_what_the_configuration_does_not_serve_is_left_out(root: Path, fd: int) -> None:
    variant: Key = (Docroot(b"/variants", "never", sealed=True), b"/x")
    links: Key = (Docroot(os.fsencode(root), "follow"), b"/a.txt")
    ours: Key = (docroot(root), b"/\xff")
    warm.leave(fd, [(Docroot(b"/etc"), b"/passwd"), links, variant, ours])
    assert warm.find(fd, config_of(root)) == [variant, ours]


@pytest.mark.parametrize("octets", [b"", b"[[", b'[["a","b"]]', b"\xff"])
def test_a_list_that_is_none_is_a_cold_start(root: Path, fd: int, octets: bytes) -> None:
    os.pwrite(fd, octets, 0)
    assert warm.find(fd, config_of(root)) == []


def test_a_shorter_list_leaves_nothing_of_a_longer_one(root: Path, fd: int) -> None:
    keys: list[Key] = [(docroot(root), b"/%d" % number) for number in range(100)]
    warm.leave(fd, keys)
    warm.leave(fd, keys[:1])
    assert warm.find(fd, config_of(root)) == keys[:1]


async def test_warming_up_is_over_in_time(
    root: Path, monkeypatch: pytest.MonkeyPatch, autojump_clock: trio.testing.MockClock
) -> None:
    store = store_of(config_of(root))

    async def find(*_: object) -> None:
        await trio.sleep(0.5)

    monkeypatch.setattr(store, "find_nowait", lambda *_: None)
    monkeypatch.setattr(store, "find", find)
    began = trio.current_time()
    assert await warm.warm_up(store, [(docroot(root), b"/x")] * 100) == 3
    assert trio.current_time() - began == pytest.approx(warm.WARM_UP)
    store.close()
