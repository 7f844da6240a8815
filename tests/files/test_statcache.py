"""How long a record is believed, and what makes room for what."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgebox.files.coverage import UNCOVERED, Coverage
from edgebox.files.entry import Directory, Docroot, Identity, Missing
from edgebox.files.statcache import (
    EPOCH,
    Dropped,
    Engine,
    EvictingCache,
    Key,
    Policy,
    Record,
    StatCache,
    Trust,
    trust,
    unsettled_for,
)

WWW = Docroot(b"/www")
SECOND = 10**9


def record(
    checked_at: float = 100.0, unsettled: float = 0.0, coverage: Coverage = UNCOVERED
) -> Record:
    return Record(Directory(b"/"), checked_at, checked_at, unsettled, coverage)


def missing() -> Record:
    return Record(Missing.NOT_FOUND, 100.0, 100.0, 0.0, UNCOVERED)


@pytest.mark.parametrize(
    ("engine", "bound", "fresh_for", "rememberable"),
    [
        ("inotify", 2.0, 1.0, True),
        ("ttl", 2.0, 1.0, True),
        ("ttl", 1.0, 0.0, True),
        ("ttl", 0.5, 0.5, False),
        ("inotify", 0.0, 0.0, False),
        ("off", 2.0, -1.0, False),
    ],
)
def test_an_entry_is_used_for_the_bound_less_what_the_lane_adds(
    engine: Engine, bound: float, fresh_for: float, rememberable: bool
) -> None:
    policy = Policy(engine, bound)
    assert policy.fresh_for == fresh_for
    assert policy.rememberable is rememberable


def test_a_record_is_fresh_then_looked_at_again() -> None:
    assert trust(record(), 100.0, 1.0) is Trust.FRESH
    assert trust(record(), 101.0, 1.0) is Trust.FRESH
    assert trust(record(), 101.1, 1.0) is Trust.RECHECK
    assert trust(record(), 99.0, 1.0) is Trust.FRESH  # somebody asks with an older clock


def test_without_a_stat_cache_every_use_is_a_look() -> None:
    assert trust(record(), 100.0, Policy("off", 2.0).fresh_for) is Trust.RECHECK


def test_what_a_watch_saw_change_is_unknown_however_young() -> None:
    coverage = Coverage()
    coverage.alive = False
    assert trust(record(coverage=coverage), 100.0, 1.0) is Trust.UNKNOWN


def test_an_unsettled_record_is_read_again_once_the_clock_ticked() -> None:
    young = record(unsettled=0.02)
    assert trust(young, 100.01, 1.0) is Trust.FRESH
    assert trust(young, 100.03, 1.0) is Trust.UNKNOWN
    assert trust(record(unsettled=2.0), 101.5, 1.0) is Trust.UNKNOWN  # its identity proves nothing


@given(
    engine=st.sampled_from(["inotify", "ttl", "off"]),
    bound=st.floats(0, 100),
    age=st.floats(0, 200),
    later=st.floats(0, 200),
    unsettled=st.sampled_from([0.0, 0.02, 2.0]),
)
def test_nothing_sent_is_older_than_the_bound(
    engine: Engine, bound: float, age: float, later: float, unsettled: float
) -> None:
    policy = Policy(engine, bound)
    it = record(0.0, unsettled)
    verdict = trust(it, age, policy.fresh_for)
    if verdict is Trust.FRESH:
        assert age + (EPOCH if policy.rememberable else 0) <= bound + 1e-9
    else:  # trust does not come back by waiting
        assert trust(it, age + later, policy.fresh_for) is not Trust.FRESH


def identity(ctime_ns: int, mtime_ns: int = 0) -> Identity:
    return Identity(1, 2, 3, mtime_ns, ctime_ns)


def test_a_file_changed_just_now_is_unsettled() -> None:
    changed = 1_000 * SECOND + 123
    assert unsettled_for(identity(changed), changed) > 0
    assert unsettled_for(identity(changed), changed + 10_000_000) > 0  # one tick at 100 Hz
    assert unsettled_for(identity(changed), changed + 50_000_000) == 0
    # A clock that was set back will not pass this very instant again.
    assert unsettled_for(identity(changed), changed - 60 * SECOND) == 0


def test_times_in_whole_seconds_settle_in_seconds() -> None:
    assert unsettled_for(identity(1_000 * SECOND), 1_001 * SECOND) > 1
    assert unsettled_for(identity(1_000 * SECOND), 1_003 * SECOND) == 0


def test_an_mtime_set_back_settles_nothing() -> None:
    changed = 1_000 * SECOND + 123
    assert unsettled_for(identity(changed, mtime_ns=5), changed) > 0


class Told:
    def __init__(self, entries: int = 16, negative_entries: int = 2) -> None:
        self.drops: list[tuple[bytes, Dropped]] = []
        self.cache = StatCache(entries, negative_entries, self.dropped)

    def dropped(self, key: Key, _: Record, why: Dropped) -> None:
        self.drops.append((key[1], why))


def test_the_least_recently_used_path_makes_room() -> None:
    told = Told(entries=16)
    for i in range(16):
        told.cache.put((WWW, b"/%d" % i), record())
    told.cache.get((WWW, b"/0"))
    told.cache.put((WWW, b"/new"), record())
    assert told.drops == [(b"/1", Dropped.FOR_ROOM)]
    assert told.cache.sizes() == (16, 0)


def test_missing_paths_do_not_push_out_files() -> None:
    told = Told(entries=16, negative_entries=2)
    told.cache.put((WWW, b"/file"), record())
    for i in range(100):
        told.cache.put((WWW, b"/wp-%d" % i), missing())
    assert told.cache.sizes() == (1, 2)
    assert told.cache.get((WWW, b"/file")) is not None
    assert told.cache.get((WWW, b"/wp-99")) is not None
    assert told.cache.get((WWW, b"/wp-0")) is None


def test_no_room_for_missing_paths_is_no_error() -> None:
    told = Told(negative_entries=0)
    told.cache.put((WWW, b"/none"), missing())
    assert told.cache.get((WWW, b"/none")) is None
    assert told.drops == [(b"/none", Dropped.FOR_ROOM)]


def test_a_path_is_present_or_absent_never_both() -> None:
    told = Told()
    key = (WWW, b"/x")
    told.cache.put(key, missing())
    told.cache.put(key, record())
    assert told.cache.sizes() == (1, 0)
    told.cache.put(key, missing())
    assert told.cache.sizes() == (0, 1)
    assert told.drops == [(b"/x", Dropped.ON_DEMAND)] * 2


def test_everything_that_leaves_is_told_once() -> None:
    told = Told()
    told.cache.put((WWW, b"/a"), record())
    told.cache.put((WWW, b"/b"), missing())
    told.cache.put((WWW, b"/c"), record())
    assert told.cache.discard((WWW, b"/c")) is not None
    assert told.cache.discard((WWW, b"/c")) is None
    told.cache.clear()
    assert sorted(told.drops) == [(p, Dropped.ON_DEMAND) for p in (b"/a", b"/b", b"/c")]
    assert told.cache.sizes() == (0, 0)


def test_the_same_path_under_another_docroot_is_another() -> None:
    told = Told()
    told.cache.put((WWW, b"/a"), record())
    assert told.cache.get((Docroot(b"/other"), b"/a")) is None
    assert told.cache.get((Docroot(b"/www", "never"), b"/a")) is None
    assert told.cache.get((Docroot(b"/www"), b"/a")) is not None


def test_peeking_uses_nothing() -> None:
    evicted: list[str] = []
    cache: EvictingCache[str, int] = EvictingCache(2, lambda key, _: evicted.append(key))
    cache["old"], cache["new"] = 1, 2
    cache["old"]
    assert dict(cache.peek_items()) == {"old": 1, "new": 2}
    cache["newest"] = 3
    assert evicted == ["new"]
