"""One variant from one file, with everything that can happen to either meanwhile."""

from __future__ import annotations

import os
import random
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest
import trio

from edgebox.files import seal
from edgebox.files.compression.builder import PIECE, Builder
from edgebox.files.compression.jobs import Job, Outcome, Settings
from edgebox.files.compression.newfile import NewFile
from edgebox.files.compression.sweep import BLOCK
from edgebox.files.compression.variants import settled_at, variant_name
from edgebox.files.entry import Docroot, FileEntry, Identity, Missing

MakeJob = Callable[..., Job]
Decode = Callable[[bytes, bytes], bytes]
Find = Callable[[Path], list[Path]]

LARGE = random.Random(3).randbytes(500) * 2000  # several pieces


@pytest.fixture
def prepare() -> Callable[..., Builder]:
    """A builder that is ready; `breathe` is called between pieces, and to wait."""

    def prepare(settings: Settings, breathe: Callable[[float], None] = time.sleep) -> Builder:
        builder = Builder(settings, breathe)
        builder.prepare()
        return builder

    return prepare


def variant_of(job: Job, cache: Path) -> Path:
    return cache / os.fsdecode(variant_name(job.identity, job.coding))


@pytest.mark.parametrize("coding", [b"gzip", b"br", b"zstd"])
def test_a_variant_is_exactly_the_coded_body(
    coding: bytes,
    make_job: MakeJob,
    settings: Settings,
    cache: Path,
    prepare: Callable[..., Builder],
    decode: Decode,
    text: bytes,
    files_below: Find,
) -> None:
    job = make_job(coding=coding)
    report = prepare(settings).build(job)
    octets = variant_of(job, cache).read_bytes()[: -seal.SIZE]
    assert decode(coding, octets) == text
    assert report.outcome is Outcome.KEPT
    assert (report.before, report.after) == (len(text), len(octets))
    assert files_below(cache) == [variant_of(job, cache)]


def test_the_configured_level_counts(
    make_job: MakeJob, cache: Path, prepare: Callable[..., Builder]
) -> None:
    sizes = []
    for number, level in enumerate([1, 9]):
        job = make_job(f"{number}.txt", LARGE[:7000] + LARGE[3000:9000])
        settings = Settings(os.fsencode(cache), 1 << 20, {b"gzip": level})
        sizes.append(prepare(settings).build(job).after)
    assert sizes[0] > sizes[1]


@pytest.mark.parametrize("coding", [b"gzip", b"br", b"zstd"])
def test_what_does_not_get_smaller_leaves_a_marker_and_is_not_tried_again(
    coding: bytes,
    make_job: MakeJob,
    settings: Settings,
    cache: Path,
    prepare: Callable[..., Builder],
    docroot: Path,
) -> None:
    job = make_job("noise.txt", random.Random(1).randbytes(3 * PIECE), coding)
    builder = prepare(settings)
    assert builder.build(job).outcome is Outcome.NOT_SMALLER
    assert variant_of(job, cache).stat().st_size == 0
    (docroot / "noise.txt").unlink()
    again = builder.build(job)
    assert (again.outcome, again.after) == (Outcome.THERE, 0)


