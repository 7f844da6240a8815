"""Lines that every log reader takes, whatever a client sends."""

from __future__ import annotations

import re
import shutil
import subprocess
import time
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgebox.observe.access_log import (
    Asked,
    Combined,
    Entry,
    FieldFinder,
    as_record,
    host_of,
    split_head,
    split_line,
    stamp_of,
)
from edgebox.observe.query import FIELDS, NUMBERS

COMBINED = re.compile(
    rb"^(\S+) - - \[(\d\d/[A-Z][a-z][a-z]/\d{4}:\d\d:\d\d:\d\d [+-]\d{4})\] "
    rb'"([^"\\]|\\x[0-9A-F]{2})*" (\d{3}) (\d+) '
    rb'"([^"\\]|\\x[0-9A-F]{2})*" "([^"\\]|\\x[0-9A-F]{2})*"\n\Z'
)
STAMP = stamp_of(1_796_000_000)


def entry_of(request: bytes, *fields: bytes, peer: bytes = b"192.0.2.1") -> Entry:
    block = b"".join(field + b"\r\n" for field in fields) + b"\r\n"
    return Entry(line=request, status=200, size=449, octets=700, block=block, peer=peer)


def test_combined_as_others_write_it() -> None:
    written = Combined().line(entry_of(b"GET / HTTP/1.1", b"User-Agent: curl/8"), STAMP)
    assert re.sub(rb"\[.*?\]", b"[]", written) == (
        b'192.0.2.1 - - [] "GET / HTTP/1.1" 200 449 "-" "curl/8"\n'
    )


def test_the_pieces_of_combined_are_the_line() -> None:
    form, entry = Combined(), entry_of(b'GET /" HTTP/1.1', b"referer:  a\tb ", b"USER-AGENT:c")
    pieces = form.client(entry.peer) + form.answer(entry, STAMP) + form.agent(b"a\tb", b"c", b"")
    assert form.in_pieces
    assert pieces == form.line(entry, STAMP)


@given(st.binary(max_size=80), st.binary(max_size=80), st.binary(max_size=80))
def test_no_octets_break_out_of_their_place(request: bytes, referer: bytes, agent: bytes) -> None:
    form, entry = Combined(), entry_of(request)
    written = form.client(b"::1") + form.answer(entry, STAMP) + form.agent(referer, agent, b"")
    assert COMBINED.match(written)
    assert COMBINED.match(form.line(entry_of(request, b"Referer: " + referer), STAMP))


def test_the_time_with_its_zone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "IST-05:30")
    time.tzset()
    try:
        stamp = stamp_of(1_796_000_000)
    finally:
        monkeypatch.undo()
        time.tzset()
    assert stamp.combined == b"30/Nov/2026:06:23:20 +0530"
    assert stamp.iso == b"2026-11-30T06:23:20+05:30"


@pytest.mark.skipif(shutil.which("goaccess") is None, reason="needs goaccess")
def test_goaccess_reads_it(tmp_path: Path) -> None:
    """Every line counts, however odd its client; none is taken for another's."""
    form, log = Combined(), tmp_path / "access.log"
    requests = [
        (b"GET / HTTP/1.1", b"Mozilla/5.0 (X11; Linux x86_64) Firefox/128.0"),
        (b"GET /a?b=c HTTP/1.1", b'curl "quoted" \\ 8'),
        (b"HEAD /caf\xc3\xa9 HTTP/1.0", b"\x01\x02"),
        (b"POST /form HTTP/1.1", b""),
    ]
    log.write_bytes(
        b"".join(
            form.line(entry_of(line, b"User-Agent: " + agent, peer=b"192.0.2.%d" % n), STAMP)
            for n, (line, agent) in enumerate(requests, 1)
        )
    )
    out = tmp_path / "report.json"
    command = ["goaccess", str(log), "--log-format=COMBINED", "--no-global-config", "-o", str(out)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 0, done.stderr
    report = msgspec.json.decode(out.read_bytes())
    general = report["general"]
    assert (general["total_requests"], general["failed_requests"]) == (4, 0)
    assert general["unique_visitors"] == 4
    assert general["bandwidth"] == 4 * 449
    asked = {each["data"] for each in report["requests"]["data"]}
    assert {"/", "/form"} <= asked


def test_a_head_is_split_where_its_first_line_ends() -> None:
    assert split_head(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n") == (
        b"GET / HTTP/1.1",
        b"Host: x\r\n\r\n",
    )
    assert split_head(b"\x16\x03\x01" * 1000) == ((b"\x16\x03\x01" * 1000)[:1024], b"")
    assert split_line(b"GET / HTTP/1.1") == (b"GET", b"/", b"HTTP/1.1")
    assert split_line(b"") == (b"", b"", b"")


@pytest.mark.parametrize(
    ("host", "told"),
    [
        (b"Example.COM", b"example.com"),
        (b"example.com:8080", b"example.com"),
        (b"[::1]:80", b"[::1]"),
        (b"[::1", b"[::1"),
        (b"", b""),
    ],
)
def test_the_host_that_was_asked_for(host: bytes, told: bytes) -> None:
    assert host_of(Entry(), {b"host": host}) == told
    assert host_of(Entry(host=b"known"), {b"host": host}) == b"known"


@given(st.binary(max_size=300))
def test_fields_are_found_in_any_octets(block: bytes) -> None:
    for name, value in FieldFinder(b"a", b"host").find(block).items():
        assert name in (b"a", b"host")
        assert b"\r\n" not in value


def test_a_record_has_what_queries_ask_for() -> None:
    asked = Asked(server="http://app:1", began=1.0, ended=3.0)
    entry = Entry(
        line=b"GET /a HTTP/1.1", status=200, size=5, octets=99, peer=b"::1",
        block=b"Host: x\r\nReferer: \xe9\r\nX-Request-Id: id 1\r\n\r\n",
        member=b"box; hit; ttl=5", seconds=0.5, asked=asked,
    )  # fmt: skip
    record = as_record(entry, 1_796_000_000)
    assert set(FIELDS) <= set(record)
    for name in FIELDS:
        assert isinstance(record[name], int | float if name in NUMBERS else str), name
    assert record == {
        "at": 1_796_000_000, "status": 200, "bytes": 5, "octets": 99, "time": 0.5, "cache": "HIT",
        "reason": "fresh", "upstream": "http://app:1", "upstream_time": 2.0, "peer": "::1",
        "method": "GET", "host": "x", "path": "/a", "protocol": "HTTP/1.1", "referer": "\xe9",
        "user_agent": "", "request_id": "",
    }  # fmt: skip
    assert msgspec.json.decode(msgspec.json.encode(record)) == record


def test_time_with_an_upstream_runs_from_the_first_asking_to_the_last_answer() -> None:
    asked = Asked()
    asked.end(1.0)
    assert (asked.seconds, asked.head_seconds) == (None, None)
    asked.begin(2.0)
    asked.end(3.0)
    asked.begin(4.0)  # it is asked once more
    asked.headed = 5.0
    asked.end(6.0)
    asked.end(9.0)
    assert (asked.seconds, asked.head_seconds) == (4.0, 3.0)
