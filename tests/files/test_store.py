"""No stale octet, no lost descriptor, no wait in the loop: the store as handlers use it."""

from __future__ import annotations

import errno
import os
import threading
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing
from inotify_simple import INotify

from edgebox.files import store as module
from edgebox.files.entry import Directory, Docroot, FileEntry, Found, Missing
from edgebox.files.look import take_look

pytestmark = pytest.mark.usefixtures("no_leaks")

Rig = Any  # see conftest.py, which cannot be imported from
MakeRig = Callable[..., Any]
WaitUntil = Callable[[Callable[[], object]], Awaitable[None]]

SETTLED = 0.03  # seconds until a file's times tell its next change apart


# -- what is found


async def test_files_directories_and_nothing(rig: Rig) -> None:
    rig.write("sub/page", b"page")
    assert await rig.read(b"/sub/page") == b"page"
    assert await rig.read(b"/sub") == Directory(b"/sub")
    assert await rig.read(b"/sub/") == Directory(b"/sub/")
    assert await rig.read(b"/") == Directory(b"/")
    assert await rig.read(b"/none") is Missing.NOT_FOUND
    assert await rig.read(b"/none/deeper") is Missing.NOT_FOUND
    assert await rig.read(b"/sub/page/") is Missing.NOT_FOUND
    assert await rig.read(b"/sub/nul\0") is Missing.NOT_FOUND


async def test_a_small_file_is_content_and_a_large_one_a_descriptor(rig: Rig) -> None:
    rig.write("edge", b"x" * 4096)
    rig.write("large", b"x" * 4097)
    edge, large = await rig.find(b"/edge"), await rig.find(b"/large")
    assert (edge.content, edge.file) == (b"x" * 4096, None)
    assert large.content is None
    assert os.pread(large.file.fileno(), 5000, 0) == b"x" * 4097
    assert large.size == 4097


