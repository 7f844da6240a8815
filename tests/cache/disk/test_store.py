"""What is stored is found again, whole and right, by everyone; what is purged is not."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from edgebox.cache.answer import Instant
from edgebox.cache.disk import finder as finder_module
from edgebox.cache.disk import store as store_module
from edgebox.cache.disk.finder import Filed
from edgebox.cache.disk.layout import footprint, name_of
from edgebox.cache.disk.outcome import Outcome
from edgebox.cache.disk.purge import Kind, Mode, Purge
from edgebox.cache.disk.store import Store
from edgebox.cache.disk.writing import Writing
from tests.cache.disk.conftest import KEY, MakeRig, Rig, body_of, read

pytestmark = pytest.mark.usefixtures("no_leaks")
SIZES = [0, 1, 449, 4096, 64 * 1024, 64 * 1024 + 1, 3_000_000]


def begin(rig: Rig, size: int | None = None) -> Writing:
    writing = rig.store.begin(size)
    assert isinstance(writing, Writing)
    return writing


def find_one(rig: Rig, store: Store | None = None) -> Filed:
    (filed,) = (store or rig.store).find(KEY, rig.now)
    return filed


# -- one response


@pytest.mark.parametrize("size", SIZES)
def test_what_was_kept_is_found_by_every_worker(rig: Rig, size: int) -> None:
    body = body_of(KEY, 1, size)
    assert rig.bodies() == []
    assert rig.keep(body) is Outcome.STORED
    for store in (rig.store, rig.open()):
        filed = find_one(rig, store)
        assert read(filed) == body
        assert (filed.entry, filed.size, filed.offset) == (rig.entry(), size, 0)
        assert (filed.content is not None) == (size <= 64 * 1024)
        filed.release()


def test_the_body_holds_the_file_for_a_response(rig: Rig) -> None:
    rig.keep(b"x" * 100_000)
    filed = find_one(rig)
    body = filed.body()
    filed.release()
    rig.store.purge(Purge(kind=Kind.KEY, value=KEY), rig.now)
    assert os.pread(body.file.fileno(), body.length, body.offset) == b"x" * 100_000
    body.file.release()


def test_an_answer_that_arrives_piece_by_piece_can_be_read_meanwhile(rig: Rig) -> None:
    writing = begin(rig)
    whole = body_of(KEY, 1, 300_000)
    for start in range(0, len(whole), 7000):
        assert writing.write(whole[start : start + 7000])
        assert os.pread(writing.fileno(), writing.size, 0) == whole[: writing.size]
    assert rig.bodies() == []
    assert writing.commit(KEY, rig.entry(), rig.store.mark()) is Outcome.STORED
    assert writing.size == len(whole)
    assert os.pread(writing.fileno(), writing.size, 0) == whole
    writing.close()
    assert rig.bodies() == [whole]


def test_an_answer_that_is_given_up_leaves_nothing(rig: Rig) -> None:
    writing = begin(rig, 50_000)
    writing.write(b"x" * 40_000)
    assert rig.store.statistics().reserved >= 50_000
    writing.close()
    assert rig.files() == []
    statistics = rig.store.statistics()
    assert (statistics.kept, statistics.reserved) == (0, 0)


def test_room_stays_taken_as_long_as_somebody_reads(rig: Rig) -> None:
    writing = begin(rig, 50_000)
    writing.write(b"x" * 40_000)
    reader = writing.file.acquire()
    writing.close()
    assert rig.store.statistics().reserved >= 40_000
    assert os.pread(reader.fileno(), 9, 39_995) == b"x" * 5
    reader.release()
    assert rig.store.statistics().reserved == 0


def test_the_sum_is_that_of_the_files(rig: Rig) -> None:
    for number in range(20):
        rig.keep(body_of(KEY, number, number * 3000), key=b"http://a/%d" % (number % 15))
    for language in ("de", "fr", "en", "de"):
        rig.vary(language, language.encode() * 999)
    files = sum(footprint(path.stat().st_size) for path in rig.files())
    statistics = rig.store.statistics()
    assert (statistics.kept, statistics.reserved) == (files, 0)


def test_a_later_answer_takes_the_place_of_an_earlier_one(rig: Rig) -> None:
    held = b"first"
    rig.keep(held)
    reader = find_one(rig)
    assert rig.keep(b"second", after=5.0) is Outcome.STORED
    assert rig.bodies() == [b"second"]
    assert read(reader) == held
    reader.release()
    assert len(rig.files()) == 1


def test_a_slow_fetch_does_not_undo_a_later_one(rig: Rig) -> None:
    rig.keep(b"later", after=5.0)
    assert rig.keep(b"slow", after=1.0) is Outcome.OLDER
    assert rig.bodies() == [b"later"]


def test_another_key_with_the_same_hash_is_a_miss(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig.keep(b"one")
    same = name_of(KEY)
    monkeypatch.setattr(finder_module, "name_of", lambda key: same)
    assert rig.store.find(b"http://other/", rig.now) == []
    assert rig.bodies() == [b"one"]


# -- variants


def test_all_variants_of_a_key_are_found(rig: Rig) -> None:
    for language in ("de", "fr", "en"):
        assert rig.vary(language, language.encode()) is Outcome.STORED
    assert rig.bodies() == [b"de", b"en", b"fr"]
    assert rig.bodies(store=rig.open()) == [b"de", b"en", b"fr"]
    found = rig.store.find(KEY, rig.now)
    selected = {filed.entry.variant.selecting: read(filed) for filed in found}
    assert selected[((b"x-language", b"fr"),)] == b"fr"
    for filed in found:
        filed.release()


def test_a_variant_replaces_its_own_kind(rig: Rig) -> None:
    for language in ("de", "fr"):
        rig.vary(language, language.encode())
    assert rig.vary("de", b"DE", after=9.0) is Outcome.STORED
    assert rig.vary("de", b"slow", after=8.0) is Outcome.OLDER
    assert rig.bodies() == [b"DE", b"fr"]
    assert len(rig.files()) == 3


def test_the_oldest_variants_go_when_there_are_too_many(make_rig: MakeRig) -> None:
    rig = make_rig(variants=3)
    for number in range(6):
        rig.vary(f"l{number}", b"%d" % number, after=float(number))
    assert rig.bodies() == [b"3", b"4", b"5"]
    assert len(rig.files()) == 4


def test_a_variant_that_is_gone_is_no_harm(rig: Rig) -> None:
    for language in ("de", "fr", "en"):
        rig.vary(language, language.encode())
    rig.path(entry=rig.entry("Vary: X-Language", asked=("X-Language: fr",))).unlink()
    assert rig.bodies() == [b"de", b"en"]
    assert rig.vary("fr", b"again") is Outcome.STORED
    assert rig.bodies() == [b"again", b"de", b"en"]


def test_a_roster_that_is_damaged_loses_its_key_and_no_more(rig: Rig) -> None:
    for language in ("de", "fr"):
        rig.vary(language, language.encode())
    rig.path().write_bytes(b"nonsense")
    assert rig.bodies() == []
    assert not rig.path().exists()
    assert rig.vary("fr", b"again") is Outcome.STORED
    assert rig.bodies() == [b"again"]


# -- for the loop


def test_what_is_in_the_page_cache_is_found_without_waiting(rig: Rig) -> None:
    rig.keep(b"small")
    rig.vary("de", b"de")
    found = rig.store.find_nowait(KEY, rig.now)
    assert found is not None
    assert sorted(read(filed) for filed in found) == [b"de", b"small"]
    for filed in found:
        filed.release()


def test_a_miss_that_is_known_needs_no_waiting(rig: Rig) -> None:
    rig.keep(b"x", key=b"http://a/")
    rig.store.find(KEY, rig.now)
    assert rig.store.find_nowait(KEY, rig.now) == []


def test_what_must_be_read_as_a_whole_is_for_a_thread(rig: Rig) -> None:
    rig.keep(b"x" * 100_000)
    assert rig.store.find_nowait(KEY, rig.now) is None
    find_one(rig).release()
    (filed,) = rig.store.find_nowait(KEY, rig.now) or []
    assert filed.content is None
    filed.release()


def test_damage_is_for_a_thread(rig: Rig) -> None:
    rig.keep(b"x")
    rig.path().write_bytes(b"")
    assert rig.store.find_nowait(KEY, rig.now) is None
    assert rig.path().exists()


# -- renewal


def test_a_renewal_changes_the_record_and_not_the_body(rig: Rig) -> None:
    rig.keep(b"x" * 100_000)
    filed = find_one(rig)
    newer = rig.entry("X-New: 1", after=60.0)
    before = rig.path().stat()
    assert rig.store.renew(filed, newer, rig.store.mark()) is Outcome.RENEWED
    after = rig.path().stat()
    assert (after.st_ino, after.st_size) == (before.st_ino, before.st_size)
    filed.release()
    again = find_one(rig)
    assert again.entry == newer
    assert read(again) == b"x" * 100_000
    again.release()


def test_a_record_that_outgrew_its_place_is_written_anew(rig: Rig) -> None:
    body = body_of(KEY, 1, 70_000)
    rig.keep(body)
    filed = find_one(rig)
    newer = rig.entry("X-Long: " + "y" * 5000, after=60.0)
    assert rig.store.renew(filed, newer, rig.store.mark()) is Outcome.RENEWED
    filed.release()
    again = find_one(rig)
    assert (again.entry, read(again)) == (newer, body)
    again.release()
    assert len(rig.files()) == 1
    assert rig.store.statistics().reserved == 0


def test_what_was_released_can_be_renewed(rig: Rig) -> None:
    """A worker may have the octets in RAM, and no descriptor any more."""
    rig.keep(b"x" * 1000)
    filed = find_one(rig)
    filed.release()
    for size in (10, 5000, 20):
        newer = rig.entry("X-Long: " + "y" * size, after=60.0)
        assert rig.store.renew(filed, newer, rig.store.mark()) is Outcome.RENEWED
        filed = find_one(rig)
        filed.release()
        assert filed.entry == newer
    assert rig.store.remove(filed) is Outcome.REMOVED
    assert rig.files() == []


def test_another_body_in_the_same_inode_is_not_renewed(rig: Rig, tmp_path: Path) -> None:
    """File systems give the number of a removed file to the next one."""
    rig.keep(b"first")
    filed = find_one(rig)
    filed.release()
    os.link(rig.path(), tmp_path / "first")
    rig.keep(b"other", after=1.0)
    (tmp_path / "first").write_bytes(rig.path().read_bytes())
    os.replace(tmp_path / "first", rig.path())
    assert rig.path().stat().st_ino == filed.seen.status.st_ino
    outcome = rig.store.renew(filed, rig.entry("X-New: 1", after=9.0), rig.store.mark())
    assert outcome is Outcome.GONE
    assert rig.bodies() == [b"other"]


def test_a_renewal_may_make_it_another_variant(rig: Rig) -> None:
    rig.vary("de", b"de")
    filed = find_one(rig)
    newer = rig.entry("Vary: X-Other", asked=("X-Other: 1",), after=60.0)
    assert rig.store.renew(filed, newer, rig.store.mark()) is Outcome.RENEWED
    filed.release()
    again = find_one(rig)
    assert again.entry == newer
    again.release()


def test_the_first_variant_can_be_renewed_after_a_second_came(rig: Rig) -> None:
    rig.vary("de", b"de")
    filed = find_one(rig)
    rig.vary("fr", b"fr")
    newer = rig.entry("Vary: X-Language", asked=("X-Language: de",), after=60.0)
    assert rig.store.renew(filed, newer, rig.store.mark()) is Outcome.RENEWED
    assert rig.store.remove(filed) is Outcome.REMOVED
    assert rig.store.remove(filed) is Outcome.GONE
    filed.release()
    assert rig.bodies() == [b"fr"]


def test_what_was_replaced_meanwhile_is_not_renewed(rig: Rig) -> None:
    rig.keep(b"first")
    filed = find_one(rig)
    rig.keep(b"second", after=5.0)
    outcome = rig.store.renew(filed, rig.entry(after=9.0), rig.store.mark())
    assert outcome is Outcome.GONE
    filed.release()
    assert rig.bodies() == [b"second"]


# -- purges

NAMES_IT = [
    Purge(kind=Kind.KEY, value=KEY),
    Purge(kind=Kind.PREFIX, value=b"http://example.com/"),
    Purge(kind=Kind.TAG, value=b"news"),
    Purge(kind=Kind.GROUP, value=b"g", origin=b"http://example.com"),
    Purge(kind=Kind.EVERYTHING),
]
NAMES_OTHERS = [
    Purge(kind=Kind.KEY, value=KEY + b"2"),
    Purge(kind=Kind.PREFIX, value=b"http://example.org/"),
    Purge(kind=Kind.TAG, value=b"sport"),
    Purge(kind=Kind.GROUP, value=b"g", origin=b"http://example.org"),
]
TAGGED = ("Surrogate-Key: news", 'Cache-Groups: "g"')


def label(purge: Purge) -> str:
    return purge.kind.value


@pytest.mark.parametrize("purge", NAMES_IT, ids=label)
def test_what_is_purged_is_found_by_nobody_ever_after(rig: Rig, purge: Purge) -> None:
    other = rig.open()
    rig.vary("de", b"de", *TAGGED)
    rig.vary("fr", b"fr", *TAGGED)
    assert rig.store.purge(purge, rig.now).done
    assert rig.bodies() == rig.bodies(store=other) == rig.bodies(store=rig.open()) == []
    assert rig.keep(b"new", *TAGGED, after=9.0) is Outcome.STORED
    assert rig.bodies() == [b"new"]


@pytest.mark.parametrize("purge", NAMES_OTHERS, ids=label)
def test_what_is_not_purged_is_found(rig: Rig, purge: Purge) -> None:
    rig.keep(b"body", *TAGGED)
    assert rig.store.purge(purge, rig.now).done
    assert rig.bodies() == [b"body"]


@pytest.mark.parametrize("purge", NAMES_IT, ids=label)
def test_a_soft_purge_leaves_it_stale(rig: Rig, purge: Purge) -> None:
    rig.keep(b"body", *TAGGED)
    assert rig.store.purge(replaced(purge, Mode.EXPIRE), rig.now).done
    for store in (rig.store, rig.open()):
        filed = find_one(rig, store)
        assert filed.entry.remaining(rig.now) <= 0
        assert not filed.entry.invalid
        filed.release()


@pytest.mark.parametrize("purge", NAMES_IT, ids=label)
def test_an_invalidation_leaves_it_to_be_validated(rig: Rig, purge: Purge) -> None:
    rig.vary("de", b"de", *TAGGED)
    rig.vary("fr", b"fr", *TAGGED)
    assert rig.store.purge(replaced(purge, Mode.VALIDATE), rig.now, durable=False).done
    for filed in rig.open().find(KEY, rig.now):
        assert filed.entry.invalid
        filed.release()


@pytest.mark.parametrize("purge", NAMES_IT, ids=label)
def test_a_validation_after_a_soft_purge_makes_it_fresh_again(rig: Rig, purge: Purge) -> None:
    rig.keep(b"body", *TAGGED)
    rig.store.purge(replaced(purge, Mode.EXPIRE), rig.now)
    filed = find_one(rig)
    newer = rig.entry(*TAGGED, after=9.0)
    assert rig.store.renew(filed, newer, rig.store.mark()) is Outcome.RENEWED
    filed.release()
    again = find_one(rig, rig.open())
    assert again.entry == newer
    again.release()


@pytest.mark.parametrize("mode", list(Mode))
@pytest.mark.parametrize("purge", NAMES_IT, ids=label)
def test_a_fetch_begun_before_a_purge_is_not_stored_after_it(
    rig: Rig, purge: Purge, mode: Mode
) -> None:
    mark = rig.store.mark()
    writing = begin(rig)
    writing.write(b"old")
    assert rig.open().purge(replaced(purge, mode), rig.now).done
    assert writing.commit(KEY, rig.entry(*TAGGED), mark) is Outcome.PURGED
    writing.close()
    assert rig.bodies() == []


@pytest.mark.parametrize("purge", NAMES_IT, ids=label)
def test_a_validation_begun_before_a_purge_renews_nothing(rig: Rig, purge: Purge) -> None:
    rig.keep(b"body", *TAGGED)
    filed, mark = find_one(rig), rig.store.mark()
    rig.store.purge(purge, rig.now)
    outcome = rig.store.renew(filed, rig.entry(*TAGGED, after=9.0), mark)
    assert outcome in (Outcome.PURGED, Outcome.GONE)
    filed.release()
    assert rig.bodies() == []


def test_a_worker_can_ask_what_others_purged(rig: Rig) -> None:
    """For what it has in RAM."""
    other, mark = rig.open(), rig.store.mark()
    assert rig.store.since(mark) == ()
    assert not rig.store.key_purged(KEY, mark)
    other.purge(Purge(kind=Kind.TAG, value=b"t", mode=Mode.EXPIRE), rig.now)
    other.purge(Purge(kind=Kind.KEY, value=KEY), rig.now)
    (purge,) = rig.store.since(mark) or ()
    assert (purge.kind, purge.value, purge.mode) == (Kind.TAG, b"t", Mode.EXPIRE)
    assert mark < purge.tick < rig.store.mark()
    assert rig.store.key_purged(KEY, mark)
    assert not rig.store.key_purged(KEY, rig.store.mark())


def test_a_purge_that_cannot_be_written_down_leaves_nothing_to_be_found(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig.keep(b"body")

    def fail(*_: object, **__: object) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(rig.store._purges, "add", fail)
        assert rig.store.purge(Purge(kind=Kind.TAG, value=b"x"), rig.now) is Outcome.IO_ERROR
        rig.store.turn(rig.now)
        assert rig.bodies() == []
        assert rig.store.find_nowait(KEY, rig.now) == []
        assert rig.store.statistics().dark
    rig.store.turn(rig.now)
    assert not rig.store.statistics().dark
    assert rig.bodies() == []  # what the purge should have done is done for everything
    monkeypatch.setattr(rig.store, "_paused_until", 0.0)
    rig.keep(b"new", after=9.0)
    assert rig.bodies() == [b"new"]


def test_a_purge_that_fails_while_another_is_made_up_for_is_not_forgotten(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig.keep(b"body")
    rig.store.darken()
    add = rig.store._purges.add

    def fail_meanwhile(*given: object, **keys: object) -> Purge:
        done = add(*given, **keys)  # type: ignore[arg-type]
        rig.store.darken()
        return done

    with monkeypatch.context() as patch:
        patch.setattr(rig.store._purges, "add", fail_meanwhile)
        rig.store.turn(rig.now)
    assert rig.store.statistics().dark
    rig.store.turn(rig.now)
    assert not rig.store.statistics().dark


def test_without_the_file_of_purges_nothing_is_found(rig: Rig) -> None:
    rig.keep(b"body")
    (rig.directory / "purges").unlink()
    assert rig.store.lost
    assert rig.bodies(store=rig.open()) == []


# -- another boot


def test_after_a_reboot_it_is_as_old_as_the_wall_clock_says(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig.keep(b"body")
    monkeypatch.setattr(store_module.clock, "boot_id", lambda: b"another boot 123")
    rebooted = Instant(rig.now.wall + 100, 2.0)
    (filed,) = rig.open().find(KEY, rebooted)
    assert filed.entry.age(rebooted) == pytest.approx(100, abs=1)
    assert filed.entry.remaining(rebooted) == pytest.approx(3500, abs=1)
    assert not filed.entry.invalid
    filed.release()


def test_after_a_reboot_with_the_clock_set_back_it_is_to_be_validated(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig.keep(b"body")
    monkeypatch.setattr(store_module.clock, "boot_id", lambda: b"another boot 123")
    (filed,) = rig.open().find(KEY, Instant(rig.now.wall - 100, 2.0))
    assert filed.entry.invalid
    filed.release()


def test_large_files_of_another_boot_wait_for_the_housekeeper(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(finder_module, "CHECKED_AT_ONCE", 100_000)
    rig.keep(b"x" * 100_001)
    rig.keep(b"x" * 100_000, key=b"http://a/")
    assert rig.bodies() == [b"x" * 100_001]
    monkeypatch.setattr(store_module.clock, "boot_id", lambda: b"another boot 123")
    store = rig.open()
    assert rig.bodies(store=store) == []
    assert rig.bodies(b"http://a/", store=store) == [b"x" * 100_000]
    assert store.statistics().flaws["unchecked"] == 1
    assert len(rig.files()) == 2


# -- strange directories


@pytest.mark.parametrize("octets", [b"", b"x", b"EdgeKept" * 700, bytes(5000)])
def test_foreign_files_are_misses_and_go(rig: Rig, octets: bytes) -> None:
    rig.keep(b"body")
    rig.path().write_bytes(octets)
    assert rig.bodies() == []
    assert not rig.path().exists()
    assert rig.keep(b"again") is Outcome.STORED
    assert rig.bodies() == [b"again"]


def test_what_is_no_file_is_a_miss_and_gives_way(rig: Rig, tmp_path: Path) -> None:
    rig.keep(b"body")
    for make in (
        lambda: rig.path().symlink_to(tmp_path / "elsewhere"),
        lambda: os.mkfifo(rig.path()),
        lambda: rig.path().mkdir(),
    ):
        rig.path().unlink()
        make()
        assert rig.bodies() == []
        assert rig.keep(b"again", after=1.0) is Outcome.STORED
        assert rig.bodies() == [b"again"]


def test_a_file_of_another_key_is_a_miss(rig: Rig) -> None:
    rig.keep(b"body")
    rig.keep(b"other", key=b"http://other/")
    os.replace(rig.path(b"http://other/"), rig.path())
    assert rig.bodies() == []
    assert rig.keep(b"again") is Outcome.STORED
    assert rig.bodies() == [b"again"]


def test_an_emptied_directory_is_noticed(rig: Rig) -> None:
    rig.keep(b"body")
    assert not rig.store.lost
    for path in (rig.directory / "objects").iterdir():
        for file in path.iterdir():
            file.unlink()
        path.rmdir()
    assert rig.bodies() == []
    assert rig.keep(b"again") is Outcome.STORED
    assert rig.bodies() == [b"again"]


def test_without_o_tmpfile_temporary_names_do(
    make_rig: MakeRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_module, "can_be_unnamed", lambda directory: False)
    rig = make_rig()
    rig.keep(b"one")
    rig.keep(b"two", after=1.0)
    rig.vary("de", b"de")
    writing = begin(rig)
    writing.write(b"given up")
    assert len(rig.files()) == 4
    writing.close()
    assert rig.bodies() == [b"de", b"two"]
    assert len(rig.files()) == 3


def test_the_outcomes_are_counted(rig: Rig) -> None:
    rig.keep(b"x")
    rig.bodies()
    rig.bodies(b"http://nothing/")
    statistics = rig.store.statistics()
    assert statistics.outcomes == {"stored": 1}
    assert (statistics.finds, statistics.found) == (2, 1)
    assert rig.warnings == []


def replaced(purge: Purge, mode: Mode) -> Purge:
    return Purge(kind=purge.kind, value=purge.value, origin=purge.origin, mode=mode)
