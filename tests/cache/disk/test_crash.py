"""A process killed at any instant leaves nothing that is later served wrong.

Every octet that is found afterwards is checked against what it must be, every purge that had
returned before the kill against what may still be there.
"""

from __future__ import annotations

import os
import random
import time
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import msgspec
import pytest

from edgebox.cache.answer import Instant
from edgebox.cache.disk import housekeeper
from edgebox.cache.disk.finder import Filed
from edgebox.cache.disk.housekeeper import Housekeeper
from edgebox.cache.disk.layout import footprint
from edgebox.cache.disk.manners import Ears
from edgebox.cache.disk.notes import NoteReceiver
from edgebox.cache.disk.outcome import Outcome
from edgebox.cache.disk.purge import Kind, Mode, Purge
from edgebox.cache.disk.store import Store
from tests.cache.disk.conftest import Fork, MakeRig, Rig, body_of, kill, read

# fork() beside threads that trio left to be used again: the child uses none.
pytestmark = pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")

KEYS = [b"http://example.com/%d" % number for number in range(6)]
LANGUAGES = ("de", "fr", "en")
RENEWED = b"X-Renewed"
SIZES = (0, 449, 5_000, 90_000, 1_000_000)


@dataclass
class Truth:
    """What a writer told before it was killed: purges, and how far it had come."""

    path: Path
    serial: int = 0
    purged: dict[bytes, int] = field(default_factory=dict)  # what came before is gone
    softened: dict[bytes, int] = field(default_factory=dict)  # or stale, unless renewed since

    def learn(self) -> None:
        for line in self.path.read_text().splitlines():
            serial, mode, keys = (int(word) for word in line.split())
            self.serial = max(self.serial, serial)
            for number, key in enumerate(KEYS):
                if keys >> number & 1:
                    into = self.purged if mode == Mode.REMOVE else self.softened
                    into[key] = max(serial, into.get(key, 0))

    def check(self, rig: Rig) -> int:
        store, found = rig.open(), 0
        now = Instant(rig.now.wall + 2000, rig.now.steady + 2000)
        for key in KEYS:
            for filed in store.find(key, now):
                found += 1
                self._check_one(key, filed, now)
                filed.release()
        store.close()
        rig.stores.remove(store)
        return found

    def _check_one(self, key: bytes, filed: Filed, now: Instant) -> None:
        serial = int((filed.entry.etag or b"").strip(b'"'))
        assert read(filed) == body_of(key, serial, filed.size)
        assert filed.size == SIZES[serial % len(SIZES)]
        assert serial > self.purged.get(key, 0)
        renewed = max([serial, *(int(v) for n, v in filed.entry.fields if n == RENEWED)])
        if renewed <= self.softened.get(key, 0):
            assert filed.entry.invalid or filed.entry.remaining(now) <= 0


def write(rig: Rig, seed: int, serial: int, truth: int) -> None:
    """Do at random whatever a worker does, forever; every purge is told once it has returned."""
    store, chance = rig.open(), random.Random(seed)
    while True:
        serial += 1
        key = chance.choice(KEYS)
        what = chance.random()
        tell(truth, serial, Mode.EXPIRE, set())
        if what < 0.6:
            store_one(rig, store, key, serial, chance)
        elif what < 0.8:
            for filed in store.find(key, rig.now):
                renew(store, filed, serial, chance.choice((10, 10, 3000)))
                filed.release()
        else:
            mode = chance.choice(list(Mode))
            number = KEYS.index(key)
            tag = number % 2
            purge, concerned = chance.choice(
                [
                    (Purge(kind=Kind.KEY, value=key, mode=mode), {number}),
                    (Purge(kind=Kind.TAG, value=b"t%d" % tag, mode=mode), set(range(tag, 6, 2))),
                    (Purge(kind=Kind.EVERYTHING, mode=mode), set(range(6))),
                ]
            )
            assert store.purge(purge, soon(rig, serial), durable=False).done
            tell(truth, serial, mode, concerned)


def store_one(rig: Rig, store: Store, key: bytes, serial: int, chance: random.Random) -> None:
    language = chance.choice((None, *LANGUAGES))
    vary = ("Vary: X-Language",) if language else ()
    entry = rig.entry(
        f'ETag: "{serial}"', f"Surrogate-Key: t{KEYS.index(key) % 2}", *vary,
        asked=(f"X-Language: {language}",), after=serial / 1000,
    )  # fmt: skip
    body = body_of(key, serial, SIZES[serial % len(SIZES)])
    mark, writing = store.mark(), store.begin(chance.choice((None, len(body))))
    assert not isinstance(writing, Outcome), writing
    for start in range(0, len(body), 100_000):
        assert writing.write(body[start : start + 100_000]), writing.outcome
    if chance.random() < 0.9:
        writing.commit(key, entry, mark)
    writing.close()


