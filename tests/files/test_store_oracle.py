"""Whatever is done to a tree, once its events were heard the store tells what is there.

The oracle is a look that remembers nothing. The clock stands still, so that the store
looks again for no other reason than what inotify told it.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgebox.files.entry import FileEntry, Found
from edgebox.files.look import take_look

NAMES = ("a", "b", "a/x", "a/y", "b/x", "b/y", "a/b/x", "a/b/y")
PATHS = (*(b"/" + name.encode() for name in NAMES), b"/", b"/a/", b"/b/", b"/a/b/")
TARGETS = ("a", "b", "../a", "../b", "x", "y", "a/b", ".", "../outside", "..")


def write(root: Path, one: str, two: str) -> None:
    (root / one).write_text(two)


def edit(root: Path, one: str, two: str) -> None:
    with (root / one).open("r+") as file:
        file.write(two)


def replace(root: Path, one: str, two: str) -> None:
    (root / one).rename(root / two)


def link(root: Path, one: str, two: str) -> None:
    new = root / "new"
    new.symlink_to(two)
    try:
        new.rename(root / one)
    finally:
        new.unlink(missing_ok=True)


def make_directory(root: Path, one: str, _: str) -> None:
    (root / one).mkdir()


def remove(root: Path, one: str, _: str) -> None:
    path = root / one
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()


def swap_root(root: Path, _one: str, _two: str) -> None:
    new = root.with_name("next")
    shutil.copytree(root, new, symlinks=True)
    write(new, "a", "swapped") if not (new / "a").exists() else None
    old = root.with_name("previous")
    root.rename(old)
    new.rename(root)
    shutil.rmtree(old)


Change = Callable[[Path, str, str], None]
changes: st.SearchStrategy[tuple[Change, str, str]] = st.one_of(
    st.tuples(st.sampled_from([write, edit]), st.sampled_from(NAMES), st.text("pqr", min_size=1)),
    st.tuples(st.just(replace), st.sampled_from(NAMES), st.sampled_from(NAMES)),
    st.tuples(st.just(link), st.sampled_from(NAMES), st.sampled_from(TARGETS)),
    st.tuples(st.just(make_directory), st.sampled_from(NAMES), st.just("")),
    st.tuples(st.sampled_from([remove, swap_root]), st.sampled_from(NAMES), st.just("")),
)


def what(found: Found | None) -> object:
    """What a client could tell apart, but for the tag of a file that changed just now."""
    return (found.content, found.identity) if isinstance(found, FileEntry) else found


def hear(store: Any) -> None:
    """All events up to now: the kernel queues them before the change returns."""
    with suppress(BlockingIOError):
        while True:
            store._watchdog.hear(os.read(store._watchdog._inotify.fileno(), 65536))


@settings(max_examples=40)
@given(
    steps=st.lists(st.tuples(changes, st.sets(st.sampled_from(PATHS))), max_size=15),
    symlinks=st.sampled_from(["within-root", "follow", "never"]),
)
async def test_once_heard_nothing_is_stale(
    make_rig: Callable[..., Any],
    steps: list[tuple[tuple[Change, str, str], set[bytes]]],
    symlinks: str,
) -> None:
    rig = make_rig(stale_bound=3600.0)
    docroot = rig.docroot._replace(symlinks=symlinks)
    shutil.rmtree(rig.root)
    (rig.root / "a" / "b").mkdir(parents=True)
    outside = rig.root.with_name("outside")
    outside.mkdir(exist_ok=True)
    (outside / "x").write_text("outside")
    try:
        for (change, one, two), asked in steps:
            with suppress(OSError):
                change(rig.root, one, two)
            hear(rig.store)
            for path in asked:
                found = await rig.find(path, docroot=docroot)
                seen = take_look(docroot, path, 4096, nowait=False)
                assert seen is not None
                assert what(found) == what(seen.found), (path, change)
    finally:
        rig.store.close()


def test_the_oracle_is_not_asleep(make_rig: Callable[..., Any]) -> None:
    rig = make_rig(stale_bound=3600.0)
    rig.write("a", b"old")
    assert rig.store.find_nowait(rig.docroot, b"/a", rig.now).content == b"old"
    rig.write("a", b"new")
    assert rig.store.find_nowait(rig.docroot, b"/a", rig.now).content == b"old"
    hear(rig.store)
    assert rig.store.find_nowait(rig.docroot, b"/a", rig.now).content == b"new"


pytestmark = pytest.mark.slow
