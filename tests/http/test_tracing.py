"""Request ids and W3C traces: what goes on, what is made, what is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgebox.http.headers import Fields
from edgebox.http.tracing import TracingRules, is_sound, parse_traceparent, traced

TRACE = b"0af7651916cd43dd8448eb211c80319c"
SPAN = b"b7ad6b7169203331"
GIVEN = b"00-%b-%b-01" % (TRACE, SPAN)


def counting(octets: int) -> bytes:
    return bytes(range(1, octets + 1))


MADE = counting(16).hex().encode()
OURS = counting(8).hex().encode()


def values(fields: Fields, name: bytes) -> list[bytes]:
    return [value for given, value in fields if given.lower() == name]


@pytest.mark.parametrize(
    ("mode", "sent", "goes_on"),
    [
        ("pass", [b"abc-1"], [b"abc-1"]),
        ("pass", [], [MADE]),
        ("pass", [b"a b"], [MADE]),
        ("pass", [b"x" * 129], [MADE]),
        ("pass", [b"a", b"b"], [MADE]),
        ("make", [b"abc-1"], [MADE]),
        ("make", [], [MADE]),
        ("off", [b"a b"], [b"a b"]),
        ("off", [], []),
    ],
)
def test_request_ids(mode: str, sent: list[bytes], goes_on: list[bytes]) -> None:
    fields = ((b"Host", b"x"), *((b"X-REQUEST-ID", value) for value in sent))
    rules = TracingRules(mode)  # type: ignore[arg-type]
    done = traced(fields, rules, counting)
    assert values(done.fields, b"x-request-id") == goes_on
    assert values(done.fields, b"host") == [b"x"]
    known = goes_on[0] if goes_on and is_sound(goes_on[0]) else b""
    assert done.request_id == known


def test_a_traceparent_passes_as_it_came() -> None:
    fields = ((b"traceparent", b"whatever"), (b"tracestate", b"a=1"))
    assert traced(fields, TracingRules(), counting) == (fields, b"", b"whatever")


def test_our_span_is_the_child_of_the_one_that_came() -> None:
    fields = ((b"Traceparent", GIVEN), (b"tracestate", b"a=1"))
    done = traced(fields, TracingRules(span=True), counting)
    assert values(done.fields, b"traceparent") == [b"00-%b-%b-01" % (TRACE, OURS)]
    assert values(done.fields, b"tracestate") == [b"a=1"]
    assert done.traceparent == b"00-%b-%b-01" % (TRACE, OURS)


@pytest.mark.parametrize("came", [(), ((b"traceparent", b"00-xyz"), (b"tracestate", b"a=1"))])
def test_a_request_without_a_trace_begins_one(came: Fields) -> None:
    done = traced(came, TracingRules(span=True), counting)
    assert done.fields == ((b"traceparent", b"00-%b-%b-01" % (MADE, OURS)),)


@pytest.mark.parametrize(
    "value",
    [
        b"", b"00", b"ff-" + GIVEN[3:], b"00-" + b"0" * 32 + b"-" + SPAN + b"-01",
        b"00-" + TRACE + b"-" + b"0" * 16 + b"-01", GIVEN + b"-more", GIVEN.upper(), b" " + GIVEN,
        b"01-" + GIVEN[3:] + b"x",
    ],
)  # fmt: skip
def test_malformed_traceparents(value: bytes) -> None:
    assert parse_traceparent(value) is None


def test_a_later_version_may_say_more() -> None:
    trace = parse_traceparent(b"cc-" + GIVEN[3:] + b"-more")
    assert trace == (TRACE, SPAN, b"01")


@given(st.binary(max_size=200))
def test_a_sound_id_can_stand_in_any_log_or_header(value: bytes) -> None:
    if is_sound(value):
        assert value.isascii()
        assert 0 < len(value) <= 128
        assert not set(value) & set(b' "\\,;<>&\r\n\0')
