from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from edgebox.observe.histogram import Histogram
from edgebox.observe.pages import GAUGES, NUMBERS, SHEET, SLOTS, Pages


@pytest.fixture
def pages() -> Iterator[Pages]:
    made = Pages.create()
    yield made
    made.close()


def taking(seconds: float, times: int = 1) -> Histogram:
    histogram = Histogram()
    histogram.record(seconds, times)
    return histogram


def test_what_is_published_is_read_by_whoever_has_the_descriptor(pages: Pages) -> None:
    slot = pages.slot(3)
    slot.claim(4711, 2)
    slot.beat(12.5)
    slot.publish({"requests": 7, "idle": 3}, {"hit_first": taking(0.01)}, b'{"hot":[["/",1,2]]}')
    other = Pages.attach(os.dup(pages.fd))
    reading = other.slot(3).read()
    assert reading is not None
    assert (reading.pid, reading.generation, reading.beat) == (4711, 2, 12.5)
    assert set(reading.numbers) == {*NUMBERS, *GAUGES}
    assert (reading.numbers["requests"], reading.numbers["idle"]) == (7, 3)
    assert reading.histograms["hit_first"].count == 1
    assert reading.sheet == {"hot": [["/", 1, 2]]}
    assert [number for number, _ in other.readings()] == [3]
    other.close()


def test_an_empty_slot_tells_nothing(pages: Pages) -> None:
    assert pages.slot(0).read() is None
    assert not any(pages.totals().numbers.values())
    assert list(pages.readings()) == []


def test_to_start_counts_as_a_beat_and_has_no_sheet(pages: Pages) -> None:
    pages.slot(0).claim(1, 1)
    reading = pages.slot(0).read()
    assert reading is not None
    assert abs(reading.beat - time.monotonic()) < 60
    assert reading.sheet == {}


def test_counters_outlive_their_workers_and_gauges_do_not(pages: Pages) -> None:
    slot = pages.slot(0)
    slot.claim(1, 1)
    slot.publish({"requests": 10, "connections": 4}, {"file_total": taking(1, 10)}, b"{}")
    slot.release()
    assert slot.read() is None
    totals = pages.totals()
    assert (totals.numbers["requests"], totals.numbers["connections"]) == (10, 0)
    assert totals.histograms["file_total"].count == 10

    slot.claim(2, 1)
    reading = slot.read()
    assert reading is not None
    assert reading.numbers["requests"] == 0  # its own
    slot.publish({"requests": 1, "connections": 2}, {"file_total": taking(1)}, b"{}")
    totals = pages.totals()
    assert (totals.numbers["requests"], totals.numbers["connections"]) == (11, 2)
    assert totals.histograms["file_total"].count == 11


def test_totals_never_go_down_whatever_workers_come_and_go(pages: Pages) -> None:
    before, expected = 0, 0
    for turn in range(200):
        slot = pages.slot(turn * 7 % 5)
        if turn % 3 == 0:
            slot.release()
            slot.claim(turn + 1, turn)
        else:
            reading = slot.read()
            if reading is None:
                continue
            slot.publish({"octets": reading.numbers["octets"] + turn}, {}, b"{}")
            expected += turn
        now = pages.totals().numbers["octets"]
        assert now >= before
        assert now == expected
        before = now


def test_the_board_is_a_slot_that_counts_nothing(pages: Pages) -> None:
    pages.board.claim(os.getpid(), 1)
    pages.board.publish({}, {}, b'{"plan":{"workers":2}}')
    board = pages.board.read()
    assert board is not None
    assert board.sheet == {"plan": {"workers": 2}}
    assert list(pages.readings()) == []


def test_a_sheet_has_a_bound(pages: Pages) -> None:
    slot = pages.slot(SLOTS - 1)
    slot.claim(1, 1)
    longest = json.dumps({"a": "x" * (SHEET - 9)}).encode()
    assert len(longest) == SHEET
    slot.publish({}, {}, longest)
    with pytest.raises(ValueError, match="octets"):
        slot.publish({}, {}, longest + b" ")


def test_pages_that_count_other_things_are_refused(pages: Pages) -> None:
    os.pwrite(pages.fd, b"another", 0)
    with pytest.raises(ValueError, match="another version"):
        Pages.attach(pages.fd)
    fd = os.memfd_create("short")
    with pytest.raises(ValueError, match="another version"):
        Pages.attach(fd)
    os.close(fd)


def test_nobody_can_make_them_shorter(pages: Pages) -> None:
    with pytest.raises(OSError, match="not permitted"):
        os.ftruncate(pages.fd, 4096)


WRITER = """
import os, sys
from edgebox.observe.histogram import Histogram
from edgebox.observe.pages import NUMBERS, Pages
slot = Pages.attach(int(sys.argv[1])).slot(0)
slot.claim(os.getpid(), 1)
count = 0
while True:
    count += 1
    histogram = Histogram([count] * 45)
    sheet = b'{"count":%d,"filler":"%s"}' % (count, b"x" * (count % 5000))
    slot.publish(dict.fromkeys(NUMBERS, count), {"hit_first": histogram}, sheet)
    if count == 1:
        print("begun", flush=True)
"""


@pytest.mark.slow
def test_a_reader_sees_whole_records_only_even_of_one_who_was_killed(pages: Pages) -> None:
    before = 0
    for _ in range(4):
        with subprocess.Popen(
            [sys.executable, "-c", WRITER, str(pages.fd)],
            pass_fds=[pages.fd], stdout=subprocess.PIPE, text=True,
        ) as writer:  # fmt: skip
            assert writer.stdout is not None
            assert writer.stdout.readline() == "begun\n"
            seen = set()
            deadline = time.monotonic() + 0.5
            while time.monotonic() < deadline:
                seen.add(whole(pages))
            assert len(seen) > 1
            writer.send_signal(signal.SIGKILL)
        whole(pages)
        total = pages.totals().numbers["requests"]
        assert total > before
        before = total
        pages.slot(0).release()


def whole(pages: Pages) -> int:
    """The count that everything in slot 0 agrees on."""
    reading = pages.slot(0).read()
    assert reading is not None
    counts = {reading.numbers[name] for name in NUMBERS}
    counts |= set(reading.histograms["hit_first"].words)
    assert len(counts) == 1, counts
    count = counts.pop()
    assert reading.sheet.get("count", 0) == count
    return count
