"""A look tells length, validators and octets of one and the same file."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgebox.files import look as module
from edgebox.files.entry import Directory, Docroot, FileEntry, Identity, Missing
from edgebox.files.look import Sight, entity_tag, take_look
from edgebox.files.residency import lives_in_memory, read_blocking

pytestmark = pytest.mark.usefixtures("no_leaks")


SETTLED = 0.03  # seconds until a file's times tell its next change apart


@pytest.fixture
def docroot(tmp_path: Path) -> Docroot:
    (tmp_path / "page").write_bytes(b"page")
    (tmp_path / "empty").write_bytes(b"")
    (tmp_path / "large").write_bytes(b"x" * 101)
    (tmp_path / "edge").write_bytes(b"x" * 100)
    time.sleep(SETTLED)
    return Docroot(os.fsencode(tmp_path))


def see(docroot: Docroot, path: bytes, nowait: bool = False) -> Sight:
    sight = take_look(docroot, path, 100, nowait=nowait)
    assert sight is not None
    return sight


def entry(sight: Sight) -> FileEntry:
    assert isinstance(sight.found, FileEntry)
    return sight.found


@pytest.mark.parametrize("nowait", [False, True])
def test_small_files_come_with_their_content(docroot: Docroot, nowait: bool) -> None:
    for path, content in ((b"/page", b"page"), (b"/empty", b""), (b"/edge", b"x" * 100)):
        sight = see(docroot, path, nowait)
        found = entry(sight)
        assert (found.path, found.content, found.file) == (path, content, None)
        assert found.size == len(content)
        assert sight.unsettled_for == 0.0


@pytest.mark.parametrize("nowait", [False, True])
def test_large_files_come_with_an_open_descriptor(docroot: Docroot, nowait: bool) -> None:
    found = entry(see(docroot, b"/large", nowait))
    assert found.content is None
    assert found.file is not None
    assert os.pread(found.file.fileno(), 200, 0) == b"x" * 101
    found.file.release()


def test_what_is_no_file_is_told_as_it_is(docroot: Docroot) -> None:
    assert see(docroot, b"/").found == Directory(b"/")
    assert see(docroot, b"/none").found is Missing.NOT_FOUND


def test_a_cold_file_is_left_to_a_thread(docroot: Docroot, tmp_path: Path) -> None:
    fd = os.open(tmp_path / "page", os.O_RDONLY)
    os.fsync(fd)
    for _ in range(50):  # the kernel may keep a page; see test_residency
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        if (cold := take_look(docroot, b"/page", 100, nowait=True)) is None:
            break
        time.sleep(0.01)
    in_memory = lives_in_memory(fd)
    os.close(fd)
    if in_memory:
        pytest.skip("nothing is ever cold here: set TMPDIR to a directory on a disk")
    assert cold is None
    assert entry(see(docroot, b"/page")).content == b"page"
    assert entry(see(docroot, b"/page", nowait=True)).content == b"page"


def test_validators_are_settled_and_well_formed(docroot: Docroot, tmp_path: Path) -> None:
    os.utime(tmp_path / "page", (0, 1_000_000_000))
    time.sleep(SETTLED)
    found = entry(see(docroot, b"/page"))
    assert found.last_modified == b"Sun, 09 Sep 2001 01:46:40 GMT"
    assert found.etag[:1] == found.etag[-1:] == b'"'
    assert len(found.etag) <= 24
    assert found.etag == entry(see(docroot, b"/page")).etag


def test_a_file_from_the_future_was_modified_now(docroot: Docroot, tmp_path: Path) -> None:
    os.utime(tmp_path / "page", (0, 4_000_000_000))  # in 2096
    assert b" 2096 " not in entry(see(docroot, b"/page")).last_modified


def test_an_absurd_time_is_no_error(docroot: Docroot, tmp_path: Path) -> None:
    os.utime(tmp_path / "page", (0, -(2**31)))
    assert entry(see(docroot, b"/page")).content == b"page"


def test_a_file_changed_this_instant_has_a_tag_for_this_look_only(
    docroot: Docroot, tmp_path: Path
) -> None:
    tags = set()
    for _ in range(50):  # until two looks fell within one tick
        (tmp_path / "page").write_bytes(b"page")
        first, second = see(docroot, b"/page"), see(docroot, b"/page")
        if first.unsettled_for and second.unsettled_for:
            tags = {entry(first).etag, entry(second).etag}
            break
    assert len(tags) == 2
    time.sleep(SETTLED)
    settled = see(docroot, b"/page")
    assert not settled.unsettled_for
    assert entry(settled).etag not in tags


def after_each_read(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> list[int]:
    """Somebody acts between our read and our second fstat; the sizes that were asked for."""
    sizes: list[int] = []

    def read(fd: int, offset: int, length: int) -> bytes:
        content = read_blocking(fd, offset, length)
        sizes.append(length)
        act()
        return content

    monkeypatch.setattr(module, "read_blocking", read)
    return sizes


def test_a_file_that_changes_while_it_is_read_is_read_again(
    docroot: Docroot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writes = iter([b"changed"])
    sizes = after_each_read(
        monkeypatch, lambda: [(tmp_path / "page").write_bytes(w) for w in writes]
    )
    assert entry(see(docroot, b"/page")).content == b"changed"
    assert sizes == [4, 7]


def test_a_file_that_never_stands_still_is_as_long_as_it_said(
    docroot: Docroot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def append() -> None:
        with (tmp_path / "page").open("ab") as file:
            file.write(b"+")
        time.sleep(SETTLED)  # a slow disk: the change is no news when we look again

    after_each_read(monkeypatch, append)
    sight = see(docroot, b"/page")
    found = entry(sight)
    assert found.content == b"page+"
    assert found.size == 5
    assert sight.unsettled_for > 0


def test_a_file_that_shrinks_under_our_hands_is_an_error(
    docroot: Docroot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "read_blocking", lambda *_: b"pa")
    assert see(docroot, b"/page").found is Missing.IO_ERROR


def test_a_read_that_fails_is_an_error(docroot: Docroot, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> bytes:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(module, "read_blocking", fail)
    assert see(docroot, b"/page").found is Missing.IO_ERROR


numbers = st.integers(0, 2**64 - 1)
times = st.integers(-(2**63), 2**70)
identities = st.builds(Identity, numbers, numbers, numbers, times, times)


@given(one=identities, other=identities)
def test_tags_tell_identities_apart(one: Identity, other: Identity) -> None:
    same = one[1:] == other[1:]  # a device number can change with a reboot
    assert (entity_tag(one) == entity_tag(other)) is same
    assert entity_tag(one, 1) != entity_tag(one, 2)


@given(identity=identities, field=st.sampled_from(["inode", "size", "mtime_ns", "ctime_ns"]))
def test_no_part_of_the_identity_can_change_alone_unseen(identity: Identity, field: str) -> None:
    changed = identity._replace(**{field: getattr(identity, field) ^ 1})
    assert entity_tag(changed) != entity_tag(identity)
