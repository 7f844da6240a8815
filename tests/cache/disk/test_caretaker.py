"""The housekeeper's jobs: the index learns what is there, and what should not be there goes."""

from __future__ import annotations

import errno
import os
import time

import pytest

from edgebox.cache.disk import caretaker as module
from edgebox.cache.disk import clock, reader
from edgebox.cache.disk import finder as finder_module
from edgebox.cache.disk.caretaker import Caretaker
from edgebox.cache.disk.format import Sheet
from edgebox.cache.disk.layout import Place, footprint, name_of
from edgebox.cache.disk.purge import Kind, Mode, Purge
from edgebox.cache.disk.reader import Seen, see
from edgebox.files.compression.newfile import TEMPORARY
from edgebox.files.entry import Docroot
from tests.cache.disk.conftest import KEY, MakeRig, Rig, body_of

pytestmark = pytest.mark.usefixtures("no_leaks")


def key_of(number: int) -> bytes:
    return b"http://example.com/%d" % number


def indexed(care: Caretaker) -> set[bytes]:
    return {name for name, _ in care.index.oldest(10_000)}


def fill(rig: Rig, count: int) -> set[bytes]:
    for number in range(count):
        rig.keep(body_of(key_of(number), 1, 5000), key=key_of(number))
    return {name_of(key_of(number)) for number in range(count)}


def sum_of_files(rig: Rig) -> int:
    return sum(footprint(path.stat().st_size) for path in rig.files())


# -- the index


def test_a_survey_finds_all_that_is_there(rig: Rig) -> None:
    names = fill(rig, 30)
    rig.vary("de", b"de")
    rig.vary("fr", b"fr")
    care = rig.caretaker()
    care.survey()
    assert indexed(care) == names | {name_of(KEY)}
    assert sum(size for _, size in care.index.oldest(100)) == sum_of_files(rig)
    looked = care.looked
    care.survey()
    assert care.looked == looked  # nothing has changed, so nothing is opened


def test_a_survey_notices_what_has_changed_and_what_is_gone(rig: Rig) -> None:
    names = fill(rig, 10)
    care = rig.caretaker()
    care.survey()
    rig.keep(b"tagged", "Surrogate-Key: t", key=key_of(3), after=1.0)
    rig.path(key_of(4)).unlink()
    care.survey()
    assert indexed(care) == names - {name_of(key_of(4))}
    assert care.index.concerned(Purge(kind=Kind.TAG, value=b"t"), 0, 9)
    assert sum(rig.store.statistics().kept for _ in range(1)) == sum_of_files(rig)


def test_a_look_keeps_the_index_up_to_date(rig: Rig) -> None:
    care = rig.caretaker()
    rig.keep(b"x")
    care.look(name_of(KEY), 1000)
    assert indexed(care) == {name_of(KEY)}
    rig.store.purge(Purge(kind=Kind.KEY, value=KEY), rig.now)
    care.look(name_of(KEY), 1000)
    assert indexed(care) == set()


def test_a_lost_index_is_filled_again_with_times_of_use(rig: Rig) -> None:
    names = fill(rig, 5)
    os.utime(rig.path(key_of(3)), (5000, 5000))
    care = rig.caretaker()
    care.survey()
    assert indexed(care) == names
    assert care.index.oldest(1)[0][0] == name_of(key_of(3))


# -- what should not be there


def test_nothing_that_leads_nowhere_stays(rig: Rig) -> None:
    rig.vary("de", b"de")
    rig.vary("fr", b"fr")
    rig.keep(b"one", key=b"http://single/")
    german = rig.path(entry=rig.entry("Vary: X-Language", asked=("X-Language: de",)))
    stray = german.parent / german.name.replace(german.name[-16:], "0" * 16)
    stray.write_bytes(german.read_bytes())  # a label that is in no roster
    single = rig.path(b"http://single/")
    os.link(single, f"{single}-{'1' * 16}")  # killed before the roster took the base's place
    alone = german.parent / (("f" * 29) + "-" + "2" * 16)
    alone.write_bytes(german.read_bytes())  # killed after the base was gone
    (german.parent / os.fsdecode(TEMPORARY + b"1-1")).write_bytes(b"x")
    (german.parent / ("e" * 29)).symlink_to("/etc/passwd")
    (german.parent / "README").write_bytes(b"an operator's")
    care = rig.caretaker()
    care.survey()
    assert care.orphans == 3
    assert len(rig.files()) == 3 + 1 + 1
    assert (german.parent / "README").exists()
    assert rig.bodies() == [b"de", b"fr"]
    assert rig.bodies(b"http://single/") == [b"one"]
    readme = footprint((german.parent / "README").stat().st_size)
    assert rig.store.statistics().kept == sum_of_files(rig) - readme


