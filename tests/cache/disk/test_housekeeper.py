"""The process: it does its jobs by itself, and ends with whoever started it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from edgebox.cache.disk.housekeeper import TAKEN
from edgebox.cache.disk.outcome import Outcome
from edgebox.cache.disk.purge import Kind, Purge
from edgebox.cache.disk.reports import Report, read_line
from tests.cache.disk.conftest import MakeRig, Rig

pytestmark = pytest.mark.slow
PATIENCE = 60.0
MIB = 1 << 20


class House:
    """A housekeeper and what it reports."""

    def __init__(self, rig: Rig) -> None:
        self.rig = rig
        command = [sys.executable, "-P", "-m", "edgebox.cache.disk.housekeeper"]
        self.process = subprocess.Popen(
            [*command, str(rig.directory), str(rig.settings.limit)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self.process.stdout is not None
        os.set_blocking(self.process.stdout.fileno(), False)
        self.report = Report()
        self.texts: list[str] = []
        self._pending = b""

    def read(self) -> Report:
        assert self.process.stdout is not None
        *lines, self._pending = (self._pending + (self.process.stdout.read() or b"")).split(b"\n")
        for line in lines:
            self.report = read_line(line)
            if self.report.text:
                self.texts.append(self.report.text)
        return self.report

    def wait(self, condition: Callable[[Report], object]) -> Report:
        """Until the reports, or the world, say so."""
        deadline = time.monotonic() + PATIENCE
        while not condition(self.read()):
            assert time.monotonic() < deadline, (self.report, self.texts)
            assert self.process.poll() is None, self.texts
            self.rig.store.turn(self.rig.now)
            time.sleep(0.01)
        return self.report

    def end(self) -> int:
        self.process.communicate()  # closes its standard input
        return self.process.returncode

    def kill(self) -> None:
        self.process.kill()
        if self.process.stdin and not self.process.stdin.closed:
            self.process.communicate()


@pytest.fixture
def open_house() -> Iterator[Callable[[Rig], House]]:
    houses: list[House] = []

    def open_(rig: Rig) -> House:
        houses.append(House(rig))
        return houses[-1]

    yield open_
    for house in houses:
        house.kill()


OpenHouse = Callable[[Rig], House]


def key_of(number: int) -> bytes:
    return b"http://example.com/%d" % number


def test_it_learns_what_is_stored_and_ends_when_nobody_is_there(
    rig: Rig, open_house: OpenHouse
) -> None:
    rig.keep(b"before", key=key_of(0))
    house = open_house(rig)
    house.wait(lambda report: report.keys == 1 and report.surveys)
    for number in range(1, 10):
        rig.keep(b"x", key=key_of(number))
    report = house.wait(lambda report: report.keys == 10)
    assert 5 * MIB < report.memory < 64 * MIB
    assert house.end() == 0
    assert house.texts == []


def test_there_is_only_one(rig: Rig, open_house: OpenHouse) -> None:
    house = open_house(rig)
    house.wait(lambda report: report.surveys)
    assert open_house(rig).process.wait(PATIENCE) == TAKEN
    house.kill()
    open_house(rig).wait(lambda report: report.surveys)


def test_it_makes_room_before_there_is_none(make_rig: MakeRig, open_house: OpenHouse) -> None:
    rig = make_rig(limit=2 * MIB)
    house = open_house(rig)
    house.wait(lambda report: report.surveys)
    stored = []
    for number in range(600):
        if rig.keep(bytes(10_000), key=key_of(number)) is Outcome.STORED:
            stored.append(number)
        else:
            house.wait(lambda _: sum(room(rig)) < 2 * MIB - 100_000)
        assert sum(room(rig)) <= 2 * MIB
    house.wait(lambda report: report.evicted > 300)
    assert rig.bodies(key_of(stored[-1]))
    assert not rig.bodies(key_of(0))
    assert len(stored) > 500


def room(rig: Rig) -> tuple[int, int]:
    statistics = rig.store.statistics()
    return statistics.kept, statistics.reserved


def test_what_is_used_stays(make_rig: MakeRig, open_house: OpenHouse) -> None:
    rig = make_rig(limit=2 * MIB)
    for number in range(40):
        rig.keep(bytes(40_000), key=key_of(number))
        old = time.time() - 10_000 + number
        os.utime(rig.path(key_of(number)), (old, old))
    rig.store = rig.open()  # one that has not just stored all that
    house = open_house(rig)
    house.wait(lambda report: report.surveys and report.keys == 40)
    rig.store.touch(key_of(1))
    rig.bodies(key_of(2))
    rig.store.turn(rig.now)
    assert rig.store.begin(1_000_000) is Outcome.NO_ROOM  # for which room is made then
    house.wait(lambda report: report.evicted > 10)
    assert rig.bodies(key_of(1))
    assert rig.bodies(key_of(2))
    assert not rig.bodies(key_of(0))
    house.wait(lambda _: sum(room(rig)) <= 2 * MIB - 1_010_000)
    writing = rig.store.begin(1_000_000)
    assert not isinstance(writing, Outcome)
    writing.close()


def test_purges_are_carried_out(rig: Rig, open_house: OpenHouse) -> None:
    for number in range(50):
        rig.keep(b"x", f"Surrogate-Key: t{number % 2}", key=key_of(number))
    house = open_house(rig)
    house.wait(lambda report: report.keys == 50)
    rig.store.purge(Purge(kind=Kind.TAG, value=b"t1"), rig.now)
    house.wait(lambda _: len(rig.files()) == 25)
    assert sum(bool(rig.bodies(key_of(number))) for number in range(50)) == 25


def test_it_gets_over_a_lost_and_a_damaged_index(rig: Rig, open_house: OpenHouse) -> None:
    for number in range(20):
        rig.keep(b"x", key=key_of(number))
    house = open_house(rig)
    house.wait(lambda report: report.keys == 20)
    house.kill()
    for octets in (None, b"nonsense" * 1000):
        for name in ("index.sqlite", "index.sqlite-wal", "index.sqlite-shm"):
            (rig.directory / name).unlink(missing_ok=True)
        if octets:
            (rig.directory / "index.sqlite").write_bytes(octets)
        house = open_house(rig)
        house.wait(lambda report: report.keys == 20)
        house.kill()
    assert len(rig.files()) == 20


def test_it_counts_anew_what_nobody_knows(rig: Rig, open_house: OpenHouse) -> None:
    for number in range(20):
        rig.keep(b"x", key=key_of(number))
    rig.store.close()
    (rig.directory / "space").unlink()
    rig.store = rig.open()
    assert rig.keep(b"x") is Outcome.NO_ROOM
    open_house(rig).wait(lambda _: rig.store.statistics().counted)
    assert rig.keep(b"x") is Outcome.STORED
    assert rig.store.statistics().kept == 21 * 4096


def test_it_ends_when_the_directory_is_emptied(rig: Rig, open_house: OpenHouse) -> None:
    house = open_house(rig)
    house.wait(lambda report: report.surveys)
    for name in ("space", "purges", "index.sqlite", "housekeeper.lock"):
        (rig.directory / name).unlink()
    assert house.process.wait(PATIENCE) == 0


def test_a_full_disk_gets_room(
    make_rig: MakeRig, open_house: OpenHouse, mounted: Callable[[str], Path]
) -> None:
    rig = make_rig(mounted("size=16m"), limit=1 << 30)
    house = open_house(rig)
    house.wait(lambda report: report.surveys)
    number = 0
    while rig.keep(bytes(50_000), key=key_of(number)) is Outcome.STORED:
        number += 1
        rig.store.turn(rig.now)
    assert rig.store.statistics().outcomes["disk full"] == 1
    house.wait(lambda report: report.evicted)
    rig.store._paused_until = 0.0
    assert rig.keep(bytes(50_000)) is Outcome.STORED


def test_a_directory_that_cannot_be_used_is_told(tmp_path: Path) -> None:
    command = [sys.executable, "-P", "-m", "edgebox.cache.disk.housekeeper"]
    told = subprocess.run(
        [*command, str(tmp_path / "none"), "1000000"],
        capture_output=True, stdin=subprocess.PIPE, timeout=PATIENCE, check=False,
    )  # fmt: skip
    assert told.returncode == 1
    assert "No such file" in read_line(told.stdout.splitlines()[0]).text
    assert told.stderr == b""