def renew(store: Store, filed: Filed, serial: int, size: int) -> None:
    kept = tuple(item for item in filed.entry.fields if item[0] not in (RENEWED, b"X-Long"))
    fields = (*kept, (RENEWED, b"%d" % serial), (b"X-Long", b"x" * size))
    newer = msgspec.structs.replace(filed.entry, fields=fields, invalid=False)
    store.renew(filed, newer, store.mark())


def soon(rig: Rig, serial: int) -> Instant:
    return Instant(rig.now.wall + serial / 1000, rig.now.steady + serial / 1000)


def tell(truth: int, serial: int, mode: Mode, keys: set[int]) -> None:
    bits = sum(1 << number for number in keys)
    os.write(truth, b"%d %d %d\n" % (serial, mode, bits))


@pytest.fixture(params=[20, pytest.param(100, marks=pytest.mark.slow)])
def rounds(request: pytest.FixtureRequest) -> int:
    count: int = request.param
    return count


def test_a_killed_writer_leaves_nothing_wrong(
    rig: Rig, tmp_path: Path, rounds: int, fork: Fork
) -> None:
    path = tmp_path / "truth"
    path.touch()
    truth, found = Truth(path), 0
    chance = random.Random(rounds)
    for seed in range(rounds):
        fd = os.open(path, os.O_WRONLY | os.O_APPEND)
        # After some deeds, however long these take, and in the middle of one.
        until = path.stat().st_size + chance.randrange(1, 100)
        child = fork(partial(write, rig, seed, truth.serial, fd))
        os.close(fd)
        deadline = time.monotonic() + 30
        while path.stat().st_size < until and time.monotonic() < deadline:
            time.sleep(0.001)
        time.sleep(chance.random() * 0.002)
        kill(child)
        truth.learn()
        found += truth.check(rig)
    assert truth.serial > rounds
    assert found > 0
    tidy_up(rig)
    truth.check(rig)


def keep_house(rig: Rig) -> None:
    directory = os.open(rig.directory, os.O_RDONLY)
    receiver = NoteReceiver(directory)
    parent, _ = os.pipe()
    Housekeeper(
        os.fsencode(rig.directory), rig.settings.limit, receiver, Ears(receiver.fileno(), parent)
    ).run()


def test_a_killed_housekeeper_loses_nothing(
    make_rig: MakeRig, tmp_path: Path, rounds: int, fork: Fork, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While a worker stores so much that it has to evict, and purges."""
    monkeypatch.setattr(housekeeper, "PURGE_SURVEY_EVERY", 0.0)
    rig = make_rig(limit=2_100_000)
    path = tmp_path / "truth"
    truth, found = Truth(path), 0
    chance = random.Random(rounds)
    fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    for _ in range(rounds):
        child = fork(partial(keep_house, rig))
        end = time.monotonic() + 0.01 + chance.random() * 0.03
        while time.monotonic() < end:
            truth.serial += 1
            number = chance.randrange(6)
            key = KEYS[number]
            size = SIZES[truth.serial % len(SIZES)]
            body = body_of(key, truth.serial, size)
            lines = (f'ETag: "{truth.serial}"', f"Surrogate-Key: t{number % 2}")
            rig.keep(body, *lines, key=key, after=truth.serial / 1000)
            if chance.random() < 0.1:
                purge = Purge(kind=Kind.TAG, value=b"t%d" % (number % 2))
                assert rig.store.purge(purge, soon(rig, truth.serial), durable=False).done
                tell(fd, truth.serial, Mode.REMOVE, set(range(number % 2, 6, 2)))
            rig.store.turn(rig.now)
        kill(child)
        truth.learn()
        found += truth.check(rig)
        statistics = rig.store.statistics()
        assert statistics.kept + statistics.reserved <= rig.settings.limit
    os.close(fd)
    assert found > 0
    tidy_up(rig)
    truth.check(rig)


def tidy_up(rig: Rig) -> None:
    """The housekeeper's round makes the sums right, and leaves nothing that nothing leads to."""
    care = rig.caretaker()
    care.sweep()
    care.carry_out()
    care.survey()
    statistics = rig.store.statistics()
    assert statistics.kept == sum(footprint(path.stat().st_size) for path in rig.files())
    assert statistics.reserved == 0
    assert care.damaged == 0
    assert not [path for path in rig.files() if path.name.startswith(".")]
