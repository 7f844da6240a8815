"""The bound is hard: not even for a moment do the files take more, whoever writes at once."""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from edgebox.cache.disk.outcome import Outcome
from edgebox.cache.disk.writing import Writing
from tests.cache.disk.conftest import KEY, Fork, MakeRig, Rig, body_of

# fork() beside threads that trio left to be used again: the child uses none.
pytestmark = pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")

MIB = 1 << 20
BESIDES = 12 * MIB  # the files of purges and space, directories, inodes


def used(directory: Path) -> int:
    status = os.statvfs(directory)
    return (status.f_blocks - status.f_bfree) * status.f_frsize


def burst(rig: Rig, thread: int, outcomes: Counter[Outcome]) -> None:
    """Many answers of many sizes at once, of which some do not tell theirs, and some are cut."""
    store = rig.open()
    for number in range(40):
        key = b"http://a/%d/%d" % (thread, number % 30)
        size = (number * 7919 + thread * 104729) % 300_000
        writing = store.begin(size if number % 2 else None)
        if isinstance(writing, Outcome):
            outcomes[writing] += 1
            continue
        body = body_of(key, number, size)
        for start in range(0, size, 50_000):
            if not writing.write(body[start : start + 50_000]):
                break
        if number % 7:
            outcomes[writing.commit(key, rig.entry(after=float(number)), store.mark())] += 1
        writing.close()


@pytest.mark.slow
def test_a_burst_stays_within_the_bound(
    make_rig: MakeRig, mounted: Callable[[str], Path], fork: Fork
) -> None:
    point = mounted("size=64m")
    rig = make_rig(point, limit=8 * MIB)
    outcomes: Counter[Outcome] = Counter()
    most = 0
    threads = [threading.Thread(target=burst, args=(rig, n, outcomes)) for n in range(6)]
    children = [fork(lambda n=n: burst(rig, n, Counter())) for n in (100, 101)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        most = max(most, used(point))
    for thread in threads:
        thread.join()
    for child in children:
        assert os.waitpid(child, 0)[1] == 0
    assert most <= 8 * MIB + BESIDES
    assert outcomes[Outcome.NO_ROOM] > 0
    assert rig.store.statistics().kept > 4 * MIB
    kept, reserved, limit = (
        getattr(rig.store.statistics(), name) for name in ("kept", "reserved", "limit")
    )
    care = rig.caretaker()
    care.sweep()
    care.survey()
    assert reserved <= limit - kept
    assert rig.store.statistics().reserved == 0
    assert rig.store.statistics().kept == kept <= limit  # it was right before it was counted


def test_what_is_larger_than_half_the_bound_is_refused(make_rig: MakeRig) -> None:
    rig = make_rig(limit=MIB)
    assert rig.store.begin(600_000) is Outcome.TOO_LARGE
    writing = rig.store.begin(None)
    assert isinstance(writing, Writing)
    while writing.write(bytes(100_000)):
        pass
    assert writing.outcome is Outcome.TOO_LARGE
    writing.close()


def test_a_smaller_limit_after_a_restart_is_kept(make_rig: MakeRig) -> None:
    rig = make_rig(limit=MIB)
    for number in range(5):
        assert rig.keep(bytes(100_000), key=b"http://a/%d" % number) is Outcome.STORED
    smaller = make_rig(limit=200_000)
    assert smaller.keep(b"x", key=b"http://a/x") is Outcome.NO_ROOM
    care = smaller.caretaker()
    care.survey()
    assert care.make_room(100_000)
    assert smaller.keep(b"x", key=b"http://a/x") is Outcome.STORED


@pytest.mark.slow
def test_writers_of_one_key_leave_one_whole_answer(rig: Rig) -> None:
    """And whoever looks meanwhile finds one that is whole, or none."""
    wrong: list[bytes] = []
    done = threading.Event()

    def write(thread: int) -> None:
        store = rig.open()
        for number in range(30):
            serial = thread * 1000 + number
            entry = rig.entry(f'ETag: "{serial}"')
            size = 1000 + serial % 17 * 9000
            store.keep(KEY, entry, body_of(KEY, serial, size), store.mark())
            if number % 5 == 0:
                for filed in store.find(KEY, rig.now):
                    store.renew(filed, filed.entry, store.mark())
                    filed.release()

    def look() -> None:
        store = rig.open()
        while not done.is_set():
            for filed in store.find(KEY, rig.now):
                serial = int((filed.entry.etag or b"").strip(b'"'))
                octets = os.pread(filed.file.fileno(), filed.size, 0)
                if octets != body_of(KEY, serial, filed.size):
                    wrong.append(octets)
                filed.release()

    writers = [threading.Thread(target=write, args=(n,)) for n in range(4)]
    readers = [threading.Thread(target=look) for _ in range(2)]
    for thread in writers + readers:
        thread.start()
    for thread in writers:
        thread.join()
    done.set()
    for thread in readers:
        thread.join()
    assert wrong == []
    assert len(rig.bodies()) == len(rig.files()) == 1