def test_damaged_files_go(rig: Rig) -> None:
    fill(rig, 3)
    rig.path(key_of(1)).write_bytes(b"")
    care = rig.caretaker()
    care.survey()
    assert care.damaged == 1
    assert len(rig.files()) == 2
    assert rig.store.statistics().kept == sum_of_files(rig)


def test_what_cannot_be_read_is_left_alone_unless_a_purge_may_concern_it(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig.keep(b"body")
    care = begin_with_nothing(rig)

    def fail(*_: object) -> bytes:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(reader, "read_blocking", fail)
    care.look(name_of(KEY), 0)
    assert rig.path().exists()
    assert indexed(care) == {name_of(KEY)}
    rig.store.purge(Purge(kind=Kind.PREFIX, value=KEY, mode=Mode.EXPIRE), rig.now)
    care.carry_out()
    assert not rig.path().exists()
    assert indexed(care) == set()


def test_what_a_killed_writer_left_is_swept(rig: Rig) -> None:
    leftover = rig.directory / "objects" / os.fsdecode(TEMPORARY + b"1-1")
    leftover.write_bytes(bytes(10_000))
    rig.caretaker().sweep()
    assert not leftover.exists()


# -- room


def test_the_longest_unused_make_room(rig: Rig) -> None:
    fill(rig, 20)
    rig.vary("de", b"de")
    rig.vary("fr", b"fr")
    care = rig.caretaker()
    for number in range(20):
        care.look(name_of(key_of(number)), 2000 + number)
    care.look(name_of(KEY), 1000)
    care.index.use([name_of(key_of(0))], 9000)
    assert care.make_room(10 * 8192)
    assert rig.store.statistics().kept == sum_of_files(rig) == 10 * 8192
    left = {number for number in range(20) if rig.bodies(key_of(number))}
    assert left == {0, *range(11, 20)}
    assert rig.bodies() == []
    assert care.evicted == 11


def test_room_that_the_index_knows_nothing_of_cannot_be_made(rig: Rig) -> None:
    fill(rig, 3)
    care = rig.caretaker()
    assert not care.make_room(0)
    care.survey()
    assert care.make_room(0)
    assert rig.files() == []


# -- purges


@pytest.mark.parametrize(
    "purge",
    [
        Purge(kind=Kind.PREFIX, value=b"http://example.com/1"),
        Purge(kind=Kind.TAG, value=b"one"),
        Purge(kind=Kind.GROUP, value=b"g", origin=b"http://example.com"),
    ],
    ids=lambda purge: str(purge.kind.value),
)
def test_purges_are_carried_out_and_forgotten(rig: Rig, purge: Purge) -> None:
    lines = ("Surrogate-Key: one", 'Cache-Groups: "g"')
    concerned = {1, *range(10, 20)}
    for number in range(30):
        rig.keep(b"x", *(lines if number in concerned else ()), key=key_of(number))
    care = begin_with_nothing(rig)
    rig.keep(b"x", *lines, key=key_of(199))  # the index does not know it
    assert rig.store.purge(purge, rig.now).done
    pending = care.purges.pending()
    assert care.purges_wait
    care.carry_out()
    assert not care.purges_wait
    care.survey()
    finish(care, max(pending))
    assert care.purges.pending() == {}
    left = {number for number in range(30) if rig.path(key_of(number)).exists()}
    assert left == set(range(30)) - concerned
    assert not rig.path(key_of(199)).exists()
    assert indexed(care) == {name_of(key_of(number)) for number in left}


def test_a_soft_purge_is_written_into_the_files(rig: Rig) -> None:
    rig.vary("de", b"de")
    rig.vary("fr", b"fr")
    care = begin_with_nothing(rig)
    rig.store.purge(Purge(kind=Kind.EVERYTHING, mode=Mode.EXPIRE), rig.now)
    pending = care.purges.pending()
    care.carry_out()
    care.survey()
    finish(care, max(pending))
    for filed in rig.open().find(KEY, rig.now):
        assert filed.entry.remaining(rig.now) <= 0
        filed.release()
    assert rig.bodies() == [b"de", b"fr"]


def test_what_is_stored_after_a_purge_stays(rig: Rig) -> None:
    care = begin_with_nothing(rig)
    rig.store.purge(Purge(kind=Kind.EVERYTHING), rig.now)
    rig.keep(b"after")
    care.carry_out()
    care.survey()
    finish(care, max(care.purges.pending()))
    assert rig.bodies() == [b"after"]


def finish(care: Caretaker, number: int) -> None:
    care.finish_purges(number)
    deadline = time.monotonic() + 60
    while not care.conclude_purges():
        assert time.monotonic() < deadline
        time.sleep(0.001)


def begin_with_nothing(rig: Rig) -> Caretaker:
    """A caretaker for whom the purge that a new directory begins with is done."""
    care = rig.caretaker()
    care.carry_out()
    care.survey()
    finish(care, max(care.purges.pending(), default=0))
    return care


# -- bodies


def sheet_of(rig: Rig, key: bytes = KEY) -> Sheet:
    seen = see(
        Docroot(os.fsencode(rig.directory / "objects"), "never"), Place(name_of(key)), nowait=False
    )
    assert isinstance(seen, Seen)
    assert isinstance(seen.sheet, Sheet)
    return seen.sheet


def test_bodies_that_are_damaged_are_found_and_go(rig: Rig) -> None:
    rig.keep(b"x" * 300_000)
    rig.keep(b"y" * 300_000, key=key_of(1))
    with rig.path().open("r+b") as file:
        file.seek(200_000)
        file.write(b"!")
    care = rig.caretaker()
    care.survey()
    assert care.check(name_of(KEY)) == care.check(name_of(key_of(1))) == 300_000
    assert care.damaged == 1
    assert not rig.path().exists()
    assert rig.bodies(key_of(1)) == [b"y" * 300_000]
    assert indexed(care) == {name_of(key_of(1))}


def test_large_files_of_another_boot_are_checked_and_then_found(
    make_rig: MakeRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = make_rig()
    for at in (module, finder_module):
        monkeypatch.setattr(at, "CHECKED_AT_ONCE", 100_000)
    rig.keep(b"x" * 100_001)
    before = sheet_of(rig)
    monkeypatch.setattr(clock, "boot_id", lambda: b"another boot 123")
    store = rig.open()
    care = rig.caretaker()
    care.survey()
    assert list(care.to_check) == [name_of(KEY)]
    assert rig.bodies(store=store) == []
    care.check(care.to_check.popleft())
    assert rig.bodies(store=store) == [b"x" * 100_001]
    after = sheet_of(rig)
    assert (after.boot, after.vouched) == (b"another boot 123",) * 2
    assert (before.born, before.checksum) == (after.born, after.checksum)
    care.survey()
    assert not care.to_check


def test_a_change_of_the_record_is_no_check_of_the_body(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a soft purge would let out what a power cut has torn."""
    monkeypatch.setattr(finder_module, "CHECKED_AT_ONCE", 100_000)
    rig.keep(b"x" * 100_001)
    monkeypatch.setattr(clock, "boot_id", lambda: b"another boot 123")
    store = rig.open()
    store.purge(Purge(kind=Kind.KEY, value=KEY, mode=Mode.EXPIRE), rig.now)
    assert sheet_of(rig).boot == b"another boot 123"
    assert rig.bodies(store=store) == []
