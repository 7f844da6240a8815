"""The octets of a file: what was written is read, and what was damaged is not believed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgebox.cache.answer import Instant
from edgebox.cache.disk import format as fmt
from edgebox.cache.disk.format import (
    BLANK,
    Roster,
    Sheet,
    build_roster,
    build_spare,
    build_trailer,
    entry_now,
    measure,
    parse,
)
from edgebox.cache.entry import StoredResponse

BOOT, OTHER = bytes(16), bytes(range(16))
KEY = b"http://example.com/?a=1"
BODY = b"the body"


@pytest.fixture(scope="module")
def entry(keep: Callable[..., StoredResponse]) -> StoredResponse:
    return keep("Cache-Control: max-age=60", 'ETag: "one"', "Surrogate-Key: a b")


@pytest.fixture(scope="module")
def whole(entry: StoredResponse) -> bytes:
    return file_of(entry)


def file_of(entry: StoredResponse, body: bytes = BODY, key: bytes = KEY) -> bytes:
    trailer = build_trailer(key, entry, 7, BOOT, (len(body), crc32(body)))
    assert trailer is not None
    return body + trailer


def read(octets: bytes) -> Sheet | Roster | None:
    """As the store reads it: a window at first, and what is missing after that."""
    needed = measure(octets[-fmt.WINDOW :], len(octets))
    return None if needed is None else parse(octets[-needed:])


def rewrite(octets: bytes, sheet: Sheet, spare: bytes, blank: bytes = BLANK) -> bytes:
    changed = bytearray(octets)
    changed[sheet.spare_at : sheet.spare_at + len(spare)] = spare
    changed[sheet.slot_at : sheet.slot_at + len(blank)] = blank
    return bytes(changed)


@given(st.binary(max_size=9000), st.binary(max_size=9000))
def test_what_was_written_is_read(
    keep: Callable[..., StoredResponse], body: bytes, key: bytes
) -> None:
    entry = keep("Cache-Control: max-age=60")
    sheet = read(file_of(entry, body, key))
    assert isinstance(sheet, Sheet)
    assert (sheet.key, sheet.entry, sheet.born, sheet.boot) == (key, entry, 7, BOOT)
    assert (sheet.length, sheet.checksum) == (len(body), crc32(body))


@given(st.data())
def test_a_changed_octet_changes_nothing_that_is_believed(
    whole: bytes, entry: StoredResponse, data: st.DataObject
) -> None:
    octets = bytearray(whole)
    for at in data.draw(st.lists(st.integers(0, len(whole) - 1), min_size=1, max_size=4)):
        octets[at] ^= data.draw(st.integers(1, 255))
    sheet = read(bytes(octets))
    if sheet is not None:  # in the body, whose checksum is compared elsewhere, or in no use
        assert isinstance(sheet, Sheet)
        assert (sheet.key, sheet.entry, sheet.length) == (KEY, entry, len(BODY))
        assert sheet.checksum == crc32(BODY)


@given(st.data())
def test_a_file_that_is_shorter_or_longer_is_none(whole: bytes, data: st.DataObject) -> None:
    assert read(whole[: data.draw(st.integers(0, len(whole) - 1))]) is None
    assert read(whole + data.draw(st.binary(min_size=1, max_size=5000))) is None
    assert read(data.draw(st.binary(max_size=200))) is None


def test_part_of_a_body_is_noticed(whole: bytes) -> None:
    assert read(whole[1:]) is None
    assert read(b"x" + whole) is None


def test_a_record_is_renewed_in_its_place(whole: bytes, entry: StoredResponse) -> None:
    octets, sequence = whole, []
    for round_ in range(5):
        sheet = read(octets)
        assert isinstance(sheet, Sheet)
        sequence.append(sheet.sequence)
        newer = replace(sheet, entry=entry.invalidated(), born=round_)
        spare = build_spare(newer)
        assert spare is not None
        octets = rewrite(octets, sheet, spare)
        assert len(octets) == len(whole)
        found = read(octets)
        assert isinstance(found, Sheet)
        assert (found.entry, found.born, found.key) == (entry.invalidated(), round_, KEY)
    assert sequence == [1, 2, 3, 4, 5]


@given(st.integers(0, 600), st.integers(0, 8))
def test_a_renewal_cut_short_leaves_the_old_record_or_the_new(
    whole: bytes, entry: StoredResponse, written: int, blanked: int
) -> None:
    sheet = read(whole)
    assert isinstance(sheet, Sheet)
    spare = build_spare(replace(sheet, entry=entry.invalidated()))
    assert spare is not None
    complete = written >= len(spare)
    octets = rewrite(whole, sheet, spare[:written], BLANK[: blanked if complete else 0])
    found = read(octets)
    assert isinstance(found, Sheet)
    assert found.entry == (entry.invalidated() if complete else entry)


def test_a_record_that_outgrew_its_slot_does_not_fit(
    whole: bytes, keep: Callable[..., StoredResponse]
) -> None:
    sheet = read(whole)
    assert isinstance(sheet, Sheet)
    longer = keep("Cache-Control: max-age=60", "X-More: " + "x" * sheet.slot_size)
    assert build_spare(replace(sheet, entry=longer)) is None


def test_a_record_may_grow_by_a_quarter(keep: Callable[..., StoredResponse]) -> None:
    entry = keep("Cache-Control: max-age=60", "X: " + "x" * 4000)
    sheet = read(file_of(entry))
    assert isinstance(sheet, Sheet)
    longer = keep("Cache-Control: max-age=60", "X: " + "x" * 5000)
    assert build_spare(replace(sheet, entry=longer)) is not None


def test_records_beyond_all_measure_are_refused(keep: Callable[..., StoredResponse]) -> None:
    entry = keep("Cache-Control: max-age=60", "X: " + "x" * fmt.LONGEST)
    assert build_trailer(KEY, entry, 0, BOOT, (0, 0)) is None


@given(st.lists(st.binary(min_size=8, max_size=8), max_size=40), st.binary(max_size=6000))
def test_a_roster_lists_its_labels(labels: list[bytes], key: bytes) -> None:
    assert read(build_roster(key, labels)) == Roster(key, tuple(labels))


@given(st.data())
def test_a_damaged_roster_is_none(data: st.DataObject) -> None:
    octets = bytearray(build_roster(KEY, [b"12345678", b"abcdefgh"]))
    octets[data.draw(st.integers(0, len(octets) - 1))] ^= data.draw(st.integers(1, 255))
    assert read(bytes(octets)) is None


def test_another_version_is_not_read(whole: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fmt, "VERSION", fmt.VERSION + 1)
    assert read(whole) is None


def test_after_a_reboot_age_goes_by_the_wall_clock(
    whole: bytes, later: Callable[..., Instant]
) -> None:
    sheet = read(whole)
    assert isinstance(sheet, Sheet)
    now = later(30.0)
    rebooted = Instant(now.wall, 3.0)
    assert entry_now(sheet, BOOT, now) is sheet.entry
    assert entry_now(sheet, OTHER, rebooted).age(rebooted) == pytest.approx(30.0)


def test_a_clock_that_lags_a_little_is_no_other_clock(
    whole: bytes, later: Callable[..., Instant]
) -> None:
    sheet = read(whole)
    assert isinstance(sheet, Sheet)
    assert entry_now(sheet, BOOT, later(-1.0)) is sheet.entry


def test_a_steady_clock_that_went_back_is_not_believed(
    whole: bytes, later: Callable[..., Instant]
) -> None:
    sheet = read(whole)
    assert isinstance(sheet, Sheet)
    odd = Instant(later(30.0).wall, sheet.entry.received_steady - 61)
    assert entry_now(sheet, BOOT, odd).age(odd) == pytest.approx(30.0)