def test_what_does_not_get_smaller_is_given_up_before_it_fills_the_disk(
    make_job: MakeJob,
    settings: Settings,
    prepare: Callable[..., Builder],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    written: list[int] = []
    write = NewFile.write

    def watch(file: NewFile, octets: bytes) -> None:
        written.append(len(octets))
        write(file, octets)

    monkeypatch.setattr(NewFile, "write", watch)
    job = make_job(octets=random.Random(1).randbytes(3 * PIECE))
    assert prepare(settings).build(job).outcome is Outcome.NOT_SMALLER
    assert 0 < sum(written) < job.identity.size


def test_a_variant_that_is_there_is_not_made_again(
    make_job: MakeJob, settings: Settings, prepare: Callable[..., Builder], cache: Path
) -> None:
    builder, job = prepare(settings), make_job()
    builder.build(job)
    before = variant_of(job, cache).stat()
    assert builder.build(job).outcome is Outcome.THERE
    assert variant_of(job, cache).stat() == before


def replace_it(path: Path) -> None:
    new = path.with_suffix(".new")
    new.write_bytes(LARGE)
    new.rename(path)


def edit_it(path: Path) -> None:
    with path.open("r+b") as file:
        file.write(b"edited")


def truncate_it(path: Path) -> None:
    os.truncate(path, 1000)


def append_to_it(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b"more")


CHANGES = pytest.mark.parametrize("change", [replace_it, edit_it, truncate_it, append_to_it])


@CHANGES
def test_a_source_that_changes_while_it_is_read_gives_no_variant(
    change: Callable[[Path], None],
    make_job: MakeJob,
    settings: Settings,
    prepare: Callable[..., Builder],
    docroot: Path,
    cache: Path,
    files_below: Find,
) -> None:
    job = make_job("a.txt", LARGE, b"zstd")  # which insists on the promised length
    looks = 0

    def breathe(seconds: float) -> None:
        nonlocal looks
        if seconds:
            time.sleep(seconds)
            return
        looks += 1
        if looks == 3:
            change(docroot / "a.txt")

    assert prepare(settings, breathe).build(job).outcome is Outcome.CHANGED
    assert looks >= 3
    assert files_below(cache) == []


@CHANGES
def test_a_source_that_changed_before_it_was_read_gives_no_variant(
    change: Callable[[Path], None],
    make_job: MakeJob,
    settings: Settings,
    prepare: Callable[..., Builder],
    docroot: Path,
    cache: Path,
    files_below: Find,
) -> None:
    job = make_job("a.txt", LARGE)
    time.sleep(0.02)  # longer than a tick, so that the times differ
    change(docroot / "a.txt")
    looks: list[float] = []
    assert prepare(settings, looks.append).build(job).outcome is Outcome.CHANGED
    assert looks == []  # not one piece was read
    assert files_below(cache) == []


def test_a_source_is_not_read_before_a_change_could_show(
    make_job: MakeJob, settings: Settings, prepare: Callable[..., Builder]
) -> None:
    """Two writes within a tick of the clock leave one identity."""
    waited: list[float] = []

    def breathe(seconds: float) -> None:
        if seconds:
            waited.append(seconds)
            time.sleep(seconds)
        else:
            assert time.time_ns() >= settled_at(job.identity)

    builder = prepare(settings, breathe)
    job = make_job()
    assert builder.build(job).outcome is Outcome.KEPT
    assert len(waited) <= 1


def test_a_source_from_the_future_is_waited_for_briefly(
    make_job: MakeJob, settings: Settings, docroot: Path
) -> None:
    waited: list[float] = []
    builder = Builder(settings, waited.append)
    builder.prepare()
    job = make_job()
    ahead = Identity(*job.identity[:4], time.time_ns() + 3600 * 10**9)
    builder._wait_settled(ahead)
    assert waited == [2.0]


@pytest.mark.parametrize("kind", ["gone", "outside", "fifo", "directory"])
def test_what_the_server_would_not_serve_is_not_compressed(
    kind: str,
    make_job: MakeJob,
    settings: Settings,
    prepare: Callable[..., Builder],
    docroot: Path,
    tmp_path: Path,
    cache: Path,
    files_below: Find,
) -> None:
    path = docroot / "x.txt"
    secret = tmp_path / "secret.txt"
    secret.write_bytes(LARGE)
    if kind == "outside":
        path.symlink_to(secret)
    elif kind == "fifo":
        os.mkfifo(path)
    elif kind == "directory":
        path.mkdir()
    else:
        path.write_bytes(LARGE)
    job = make_job("x.txt", None)
    if kind == "gone":
        path.unlink()
    report = prepare(settings).build(job)
    assert report.outcome is Outcome.SOURCE
    assert report.text
    assert files_below(cache) == []


def test_a_symlink_within_the_root_is_followed(
    make_job: MakeJob, settings: Settings, prepare: Callable[..., Builder], docroot: Path
) -> None:
    make_job("target.txt")
    (docroot / "link.txt").symlink_to("target.txt")
    assert prepare(settings).build(make_job("link.txt", None)).outcome is Outcome.KEPT


@pytest.mark.parametrize(("mode", "expected"), [(0o644, 0o644), (0o640, 0o600), (0o400, 0o600)])
def test_a_variant_is_open_to_everyone_only_if_its_source_is(
    mode: int,
    expected: int,
    make_job: MakeJob,
    settings: Settings,
    prepare: Callable[..., Builder],
    docroot: Path,
    cache: Path,
) -> None:
    make_job()
    (docroot / "a.txt").chmod(mode)
    job = make_job("a.txt", None)
    assert prepare(settings).build(job).outcome is Outcome.KEPT
    assert variant_of(job, cache).stat().st_mode & 0o777 == expected


def test_the_directory_stays_within_its_limit(
    make_job: MakeJob, cache: Path, prepare: Callable[..., Builder], files_below: Find
) -> None:
    builder = prepare(Settings(os.fsencode(cache), 5 * BLOCK, {b"gzip": 6}))
    jobs = [make_job(f"{n}.txt") for n in range(20)]
    swept = sum(builder.build(job).swept for job in jobs)
    assert len(files_below(cache)) <= 5
    assert swept >= 15


def test_a_limit_that_was_lowered_holds_from_the_start(
    make_job: MakeJob, cache: Path, prepare: Callable[..., Builder], files_below: Find
) -> None:
    builder = prepare(Settings(os.fsencode(cache), 1 << 20, {b"gzip": 6}))
    jobs = [make_job(f"{n}.txt") for n in range(6)]
    assert {builder.build(job).outcome for job in jobs} == {Outcome.KEPT}
    prepare(Settings(os.fsencode(cache), 2 * BLOCK, {b"gzip": 6}))
    assert len(files_below(cache)) == 2


def test_a_variant_larger_than_the_whole_limit_is_refused(
    make_job: MakeJob, cache: Path, prepare: Callable[..., Builder], files_below: Find
) -> None:
    octets = random.Random(1).randbytes(BLOCK) * 2
    builder = prepare(Settings(os.fsencode(cache), BLOCK, {b"gzip": 6}))
    assert builder.build(make_job(octets=octets)).outcome is Outcome.NO_ROOM
    assert files_below(cache) == []


def test_all_directories_are_there_before_the_first_variant(
    settings: Settings, prepare: Callable[..., Builder], cache: Path
) -> None:
    """So that the file store can watch one before a variant appears in it."""
    prepare(settings)
    assert sum(path.is_dir() for path in cache.iterdir()) == 256


@pytest.mark.slow
def test_an_operator_may_empty_the_directory_at_any_time(
    make_job: MakeJob, settings: Settings, prepare: Callable[..., Builder], cache: Path
) -> None:
    builder = prepare(settings)
    for path in cache.iterdir():
        path.rmdir() if path.is_dir() else path.unlink()
    job = make_job()
    assert builder.build(job).outcome is Outcome.KEPT
    assert variant_of(job, cache).stat().st_size


@pytest.mark.parametrize("unnamed", [True, False])
async def test_the_file_store_hears_of_a_new_variant(
    unnamed: bool,
    rig: Any,
    make_job: MakeJob,
    settings: Settings,
    prepare: Callable[..., Builder],
    cache: Path,
    text: bytes,
    decode: Decode,
) -> None:
    """By an event alone: the clock stands still, and a missing variant is remembered."""
    builder = prepare(settings)
    builder._unnamed = unnamed
    job = make_job()
    where = Docroot(os.fsencode(cache), "never", sealed=True)
    name = variant_name(job.identity, job.coding)
    async with rig.running():
        assert await rig.find(name, docroot=where) is Missing.NOT_FOUND
        await trio.to_thread.run_sync(builder.build, job)
        with trio.fail_after(10):
            while not isinstance(found := await rig.find(name, docroot=where), FileEntry):
                await trio.sleep(0.005)
        assert decode(job.coding, found.content or b"") == text


def flip(path: Path) -> None:
    octets = bytearray(path.read_bytes())
    octets[len(octets) // 2] ^= 1
    path.write_bytes(octets)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-20])


