"""The error log says everything once, and how often it happened."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgebox.observe.error_log import (
    BURST,
    KINDS,
    RECENT,
    WINDOW,
    ErrorLog,
    Flood,
    kind_of,
    reaches_journal,
)
from edgebox.observe.sink import Sink


@pytest.fixture
def sink(tmp_path: Path) -> Sink:
    return Sink(str(tmp_path / "error.log"), 2, 1_000_000, "error")


def lines_of(sink: Sink) -> list[str]:
    return b"".join(sink.pieces).decode().splitlines()


def test_a_line_has_time_level_and_text(sink: Sink) -> None:
    errors = ErrorLog(sink, "info")
    errors("warning", "one\ntwo \udce9")
    errors("debug", "unheard")
    (line,) = lines_of(sink)
    assert re.fullmatch(
        r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[+-]\d{4} warning: one \| two \\udce9", line
    )


def test_the_journal_gets_priorities_and_no_time(sink: Sink) -> None:
    errors = ErrorLog(sink, "debug", journal=True)
    for level in ("debug", "info", "warning", "error"):
        errors(level, "text")
    assert lines_of(sink) == ["<7>text", "<6>text", "<4>text", "<3>text"]


def test_whether_the_journal_listens(tmp_path: Path) -> None:
    with (tmp_path / "stream").open("w") as stream:
        status = os.fstat(stream.fileno())
        told = {"JOURNAL_STREAM": f"{status.st_dev}:{status.st_ino}"}
        assert reaches_journal(stream.fileno(), told)
        assert not reaches_journal(stream.fileno(), {"JOURNAL_STREAM": "1:2"})
        assert not reaches_journal(stream.fileno(), {})
    assert not reaches_journal(12345, told)


def test_one_client_cannot_fill_the_log(sink: Sink, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    errors = ErrorLog(sink, "info")
    for n in range(BURST + 118):
        errors("info", f'192.0.2.{n % 250}: "GET /{n} HTTP/1.1" cut off: the client is gone')
    errors("error", "quite another thing")
    errors.turn()
    assert len(lines_of(sink)) == BURST + 1
    now += WINDOW
    errors.turn()
    last = lines_of(sink)[-1]
    assert " info: 118 more like this in the last 10 s, such as 192.0.2." in last
    assert last.endswith(f'"GET /{BURST + 117} HTTP/1.1" cut off: the client is gone')
    assert errors.statistics()["held_back"] == 118
    errors("info", '192.0.2.1: "GET / HTTP/1.1" cut off: the client is gone')
    assert len(lines_of(sink)) == BURST + 3, "a new window has begun"


def test_upstreams_are_told_apart_and_clients_are_not() -> None:
    def kind(client: str, target: str, server: str) -> str:
        return kind_of("warning", f"{client}: {target}: {server}: did not answer: within 60 s")

    first = kind("192.0.2.1", "/a?b=c", "http://app:1")
    assert first == kind("2001:db8::7", "/other", "http://app:1")
    assert first != kind("192.0.2.1", "/a?b=c", "http://app:2")
    assert first != kind_of("error", "192.0.2.1: /a?b=c: http://app:1: did not answer: within 9 s")


@given(st.lists(st.tuples(st.sampled_from(["a", "b", "c 1"]), st.floats(0, 30)), max_size=300))
def test_no_line_is_lost_without_being_counted(events: list[tuple[str, float]]) -> None:
    flood, written, counted = Flood(), 0, 0
    for text, now in sorted(events, key=lambda event: event[1]):
        for _, told in flood.end_windows(now):
            counted += int(told.split(" ")[0])
        written += flood.admits("error", text, now)
    counted += sum(int(told.split(" ")[0]) for _, told in flood.end_windows(1000.0))
    assert written + counted == len(events)
    assert counted == flood.held_back


def test_kinds_without_number_are_bounded() -> None:
    flood = Flood()
    admitted = sum(flood.admits("info", "x" * n, 0.0) for n in range(KINDS * 3))
    assert admitted == KINDS + BURST
    assert len(flood._windows) <= KINDS + 4  # the levels


def test_what_went_wrong_last_is_kept_even_when_nothing_is_written() -> None:
    errors = ErrorLog(Sink("off", 2, 10, "error"), "debug")
    errors("info", "no news")
    for n in range(RECENT + 5):
        errors("warning", f"http://app:{n} is down")
    assert len(errors.recent) == RECENT
    time, level, text = errors.recent[-1]
    assert (level, text) == ("warning", f"http://app:{RECENT + 4} is down")
    assert time > 1_700_000_000


def test_it_tells_what_it_lost_itself(tmp_path: Path) -> None:
    sink = Sink(str(tmp_path / "error.log"), 2, 100, "error")
    errors = ErrorLog(sink, "info")
    for n in range(3):
        errors("error", f"a line of some length, so that three of them are too many {n}")
    sink.flush()
    errors.turn()
    (line,) = lines_of(sink)
    assert line.endswith("warning: 3 lines of this log were lost: they are written too slowly")
    errors.turn()
    assert len(lines_of(sink)) == 1, "told once"