async def test_a_known_file_costs_no_system_call(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    rig.write("page", b"page")
    first = await rig.find(b"/page")
    for name in ("take_look", "identify", "walk"):
        monkeypatch.setattr(module, name, None)
    assert rig.store.find_nowait(rig.docroot, b"/page", rig.now) is first
    assert await rig.store.find(rig.docroot, b"/page", rig.now) is first
    assert rig.store.statistics().hits == 2


async def test_special_files_are_not_found_and_not_waited_for(rig: Rig) -> None:
    os.mkfifo(rig.root / "fifo")
    with trio.fail_after(5):
        assert await rig.read(b"/fifo") is Missing.NOT_FOUND


async def test_symlinks_do_not_lead_out(rig: Rig) -> None:
    secret = rig.root.parent / "secret"
    secret.write_bytes(b"secret")
    (rig.root / "relative").symlink_to("../secret")
    (rig.root / "absolute").symlink_to(secret)
    (rig.root / "passwd").symlink_to("/etc/passwd")
    for path in (b"/relative", b"/absolute", b"/passwd", b"/../secret"):
        found = await rig.find(path)
        assert isinstance(found, Missing)
        assert found.status == 404
    follow = rig.docroot._replace(symlinks="follow")
    assert (await rig.find(b"/relative", docroot=follow)).content == b"secret"


async def test_an_absolute_symlink_to_within_is_served_and_confirmed(make_rig: MakeRig) -> None:
    rig = make_rig()
    rig.write("page", b"page")
    (rig.root / "link").symlink_to(rig.root / "page")
    time.sleep(SETTLED)
    assert await rig.read(b"/link") == b"page"
    looks = rig.store.statistics().looks
    assert await rig.read(b"/link", after=1.5) == b"page"
    statistics = rig.store.statistics()
    assert (statistics.looks, statistics.rechecks) == (looks, 1)
    (rig.root / "page").write_bytes(b"new")
    assert await rig.read(b"/link", after=3.0) == b"new"


# -- changes that are heard of: the clock stands still


async def test_edits_in_place_show(rig: Rig) -> None:
    page = rig.write("sub/page", b"old")
    async with rig.running():
        assert await rig.read(b"/sub/page") == b"old"
        with page.open("r+b", buffering=0) as file:
            file.write(b"new")  # same size, and the writer keeps it open
            await rig.wait_read(b"/sub/page", b"new")
            file.truncate(1)
            await rig.wait_read(b"/sub/page", b"n")
            file.truncate(0)
            await rig.wait_read(b"/sub/page", b"")
        assert rig.changes


async def test_atomic_replacement_shows(rig: Rig) -> None:
    page = rig.write("page", b"old")
    async with rig.running():
        before = await rig.find(b"/page")
        rig.write("page.new", b"new").rename(page)
        await rig.wait_read(b"/page", b"new")
        after = await rig.find(b"/page")
        assert after.etag != before.etag


async def test_a_replacement_that_copies_every_time_shows(rig: Rig) -> None:
    page = rig.write("page", b"old")
    async with rig.running():
        before = await rig.find(b"/page")
        new = rig.write("page.new", b"new")
        os.utime(new, ns=(0, page.stat().st_mtime_ns))
        new.rename(page)
        await rig.wait_read(b"/page", b"new")
        after = await rig.find(b"/page")
        assert after.mtime == before.mtime
        assert after.etag != before.etag


async def test_what_comes_and_goes_shows(rig: Rig) -> None:
    rig.write("sub/other", b"")
    async with rig.running():
        assert await rig.read(b"/sub/page") is Missing.NOT_FOUND
        page = rig.write("sub/page", b"page")
        await rig.wait_read(b"/sub/page", b"page")
        page.unlink()
        await rig.wait_read(b"/sub/page", Missing.NOT_FOUND)
        (rig.root / "sub" / "other").rename(page)
        await rig.wait_read(b"/sub/page", b"")
        page.rename(rig.root / "elsewhere")
        await rig.wait_read(b"/sub/page", Missing.NOT_FOUND)


async def test_a_directory_that_comes_and_goes_shows(rig: Rig) -> None:
    async with rig.running():
        assert await rig.read(b"/a/b/page") is Missing.NOT_FOUND
        rig.write("a/b/page", b"page")
        await rig.wait_read(b"/a/b/page", b"page")
        (rig.root / "a").rename(rig.root / "z")
        await rig.wait_read(b"/a/b/page", Missing.NOT_FOUND)
        await rig.wait_read(b"/z/b/page", b"page")
        rig.write("next/b/page", b"next")
        (rig.root / "next").rename(rig.root / "a")
        await rig.wait_read(b"/a/b/page", b"next")
        rig.write("a/b/page", b"edited")
        await rig.wait_read(b"/a/b/page", b"edited")


async def test_a_file_that_becomes_a_directory_shows(rig: Rig) -> None:
    page = rig.write("page", b"page")
    async with rig.running():
        assert await rig.read(b"/page") == b"page"
        page.unlink()
        page.mkdir()
        await rig.wait_read(b"/page", Directory(b"/page"))


def flip(link: Path, target: str) -> None:
    """Point `link` elsewhere in one step, as a deploy does."""
    new = link.with_name(link.name + ".new")
    new.symlink_to(target)
    new.rename(link)


async def test_symlink_flips_show(rig: Rig) -> None:
    for release in ("one", "two"):
        rig.write(f"{release}/page", release.encode())
    (rig.root / "file").symlink_to("one/page")
    (rig.root / "current").symlink_to("one")
    (rig.root / "through").symlink_to("current/page")
    async with rig.running():
        for path in (b"/file", b"/current/page", b"/through"):
            assert await rig.read(path) == b"one"
        flip(rig.root / "file", "two/page")
        flip(rig.root / "current", "two")
        for path in (b"/file", b"/current/page", b"/through"):
            await rig.wait_read(path, b"two")
        rig.write("two/page", b"edited")
        for path in (b"/file", b"/current/page", b"/through"):
            await rig.wait_read(path, b"edited")


async def test_a_flip_of_the_docroot_shows(rig: Rig) -> None:
    releases = rig.root.parent / "releases"
    for release in ("one", "two"):
        (releases / release).mkdir(parents=True)
        (releases / release / "page").write_bytes(release.encode())
    current = rig.root.parent / "current"
    current.symlink_to("releases/one")
    rig.docroot = Docroot(os.fsencode(current))
    async with rig.running():
        assert await rig.read(b"/page") == b"one"
        assert await rig.read(b"/none") is Missing.NOT_FOUND
        flip(current, "releases/two")
        await rig.wait_read(b"/page", b"two")
        (releases / "two" / "none").write_bytes(b"there")
        await rig.wait_read(b"/none", b"there")


async def test_a_docroot_moved_away_and_replaced_shows(rig: Rig) -> None:
    rig.write("page", b"old")
    async with rig.running():
        assert await rig.read(b"/page") == b"old"
        rig.root.rename(rig.root.parent / "previous")
        rig.write("page", b"new")
        await rig.wait_read(b"/page", b"new")
        rig.write("page", b"edited")
        await rig.wait_read(b"/page", b"edited")


async def test_a_mode_that_changes_is_a_change(rig: Rig, wait_until: WaitUntil) -> None:
    page = rig.write("page", b"page")
    async with rig.running():
        before = await rig.find(b"/page")
        rig.changes.clear()
        page.chmod(0o600)
        await wait_until(lambda: rig.changes)
        assert await rig.find(b"/page") is not before


async def test_one_change_leaves_the_others_alone(rig: Rig, wait_until: WaitUntil) -> None:
    rig.write("a/page", b"a")
    rig.write("b/page", b"b")
    async with rig.running():
        await rig.find(b"/a/page")
        kept = await rig.find(b"/b/page")
        rig.write("a/page", b"new")
        await rig.wait_read(b"/a/page", b"new")
        assert await rig.find(b"/b/page") is kept


async def test_noise_in_a_served_directory_costs_no_answers(
    rig: Rig, wait_until: WaitUntil
) -> None:
    rig.write("page", b"page")
    async with rig.running():
        page = await rig.find(b"/page")
        rig.write("access.log", b"GET\n" * 10)
        await wait_until(lambda: rig.store.statistics().watchdog.events >= 2)
        await trio.testing.wait_all_tasks_blocked(0.01)
        assert not rig.changes
        assert await rig.find(b"/page") is page


async def test_a_change_of_what_made_room_is_still_told(
    make_rig: MakeRig, wait_until: WaitUntil
) -> None:
    rig = make_rig(stale_bound=3600.0, working_set=4096)
    rig.write("a", b"a" * 3000)
    rig.write("b", b"b" * 3000)
    async with rig.running():
        await rig.find(b"/a")
        await rig.find(b"/b")  # an answer made from /a may still be remembered
        rig.changes.clear()
        rig.write("a", b"new")
        await wait_until(lambda: rig.changes)


async def test_a_change_during_a_look_in_a_thread_shows(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = rig.write("page", b"old")
    heard = threading.Event()
    looks = []

    def slow_look(*args: object, nowait: bool, **kwargs: object) -> object:
        if nowait:
            return None
        sight = take_look(*args, nowait=False)  # type: ignore[arg-type]
        looks.append(sight)
        if len(looks) == 2:  # the first only sets the watches
            page.write_bytes(b"new")
            assert heard.wait(5)
        return sight

    monkeypatch.setattr(module, "take_look", slow_look)
    tell_when_heard(rig, monkeypatch, heard)
    async with rig.running():
        assert await rig.read(b"/page") == b"new"
    assert len(looks) == 3


def tell_when_heard(rig: Rig, monkeypatch: pytest.MonkeyPatch, heard: threading.Event) -> None:
    hear = rig.store._watchdog.hear

    def hear_and_tell(data: bytes) -> None:
        hear(data)
        heard.set()

    monkeypatch.setattr(rig.store._watchdog, "hear", hear_and_tell)


# -- changes that nobody hears of: the bound


@pytest.mark.parametrize("engine", ["inotify", "ttl", "off"])
async def test_without_events_a_change_shows_within_the_bound(
    make_rig: MakeRig, engine: str
) -> None:
    rig = make_rig(stat_cache=engine)  # and its watchdog does not run
    page = rig.write("page", b"old")
    await trio.sleep(SETTLED)
    assert await rig.read(b"/page") == b"old"
    assert await rig.read(b"/none") is Missing.NOT_FOUND
    page.write_bytes(b"new")
    rig.write("none", b"there")
    # What the lane remembers at 1 s it repeats until 2 s.
    if engine != "off":
        assert await rig.read(b"/page", after=0.9) == b"old"
        assert await rig.read(b"/none", after=0.9) is Missing.NOT_FOUND
    assert await rig.read(b"/page", after=1.01) == b"new"
    assert await rig.read(b"/none", after=1.01) == b"there"
    assert rig.changes  # so the lane forgets at once


async def test_a_hard_link_edited_elsewhere_shows_within_the_bound(make_rig: MakeRig) -> None:
    rig = make_rig()
    elsewhere = rig.root.parent / "elsewhere"
    elsewhere.write_bytes(b"old")
    os.link(elsewhere, rig.root / "page")
    await trio.sleep(SETTLED)
    async with rig.running():
        assert await rig.read(b"/page") == b"old"
        with elsewhere.open("r+b") as file:
            file.write(b"new")
        assert await rig.read(b"/page", after=1.01) == b"new"


async def test_an_unchanged_file_is_confirmed_without_reading_it(make_rig: MakeRig) -> None:
    rig = make_rig()
    rig.write("page", b"page")
    await trio.sleep(SETTLED)
    first = await rig.find(b"/page")
    looks = rig.store.statistics().looks
    for seconds in (2, 4, 6, 8, 10):
        assert await rig.find(b"/page", after=seconds) is first
    statistics = rig.store.statistics()
    assert (statistics.looks, statistics.rechecks) == (looks, 5)
    assert not rig.changes


async def test_a_file_changed_this_instant_is_read_again(make_rig: MakeRig) -> None:
    rig = make_rig()
    for i in range(50):  # until a look came within the tick, on a slow machine too
        path = b"/%d" % i
        rig.write(path.decode()[1:], b"page")
        young = await rig.find(path)
        if rig.store._holdings.get((rig.docroot, path)).unsettled_for:
            break
    await trio.sleep(SETTLED)
    settled = await rig.find(path, after=SETTLED)
    assert settled is not young
    assert settled.identity == young.identity
    assert settled.etag != young.etag  # two contents could have shared it
    assert await rig.find(path, after=2 * SETTLED) is settled
    assert await rig.find(path, after=2.0) is settled


@pytest.mark.parametrize(
    ("keys", "rememberable"),
    [
        ({}, True),
        ({"stat_cache": "ttl"}, True),
        ({"stat_cache": "off"}, False),
        ({"stale_bound": 0.9}, False),
        ({"stale_bound": 1.0}, True),
    ],
)
def test_answers_may_be_remembered_only_if_the_bound_allows(
    make_rig: MakeRig, keys: dict[str, object], rememberable: bool
) -> None:
    assert make_rig(**keys).store.rememberable is rememberable


async def test_lost_events_make_everything_be_looked_at_again(rig: Rig) -> None:
    page = rig.write("page", b"old")
    await rig.find(b"/page")
    page.write_bytes(b"new")
    overflow = b"\xff\xff\xff\xff" + (0x4000).to_bytes(4, "little") + bytes(8)
    rig.store._watchdog.hear(overflow)
    assert rig.changes
    assert await rig.read(b"/page") == b"new"
    assert rig.store.statistics().watchdog.overflows == 1


async def test_a_full_watch_table_falls_back_to_the_bound(
    make_rig: MakeRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> int:
        raise OSError(errno.ENOSPC, "inotify watch limit reached")

    monkeypatch.setattr(INotify, "add_watch", refuse)
    rig = make_rig()
    for name in ("a", "b"):
        rig.write(name, b"old")
    await trio.sleep(SETTLED)
    async with rig.running():
        for path in (b"/a", b"/b"):
            assert await rig.read(path) == b"old"
        rig.write("a", b"new")
        assert await rig.read(b"/a", after=1.01) == b"new"
    assert len(rig.said) == 1
    assert rig.store.statistics().watchdog.uncovered >= 2


async def test_few_watches_go_to_the_directories_in_use(make_rig: MakeRig) -> None:
    rig = make_rig(watches=2)
    for name in ("a", "b", "c"):
        rig.write(f"{name}/page", b"old")
    await trio.sleep(SETTLED)
    async with rig.running():
        for path in (b"/a/page", b"/b/page", b"/c/page"):
            assert await rig.read(path) == b"old"
        assert rig.store.statistics().watchdog.watches == 2
        for name in ("a", "b", "c"):
            rig.write(f"{name}/page", b"new")
        await rig.wait_read(b"/c/page", b"new")
        assert await rig.read(b"/a/page", after=1.01) == b"new"
        assert await rig.read(b"/b/page", after=1.01) == b"new"


async def test_no_inotify_instance_falls_back_to_the_bound(
    make_rig: MakeRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    with monkeypatch.context() as patch:
        patch.setattr(INotify, "__init__", refuse)
        rig = make_rig()
    rig.write("page", b"old")
    await trio.sleep(SETTLED)
    async with rig.running():
        assert await rig.read(b"/page") == b"old"
        rig.write("page", b"new")
        assert await rig.read(b"/page", after=1.01) == b"new"
    assert not rig.store.statistics().watchdog.active
    assert len(rig.said) == 1


# -- exhaustion


async def test_without_descriptors_it_is_503_and_not_remembered(
    make_rig: MakeRig, descriptors_to_spare: Callable[[int], AbstractContextManager[None]]
) -> None:
    rig = make_rig()
    rig.write("page", b"page")
    rig.write("hot", b"hot")
    await trio.sleep(SETTLED)
    assert await rig.read(b"/hot") == b"hot"
    with descriptors_to_spare(1):
        assert await rig.find(b"/page") is Missing.NO_DESCRIPTORS
        assert await rig.read(b"/hot", after=0.5) == b"hot"
        assert await rig.find(b"/hot", after=1.5) is Missing.NO_DESCRIPTORS
    assert await rig.read(b"/page") == b"page"
    assert await rig.read(b"/hot", after=1.5) == b"hot"


async def test_an_error_of_the_disk_is_500_and_not_remembered(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig.write("page", b"page")
    with monkeypatch.context() as patch:
        patch.setattr("edgebox.files.look.resident_read", lambda *_: None)
        patch.setattr("edgebox.files.look.read_blocking", lambda *_: b"")
        assert await rig.find(b"/page") is Missing.IO_ERROR
    assert await rig.read(b"/page") == b"page"


async def test_the_bounds_hold(make_rig: MakeRig) -> None:
    rig = make_rig(entries=16, negative_entries=16, open_files=4, working_set=8192)
    for i in range(40):
        rig.write(f"small{i}", b"x" * 1000)
        rig.write(f"large{i}", b"x" * 5000)
    for i in range(40):
        for kind in (b"/small", b"/large", b"/none"):
            await rig.find(kind + b"%d" % i)
    holdings = rig.store.statistics().holdings
    assert holdings.entries <= 16
    assert holdings.negative_entries == 16
    assert holdings.open_files == 4
    accounts = rig.ledger.statistics().accounts
    assert accounts["working set"] <= 8192
    assert accounts["paths"] == 1024 * (holdings.entries + holdings.negative_entries)
    watchdog = rig.store.statistics().watchdog
    assert (watchdog.watches, watchdog.coverages) == (1, 1)


async def test_what_is_in_use_is_the_last_to_make_room(make_rig: MakeRig) -> None:
    rig = make_rig(stale_bound=3600.0, working_set=8192, watches=3)
    for name in ("hot", "a", "b"):
        rig.write(f"{name}/page", name[:1].encode() * 3000)
    await trio.sleep(SETTLED)
    async with rig.running():
        hot = await rig.find(b"/hot/page")
        await rig.find(b"/a/page")
        assert await rig.find(b"/hot/page", after=1.5) is hot
        await rig.find(b"/b/page", after=1.5)
        assert await rig.find(b"/hot/page", after=1.5) is hot
        assert rig.store.statistics().holdings.evicted == 1
        rig.write("hot/page", b"new")  # and its directory still has its watch
        await rig.wait_read(b"/hot/page", b"new")


async def test_a_flood_of_missing_directories_leaves_nothing_behind(make_rig: MakeRig) -> None:
    rig = make_rig(negative_entries=16)
    for i in range(100):
        assert await rig.find(b"/no%d/page" % i) is Missing.NOT_FOUND
    assert rig.store.statistics().watchdog.coverages <= 16


async def test_without_room_in_the_budget_files_are_served_all_the_same(make_rig: MakeRig) -> None:
    rig = make_rig(budget=100)
    rig.write("page", b"x" * 3000)
    for _ in range(2):
        entry = await rig.find(b"/page")
        assert entry.content is None
        assert os.pread(entry.file.fileno(), 4000, 0) == b"x" * 3000


async def test_a_large_file_in_hand_outlives_its_change(rig: Rig) -> None:
    path = rig.write("large", b"old" * 2000)
    async with rig.running():
        entry = await rig.find(b"/large")
        file = entry.file.acquire()
        rig.write("new", b"new" * 3000).rename(path)
        with trio.fail_after(5):
            while (found := await rig.find(b"/large")) is entry:
                await trio.sleep(0.002)
        assert os.pread(found.file.fileno(), 3, 0) == b"new"
        assert os.pread(file.fileno(), 3, 0) == b"old"
        file.release()


async def test_a_deleted_large_file_is_let_go(rig: Rig, wait_until: WaitUntil) -> None:
    path = rig.write("sub/large", b"x" * 5000)
    async with rig.running():
        fd = (await rig.find(b"/sub/large")).file.fileno()
        assert os.readlink(f"/proc/self/fd/{fd}") == str(path)
        (rig.root / "sub").rename(rig.root / "old")
        await wait_until(lambda: rig.store.statistics().holdings.open_files == 0)
        assert not os.path.lexists(f"/proc/self/fd/{fd}")


# -- threads


class Gate:
    """A disk that answers when it is told to; `nowait` always would have to wait."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.opened = threading.Event()
        self.begun = 0
        monkeypatch.setattr(module, "take_look", self.look)

    def look(self, docroot: Docroot, path: bytes, size: int, *, nowait: bool) -> object:
        if nowait:
            return None
        self.begun += 1
        assert self.opened.wait(10)
        return take_look(docroot, path, size, nowait=False)


async def test_all_who_ask_for_a_cold_path_share_one_look(
    make_rig: MakeRig, monkeypatch: pytest.MonkeyPatch, wait_until: WaitUntil
) -> None:
    rig = make_rig(stat_cache="ttl")
    rig.write("small", b"x")
    rig.write("large", b"x" * 5000)
    gate = Gate(monkeypatch)
    found: list[Found] = []

    async def ask(path: bytes) -> None:
        found.append(await rig.store.find(rig.docroot, path, rig.now))

    for number, path in enumerate((b"/small", b"/large", b"/none"), start=1):
        found.clear()
        gate.opened.clear()
        async with trio.open_nursery() as nursery:
            for _ in range(10):
                nursery.start_soon(ask, path)
            await wait_until(lambda: gate.begun == number)  # noqa: B023
            await trio.testing.wait_all_tasks_blocked()
            gate.opened.set()
        assert len(found) == 10
        assert len(set(map(id, found))) == 1
        assert gate.begun == number
    assert rig.store.statistics().hops == 3


async def test_a_cold_path_does_not_stop_the_loop_nor_hot_ones(
    make_rig: MakeRig, monkeypatch: pytest.MonkeyPatch, wait_until: WaitUntil
) -> None:
    rig = make_rig(stat_cache="ttl")
    rig.write("hot", b"hot")
    rig.write("cold", b"cold")
    assert await rig.read(b"/hot") == b"hot"
    gate = Gate(monkeypatch)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(rig.read, b"/cold")
        await wait_until(lambda: gate.begun == 1)
        assert await rig.read(b"/hot") == b"hot"
        gate.opened.set()


async def test_who_gives_up_leaves_the_others_served_and_nothing_open(
    make_rig: MakeRig, monkeypatch: pytest.MonkeyPatch, wait_until: WaitUntil
) -> None:
    rig = make_rig(stat_cache="ttl")
    rig.write("large", b"x" * 5000)
    gate = Gate(monkeypatch)
    found: list[Found] = []

    async def ask() -> None:
        found.append(await rig.store.find(rig.docroot, b"/large", rig.now))

    async def give_up() -> None:
        with impatient:
            await rig.store.find(rig.docroot, b"/large", rig.now)

    impatient = trio.CancelScope()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(give_up)
        await wait_until(lambda: gate.begun == 1)
        impatient.cancel()
        await wait_until(lambda: impatient.cancelled_caught)  # though the disk has not answered
        nursery.start_soon(ask)
        await wait_until(lambda: gate.begun == 2)
        gate.opened.set()
    assert isinstance(found[0], FileEntry)
    assert rig.store.statistics().holdings.open_files == 1


async def test_one_hop_brings_in_the_first_file_of_a_directory(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig.write("sub/page", b"page")
    threads: list[int] = []

    def look(*args: object, nowait: bool) -> object:
        if nowait and not threads:
            return None
        threads.append(threading.get_ident())
        return take_look(*args, nowait=nowait)  # type: ignore[arg-type]

    monkeypatch.setattr(module, "take_look", look)
    assert await rig.read(b"/sub/page") == b"page"
    # The thread's look came before the watch, so the loop took another.
    assert [ident == threading.get_ident() for ident in threads] == [False, True]
    async with rig.running():
        rig.write("sub/page", b"new")
        await rig.wait_read(b"/sub/page", b"new")


async def test_no_more_threads_than_allowed(
    make_rig: MakeRig, monkeypatch: pytest.MonkeyPatch, wait_until: WaitUntil
) -> None:
    rig = make_rig(stat_cache="ttl", read_threads=2)
    gate = Gate(monkeypatch)
    async with trio.open_nursery() as nursery:
        for i in range(5):
            nursery.start_soon(rig.find, b"/%d" % i)
        await wait_until(lambda: gate.begun == 2)
        await trio.testing.wait_all_tasks_blocked(0.01)
        assert gate.begun == 2
        gate.opened.set()
    assert gate.begun == 5


async def test_a_cold_recheck_confirms_without_reading(
    make_rig: MakeRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = make_rig(stat_cache="ttl")
    rig.write("page", b"page")
    await trio.sleep(SETTLED)
    first = await rig.find(b"/page")
    identify = module.identify

    def cold(docroot: Docroot, path: bytes, *, nowait: bool) -> object:
        return None if nowait else identify(docroot, path, nowait=False)

    monkeypatch.setattr(module, "identify", cold)
    assert rig.store.find_nowait(rig.docroot, b"/page", rig.now + 1.5) is None
    assert await rig.find(b"/page", after=1.5) is first
    statistics = rig.store.statistics()
    assert (statistics.rechecks, statistics.looks, statistics.hops) == (1, 1, 1)
    rig.write("page", b"new")
    assert await rig.read(b"/page", after=3.0) == b"new"


async def test_a_change_during_a_cold_recheck_shows(
    make_rig: MakeRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = make_rig()
    page = rig.write("page", b"old")
    await trio.sleep(SETTLED)
    assert await rig.read(b"/page") == b"old"
    identify, heard = module.identify, threading.Event()

    def overtaken(docroot: Docroot, path: bytes, *, nowait: bool) -> object:
        if nowait:
            return None
        identity = identify(docroot, path, nowait=False)
        page.write_bytes(b"new")
        assert heard.wait(5)
        return identity

    monkeypatch.setattr(module, "identify", overtaken)
    tell_when_heard(rig, monkeypatch, heard)
    async with rig.running():
        assert await rig.read(b"/page", after=1.5) == b"new"


def test_an_unplanned_number_is_refused(make_rig: MakeRig) -> None:
    with pytest.raises(ValueError, match="watches"):
        make_rig(watches=None)