def swap(path: Path) -> None:
    """Put a whole variant in its place, but another file's."""
    name = b"%s/%s" % (os.fsencode(path.parent.name), b"0" * 38)
    body = b"of another file"
    path.write_bytes(body + seal.seal(crc32(body, seal.begin(name))))


@pytest.mark.parametrize("harm", [flip, cut, swap])
@pytest.mark.parametrize("object_size", [1 << 20, 16])
async def test_a_damaged_variant_is_none_and_is_made_anew(
    harm: Callable[[Path], None],
    object_size: int,
    make_rig: Any,
    make_job: MakeJob,
    settings: Settings,
    prepare: Callable[..., Builder],
    cache: Path,
    text: bytes,
    decode: Decode,
) -> None:
    builder, job = prepare(settings), make_job()
    builder.build(job)
    where, name = Docroot(os.fsencode(cache), "never", sealed=True), variant_of(job, cache)
    harm(name)
    path = variant_name(job.identity, job.coding)
    rig = make_rig(object_size=object_size)
    assert await rig.find(path, docroot=where) is Missing.NOT_FOUND
    assert builder.build(job).outcome is Outcome.KEPT
    found = await make_rig(object_size=object_size).find(path, docroot=where)
    assert isinstance(found, FileEntry)
    if found.content is None:
        assert found.file is not None
        octets = os.pread(found.file.fileno(), found.size, 0)
    else:
        octets = found.content
    assert len(octets) == found.size
    assert decode(job.coding, octets) == text


