"""A purge counts for everyone as soon as it is written down, and whatever happens then."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from edgebox.cache.answer import Instant
from edgebox.cache.disk import ring
from edgebox.cache.disk.purge import Kind, Mode, Purge
from edgebox.cache.disk.purgelog import PurgeLog
from edgebox.cache.entry import StoredResponse
from tests.cache.disk.conftest import Fork, kill

# fork() beside threads that trio left to be used again: the child uses none.
pytestmark = pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")

BOOT, OTHER = bytes(range(16)), bytes(16)
KEY = b"http://example.com/page"
TAG = Purge(kind=Kind.TAG, value=b"news")
Keep = Callable[..., StoredResponse]
Open = Callable[..., PurgeLog]


@pytest.fixture
def open_log(tmp_path: Path) -> Iterator[Open]:
    """Logs of one directory, all but the first as another worker, or the next start, has them.

    What nothing can be known of, the purge that a new file begins with, is carried out.
    """
    opened: list[PurgeLog] = []

    def open_(boot: bytes = BOOT) -> PurgeLog:
        opened.append(PurgeLog(os.fsencode(tmp_path), boot))
        if len(opened) == 1:
            opened[0].carried_out(1)
        return opened[-1]

    yield open_
    for log in opened:
        log.close()


@pytest.fixture
def log(open_log: Open) -> PurgeLog:
    return open_log()


@pytest.fixture
def entry(keep: Keep) -> StoredResponse:
    return keep("Cache-Control: max-age=600", "Surrogate-Key: news")


@pytest.fixture
def now(later: Callable[..., Instant]) -> Instant:
    return later(5.0)


def test_what_began_before_a_purge_is_refused_and_what_began_after_is_not(
    log: PurgeLog, entry: StoredResponse, now: Instant
) -> None:
    before = log.mark()
    assert not log.refuses(KEY, entry, before)
    log.add(TAG, now, durable=False)
    assert log.refuses(KEY, entry, before)
    assert not log.refuses(KEY, entry, log.mark())


@pytest.mark.parametrize("mode", list(Mode))
def test_every_mode_refuses_what_is_under_way(
    log: PurgeLog, entry: StoredResponse, now: Instant, mode: Mode
) -> None:
    before = log.mark()
    log.add(Purge(kind=Kind.KEY, value=KEY, mode=mode), now, durable=False)
    assert log.refuses(KEY, entry, before)


def test_others_are_not_concerned(log: PurgeLog, entry: StoredResponse, now: Instant) -> None:
    before = log.mark()
    log.add(Purge(kind=Kind.TAG, value=b"sport"), now, durable=False)
    log.add(Purge(kind=Kind.KEY, value=KEY + b"?"), now, durable=False)
    assert not log.refuses(KEY, entry, before)
    assert log.judge(KEY, entry, before, now) is entry


def test_files_are_judged_until_the_purge_is_carried_out(
    log: PurgeLog, entry: StoredResponse, now: Instant
) -> None:
    born = log.mark()
    log.add(TAG, now, durable=False)
    assert log.judge(KEY, entry, born, now) is None
    ((number, purge),) = log.pending().items()
    assert purge.value == b"news"
    log.carried_out(number)
    assert log.pending() == {}
    assert log.judge(KEY, entry, born, now) is entry  # whoever carried it out has removed it
    assert log.refuses(KEY, entry, born)  # a long fetch still must not come in


def test_soft_purges_add_up(log: PurgeLog, entry: StoredResponse, now: Instant) -> None:
    born = log.mark()
    log.add(Purge(kind=Kind.EVERYTHING, mode=Mode.EXPIRE), now, durable=False)
    left = log.judge(KEY, entry, born, now)
    assert left is not None
    assert left.remaining(now) <= 0
    assert not left.invalid
    log.add(Purge(kind=Kind.TAG, value=b"news", mode=Mode.VALIDATE), now, durable=False)
    left = log.judge(KEY, entry, born, now)
    assert left is not None
    assert left.invalid


def test_another_worker_knows_at_once(
    log: PurgeLog, open_log: Open, entry: StoredResponse, now: Instant
) -> None:
    other = open_log()
    born = other.mark()
    log.add(TAG, now, durable=False)
    assert other.judge(KEY, entry, born, now) is None
    assert other.refuses(KEY, entry, born)
    other.add(Purge(kind=Kind.KEY, value=b"k"), now, durable=False)
    assert log.key_purged(b"k", born)
    assert not log.key_purged(b"other", born)


def test_purges_survive_a_restart(
    log: PurgeLog, open_log: Open, entry: StoredResponse, now: Instant
) -> None:
    born = log.mark()
    log.add(TAG, now, durable=True)
    again = open_log()
    assert again.judge(KEY, entry, born, now) is None
    assert again.mark() == log.mark()


def test_after_a_reboot_ticks_go_on_from_the_clock(
    log: PurgeLog, open_log: Open, entry: StoredResponse, now: Instant
) -> None:
    born = log.mark()
    log.add(Purge(kind=Kind.TAG, value=b"news", mode=Mode.EXPIRE), now, durable=True)
    again = open_log(OTHER)
    assert again.mark() >= log.mark() > born
    rebooted = Instant(now.wall + 60, 1.0)
    left = again.judge(KEY, entry, born, rebooted)
    assert left is not None
    assert left.remaining(rebooted) <= 0


def test_a_lost_file_purges_everything(
    log: PurgeLog, open_log: Open, tmp_path: Path, entry: StoredResponse, now: Instant
) -> None:
    log.add(TAG, now, durable=False)
    born = log.mark()
    os.unlink(tmp_path / "purges")
    assert log.lost
    again = open_log()
    assert again.judge(KEY, entry, born, now) is None
    assert again.judge(KEY, entry, again.mark(), now) is entry
    assert not again.lost


def test_so_does_a_damaged_header(
    log: PurgeLog, open_log: Open, tmp_path: Path, entry: StoredResponse, now: Instant
) -> None:
    born = log.mark()
    with (tmp_path / "purges").open("r+b") as file:
        file.seek(9)
        file.write(b"\xff\xff")
    again = open_log()
    assert again.judge(KEY, entry, born, now) is None


def test_marks_from_before_a_clock_that_was_set_back_count_as_purged(
    log: PurgeLog, entry: StoredResponse, now: Instant
) -> None:
    ahead = log.mark() + 1
    assert log.judge(KEY, entry, ahead, now) is None
    assert log.refuses(KEY, entry, ahead)


def test_a_purge_that_was_cut_short_never_was(
    log: PurgeLog, open_log: Open, tmp_path: Path, entry: StoredResponse, now: Instant
) -> None:
    born = log.mark()
    with (tmp_path / "purges").open("r+b") as file:  # the record, and no header that counts it
        file.seek(ring.RING_AT + 2 * ring.RECORD)
        file.write(b"half a record")
    assert open_log().judge(KEY, entry, born, now) is entry
    log.add(TAG, now, durable=False)
    assert open_log().judge(KEY, entry, born, now) is None


def test_a_damaged_record_may_have_been_about_anything(
    log: PurgeLog, open_log: Open, tmp_path: Path, entry: StoredResponse, now: Instant
) -> None:
    born = log.mark()
    log.add(Purge(kind=Kind.TAG, value=b"sport", mode=Mode.EXPIRE), now, durable=False)
    log.add(Purge(kind=Kind.TAG, value=b"sport", mode=Mode.EXPIRE), now, durable=False)
    with (tmp_path / "purges").open("r+b") as file:
        file.seek(ring.RING_AT + 2 * ring.RECORD + 30)
        file.write(b"\xff\xff\xff")
    assert open_log().judge(KEY, entry, born, now) is None


@pytest.fixture
def small_ring(monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(ring, "RECORDS", 64)
    return 64


@pytest.mark.usefixtures("small_ring")
def test_more_purges_than_the_ring_holds_become_one_of_everything(
    log: PurgeLog, entry: StoredResponse, now: Instant
) -> None:
    born = log.mark()
    soft = Purge(kind=Kind.TAG, value=b"sport", mode=Mode.EXPIRE)
    for _ in range(ring.RECORDS - 2):
        log.add(soft, now, durable=False)
    assert log.judge(KEY, entry, born, now) is entry
    for _ in range(3):
        log.add(soft, now, durable=False)
    left = log.judge(KEY, entry, born, now)
    assert left is not None
    assert left.remaining(now) <= 0
    assert len(log.pending()) < 4


@pytest.mark.usefixtures("small_ring")
def test_a_fetch_that_outlived_the_ring_is_refused(
    log: PurgeLog, open_log: Open, entry: StoredResponse, now: Instant
) -> None:
    born = log.mark()
    for _ in range(ring.RECORDS + 1):
        log.add(Purge(kind=Kind.TAG, value=b"sport"), now, durable=False)
        log.carried_out(max(log.pending()))
    assert not log.refuses(KEY, entry, log.mark())
    for seen_all in (log, open_log()):
        assert seen_all.refuses(KEY, entry, born)
        assert seen_all.since(born) is None


@pytest.mark.usefixtures("small_ring")
def test_purges_are_known_as_the_ring_goes_round(
    log: PurgeLog, open_log: Open, entry: StoredResponse, now: Instant
) -> None:
    """To who has followed it all the time, and to who comes in the middle."""
    for number in range(5 * ring.RECORDS):
        born = log.mark()
        value = b"news" if number % 7 == 0 else b"%d" % number
        log.add(Purge(kind=Kind.TAG, value=value), now, durable=False)
        if number % 20 == 0:
            log.carried_out(max(log.pending()) - 10)
        if number % 7 == 0:
            assert log.judge(KEY, entry, born, now) is None
            assert log.refuses(KEY, entry, born)
        if number % 49 == 0:
            late = open_log()
            assert late.judge(KEY, entry, born, now) is None
            assert late.pending() == log.pending()
            assert not late.refuses(KEY, entry, late.mark())


def test_what_came_since_can_be_asked(log: PurgeLog, now: Instant) -> None:
    mark = log.mark()
    assert log.since(mark) == ()
    added = log.add(TAG, now, durable=False)
    assert log.since(mark) == (added,)
    assert log.since(log.mark()) == ()


def test_what_names_too_much_is_an_error(log: PurgeLog, now: Instant) -> None:
    mark = log.mark()
    with pytest.raises(ValueError, match="prefix"):
        log.add(Purge(kind=Kind.PREFIX, value=b"x" * 1901), now, durable=False)
    assert log.mark() == mark
    log.add(Purge(kind=Kind.KEY, value=b"x" * 9000), now, durable=False)


def test_a_full_disk_takes_purges(
    mounted: Callable[[str], Path], entry: StoredResponse, now: Instant
) -> None:
    directory = mounted("size=10m")
    log = PurgeLog(os.fsencode(directory), BOOT)
    with suppress(OSError), (directory / "rest").open("wb", 0) as file:
        while True:
            file.write(bytes(4096))
    born = log.mark()
    log.add(TAG, now, durable=True)
    log.add(Purge(kind=Kind.KEY, value=KEY), now, durable=True)
    assert log.judge(KEY, entry, born, now) is None
    log.close()


@pytest.mark.slow
def test_no_purge_is_missed_whoever_is_killed(
    log: PurgeLog, open_log: Open, entry: StoredResponse, now: Instant, fork: Fork
) -> None:
    """What a killed process had been told is in force is so for those that live."""
    watcher = open_log()
    for _ in range(20):
        born = watcher.mark()
        told, tell = os.pipe()
        child = fork(partial(purge_forever, log, now, tell))
        os.close(tell)
        os.read(told, 1)
        kill(child)
        with os.fdopen(told, "rb") as file:
            lines = file.read().split()
        assert watcher.refuses(KEY, entry, born)
        assert watcher.judge(KEY, entry, born, now) is None
        assert watcher.mark() >= int(lines[-1])


def purge_forever(log: PurgeLog, now: Instant, tell: int) -> None:
    while True:
        os.write(tell, b"%d\n" % log.add(TAG, now, durable=False).tick)
