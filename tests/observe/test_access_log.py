"""Lines that every log reader takes, whatever a client sends."""

from __future__ import annotations

import json
import re

from hypothesis import given
from hypothesis import strategies as st

from edgebox.observe.access_log import Combined, Json, stamp_of

COMBINED = re.compile(
    rb"^(\S+) - - \[(\d\d/[A-Z][a-z][a-z]/\d{4}:\d\d:\d\d:\d\d [+-]\d{4})\] "
    rb'"([^"\\]|\\x[0-9A-F]{2})*" (\d{3}) (\d+) '
    rb'"([^"\\]|\\x[0-9A-F]{2})*" "([^"\\]|\\x[0-9A-F]{2})*"\n\Z'
)
STAMP = stamp_of(1_796_000_000)


def line(form: Combined | Json, request: bytes, referer: bytes, agent: bytes) -> bytes:
    return (
        form.client(b"192.0.2.1")
        + form.answer(request, 200, 449, STAMP)
        + form.agent(referer, agent)
    )


def test_combined_as_others_write_it() -> None:
    written = line(Combined(), b"GET / HTTP/1.1", b"", b"curl/8")
    assert re.sub(rb"\[.*?\]", b"[]", written) == (
        b'192.0.2.1 - - [] "GET / HTTP/1.1" 200 449 "-" "curl/8"\n'
    )


@given(st.binary(max_size=80), st.binary(max_size=80), st.binary(max_size=80))
def test_no_octets_break_out_of_their_place(request: bytes, referer: bytes, agent: bytes) -> None:
    assert COMBINED.match(line(Combined(), request, referer, agent))
    entry = json.loads(line(Json(), request, referer, agent))
    assert entry["client"] == "192.0.2.1"
    assert (entry["status"], entry["bytes"]) == (200, 449)
    assert entry["request"].encode("latin-1") == request
    assert entry["user_agent"].encode("latin-1") == agent
