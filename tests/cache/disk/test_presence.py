"""What the filter says is not there is not there, whatever happened."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgebox.cache.disk.layout import LEAVES, leaf_of, name_of
from edgebox.cache.disk.presence import PRESENCE, Presence
from tests.cache.disk.conftest import KEY, Rig

BOOT, OTHER_BOOT = b"a" * 16, b"b" * 16
NAME = name_of(KEY)


@pytest.fixture(params=[None, "/dev/shm"], ids=["here", "on tmpfs"])
def place(request: pytest.FixtureRequest) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir=request.param) as directory:
        yield Path(directory)


@pytest.fixture
def presence(place: Path) -> Iterator[Presence]:
    presence = Presence(os.fsencode(place), BOOT)
    yield presence
    presence.close()


def name(number: int) -> bytes:
    return blake2b(b"%d" % number, digest_size=16).digest()


def test_before_a_survey_nothing_is_certain(presence: Presence) -> None:
    assert not presence.lacks(NAME)
    presence.add(NAME)
    assert not presence.lacks(NAME)
    assert not presence.lacks(name(1))


def test_after_a_survey_it_knows_what_is_not_there(presence: Presence) -> None:
    presence.settle(leaf_of(NAME), [])
    assert presence.lacks(NAME)
    presence.add(NAME)
    assert not presence.lacks(NAME)
    presence.settle(leaf_of(NAME), [])
    assert presence.lacks(NAME), "what was removed is forgotten with the next survey"


@settings(max_examples=30)
@given(st.sets(st.integers(0, 10**9), max_size=300))
def test_what_was_noted_is_never_said_to_be_missing(
    tmp_path_factory: pytest.TempPathFactory, numbers: set[int]
) -> None:
    presence = Presence(os.fsencode(tmp_path_factory.mktemp("presence")), BOOT)
    half = len(numbers) // 2
    names = [NAME[:2] + name(number)[2:] for number in numbers]
    presence.settle(leaf_of(NAME), names[:half])
    for each in names[half:]:
        presence.add(each)
    assert not any(presence.lacks(each) for each in names)
    presence.close()


def test_most_of_what_is_not_there_is_known_at_a_million(presence: Presence) -> None:
    names = [NAME[:2] + name(number)[2:] for number in range(250)]
    presence.settle(leaf_of(NAME), names)
    others = [NAME[:2] + name(number)[2:] for number in range(1000, 3000)]
    assert sum(presence.lacks(each) for each in others) > 1980


def test_after_a_boot_nothing_is_certain_until_the_next_survey(
    presence: Presence, place: Path
) -> None:
    presence.settle(leaf_of(NAME), [])
    booted = Presence(os.fsencode(place), OTHER_BOOT)
    assert not booted.lacks(NAME)
    booted.add(NAME)
    assert not booted.lacks(NAME[:2] + name(1)[2:])
    booted.close()


def test_a_file_that_was_cut_short_or_filled_with_nonsense_says_nothing(
    presence: Presence, place: Path
) -> None:
    presence.settle(leaf_of(NAME), [])
    (place / os.fsdecode(PRESENCE)).write_bytes(b"")
    assert not presence.lacks(NAME)
    (place / os.fsdecode(PRESENCE)).write_bytes(os.urandom(LEAVES * 512))
    assert not presence.lacks(NAME)


def test_a_directory_that_is_being_made_is_not_called_missing(
    presence: Presence, place: Path
) -> None:
    (place / "there").mkdir()
    presence.settle_missing(leaf_of(NAME), os.fsencode(place / "there"))
    assert not presence.lacks(NAME)
    presence.settle_missing(leaf_of(NAME), os.fsencode(place / "not"))
    assert presence.lacks(NAME)


def test_a_survey_lets_misses_be_answered_at_once(rig: Rig) -> None:
    assert rig.store.find_nowait(b"http://example.com/never", rig.now) is None
    rig.caretaker().survey()
    assert rig.store.find_nowait(b"http://example.com/never", rig.now) == []
    rig.keep(b"body")
    found = rig.store.find(KEY, rig.now)
    assert len(found) == 1
    found[0].release()
    assert rig.store.find_nowait(KEY, rig.now) != []