def test_leftovers_of_a_killed_helper_are_removed(settings: Settings, cache: Path) -> None:
    cache.mkdir()
    (cache / ".new-4711-0").write_bytes(b"half")
    Builder(settings, time.sleep).prepare()
    assert not (cache / ".new-4711-0").exists()


def test_a_file_system_without_unnamed_files_will_do(
    make_job: MakeJob,
    settings: Settings,
    prepare: Callable[..., Builder],
    cache: Path,
    files_below: Find,
    decode: Decode,
    text: bytes,
) -> None:
    builder = prepare(settings)
    builder._unnamed = False
    job = make_job()
    assert builder.build(job).outcome is Outcome.KEPT
    assert files_below(cache) == [variant_of(job, cache)]
    assert decode(job.coding, variant_of(job, cache).read_bytes()[: -seal.SIZE]) == text


def test_octets_are_on_the_disk_before_the_name_is(
    make_job: MakeJob,
    settings: Settings,
    prepare: Callable[..., Builder],
    cache: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else a power cut could leave the name of a whole file on a part of it."""
    builder, job = prepare(settings), make_job()
    synced: list[tuple[int, bool]] = []
    fdatasync = os.fdatasync

    def watch(fd: int) -> None:
        synced.append((os.fstat(fd).st_size, variant_of(job, cache).exists()))
        fdatasync(fd)

    monkeypatch.setattr(os, "fdatasync", watch)
    report = builder.build(job)
    assert synced == [(report.after + seal.SIZE, False)]


def test_a_full_disk_is_reported_leaves_no_part_and_is_overcome(
    make_job: MakeJob,
    mounted: Callable[[str], Path],
    prepare: Callable[..., Builder],
    files_below: Find,
) -> None:
    cache = mounted("size=256k")
    builder = prepare(Settings(os.fsencode(cache), 1 << 30, {b"gzip": 6}))
    assert builder.build(make_job("small.txt")).outcome is Outcome.KEPT
    ballast = cache / "ballast"
    with ballast.open("wb") as file, pytest.raises(OSError):
        while True:
            os.write(file.fileno(), bytes(4096))
    large = make_job("large.txt", b"".join(b"%d " % n for n in range(40_000)))
    report = builder.build(large)
    assert report.outcome is Outcome.DISK_FULL
    assert "No space" in report.text
    assert variant_of(large, cache) not in files_below(cache)
    ballast.unlink()
    assert builder.build(large).outcome is Outcome.KEPT


def test_a_full_disk_gets_a_tenth_of_the_variants_back(
    make_job: MakeJob,
    mounted: Callable[[str], Path],
    prepare: Callable[..., Builder],
    files_below: Find,
) -> None:
    cache = mounted("size=256k")
    builder = prepare(Settings(os.fsencode(cache), 1 << 30, {b"gzip": 6}))
    jobs = [make_job(f"{n}.txt") for n in range(80)]  # 4 KiB each
    reports = [builder.build(job) for job in jobs]
    full = [report for report in reports if report.outcome is Outcome.DISK_FULL]
    assert full
    assert full[0].swept >= 1
    assert files_below(cache)


def test_a_read_only_directory_is_reported(
    make_job: MakeJob, mounted: Callable[[str], Path], prepare: Callable[..., Builder]
) -> None:
    cache = mounted("size=256k")
    builder = prepare(Settings(os.fsencode(cache), 1 << 30, {b"gzip": 6}))
    subprocess.run(["mount", "-o", "remount,ro", str(cache)], check=True)
    assert builder.build(make_job()).outcome is Outcome.READ_ONLY
    subprocess.run(["mount", "-o", "remount,rw", str(cache)], check=True)
    assert builder.build(make_job()).outcome is Outcome.KEPT


def test_a_write_cut_short_by_the_system_goes_on(
    make_job: MakeJob,
    settings: Settings,
    prepare: Callable[..., Builder],
    cache: Path,
    decode: Decode,
    text: bytes,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    write = os.write
    builder, job = prepare(settings), make_job()
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", lambda fd, octets: write(fd, bytes(octets[:7])))
        assert builder.build(job).outcome is Outcome.KEPT
    assert decode(job.coding, variant_of(job, cache).read_bytes()[: -seal.SIZE]) == text


def test_two_who_make_the_same_variant_do_not_disturb_each_other(
    make_job: MakeJob,
    settings: Settings,
    prepare: Callable[..., Builder],
    cache: Path,
    monkeypatch: pytest.MonkeyPatch,
    files_below: Find,
) -> None:
    first, second, job = prepare(settings), prepare(settings), make_job()
    publish = NewFile.publish

    def outrun(file: NewFile, path: bytes) -> None:
        monkeypatch.setattr(NewFile, "publish", publish)
        # The other was a little faster.
        Path(os.fsdecode(path)).write_bytes(Path(f"/proc/self/fd/{file.fd}").read_bytes())
        publish(file, path)

    monkeypatch.setattr(NewFile, "publish", outrun)
    assert first.build(job).outcome is Outcome.KEPT
    assert second.build(job).outcome is Outcome.THERE
    assert files_below(cache) == [variant_of(job, cache)]


def test_no_descriptor_is_left_whatever_happens(
    make_job: MakeJob, settings: Settings, prepare: Callable[..., Builder], docroot: Path
) -> None:
    builder = prepare(settings)
    before = os.listdir("/proc/self/fd")
    builder.build(make_job())
    changed = make_job("b.txt")
    time.sleep(0.02)
    edit_it(docroot / "b.txt")
    builder.build(changed)
    (docroot / "b.txt").unlink()
    builder.build(changed)
    builder.build(make_job("c.txt", random.Random(1).randbytes(5000)))
    assert os.listdir("/proc/self/fd") == before
