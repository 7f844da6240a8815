"""The gate: each hostile head gets its fault, and what passes is read alike by h11."""

from __future__ import annotations

import h11
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgebox.http.faults import Fault
from edgebox.http.gate import (
    CHUNKED,
    NO_BODY,
    Framing,
    Head,
    HeadLimits,
    find_end,
    inspect,
    maybe_refuse,
    skip_blank_lines,
)

LIMITS = HeadLimits(size=16 * 1024, fields=100, target_length=8 * 1024)


def head(*lines: bytes, first: bytes = b"POST / HTTP/1.1\r\nHost: a") -> bytes:
    return b"\r\n".join((first, *lines, b"", b""))


def accepted(octets: bytes) -> Head:
    judged = inspect(octets, LIMITS)
    assert isinstance(judged, Head), judged
    return judged


# --- what passes ----------------------------------------------------------------------


def test_a_plain_head_is_taken_apart() -> None:
    judged = accepted(b"GET /a?b HTTP/1.1\r\nHost: a\r\nX-Odd:\t b \x80c  \r\nEmpty:\r\n\r\n")
    assert judged == Head(
        b"GET",
        b"/a?b",
        1,
        ((b"Host", b"a"), (b"X-Odd", b"b \x80c"), (b"Empty", b"")),
        NO_BODY,
        False,
        b"a",
    )


def test_http_1_0_needs_no_field_at_all() -> None:
    assert accepted(b"GET / HTTP/1.0\r\n\r\n") == Head(b"GET", b"/", 0, (), NO_BODY, False, b"")


@pytest.mark.parametrize(
    ("line", "framing"),
    [
        (b"Content-Length: 0", Framing(False, 0)),
        (b"content-length:\t005 ", Framing(False, 5)),
        (b"Content-Length: 999999999999999999", Framing(False, 999999999999999999)),
        (b"Transfer-Encoding: chunked", CHUNKED),
        (b"TRANSFER-ENCODING: Chunked", CHUNKED),
    ],
)
@pytest.mark.parametrize("method", [b"GET", b"HEAD", b"POST"])
def test_a_body_is_framed_whatever_the_method(method: bytes, line: bytes, framing: Framing) -> None:
    octets = head(line, first=method + b" / HTTP/1.1\r\nHost: a")
    assert accepted(octets).framing == framing


def test_expect_continue_is_seen_in_http_1_1_alone() -> None:
    assert accepted(head(b"Expect: 100-Continue")).expects_continue
    assert not accepted(head(b"Expect:")).expects_continue
    octets = b"POST / HTTP/1.0\r\nExpect: 100-continue\r\n\r\n"
    assert not accepted(octets).expects_continue


def test_empty_lines_before_the_head_are_counted_for_skipping() -> None:
    assert skip_blank_lines(b"GET") == 0
    assert skip_blank_lines(b"\r\nGET") == 2
    assert skip_blank_lines(bytearray(b"\r\n\r\n\r")) == 4
    assert skip_blank_lines(b"\nGET") == 0


# --- what does not (FAULTS 1-6, 12-18, 21, 38) ----------------------------------------

HOSTILE: dict[str, list[tuple[bytes, Fault]]] = {
    "1 length beside coding": [
        (head(b"Content-Length: 5", b"Transfer-Encoding: chunked"), Fault.LENGTH_AND_CODING),
        (head(b"transfer-encoding: chunked", b"content-length: 5"), Fault.LENGTH_AND_CODING),
        (head(b"Content-Length: x", b"Transfer-Encoding: x"), Fault.LENGTH_AND_CODING),
    ],
    "2 several lengths": [
        (head(b"Content-Length: 5", b"Content-Length: 6"), Fault.LENGTH),
        (head(b"Content-Length: 5", b"content-length: 5"), Fault.LENGTH),
        (head(b"Content-Length: 5,6"), Fault.LENGTH),
        (head(b"Content-Length: 5, 5"), Fault.LENGTH),
    ],
    "3 length not a number": [
        (head(b"Content-Length: " + value), Fault.LENGTH)
        for value in (b"+5", b"0x5", b"1_0", b"-1", b"", b"5 5", b"5.0", b"five", b'"5"', b"\xb2")
    ],
    "4 length beyond reason": [
        (head(b"Content-Length: " + b"9" * 30), Fault.LENGTH),
        (head(b"Content-Length: " + b"0" * 18 + b"5"), Fault.LENGTH),
        (head(b"Content-Length: " + b"9" * 8000), Fault.LENGTH),
    ],
    "5 transfer coding": [
        (head(b"Transfer-Encoding: chunked", b"Transfer-Encoding: chunked"), Fault.CODING_BAD),
        (head(b"Transfer-Encoding: gzip", b"Transfer-Encoding: chunked"), Fault.CODING_BAD),
        (head(b"Transfer-Encoding: ,chunked"), Fault.CODING_BAD),
        (head(b"Transfer-Encoding: chunked,"), Fault.CODING_BAD),
        (head(b"Transfer-Encoding: chunked, chunked"), Fault.CODING_BAD),
        (head(b"Transfer-Encoding: chunked, gzip"), Fault.CODING_BAD),
        (head(b"Transfer-Encoding: chunked;a=b"), Fault.CODING_BAD),
        (head(b"Transfer-Encoding: chun ked"), Fault.CODING_BAD),
        (head(b'Transfer-Encoding: "chunked"'), Fault.CODING_BAD),
        (head(b"Transfer-Encoding:"), Fault.CODING_BAD),
        (head(b"Transfer-Encoding: \x0bchunked"), Fault.CONTROL),
        (head(b"Transfer-Encoding: chunked\x0c"), Fault.CONTROL),
        (head(b"Transfer-Encoding: gzip, chunked"), Fault.CODING_UNKNOWN),
        (head(b"Transfer-Encoding: gzip;q=1, chunked"), Fault.CODING_UNKNOWN),
        (head(b"Transfer-Encoding: identity"), Fault.CODING_UNKNOWN),
        (head(b"Transfer-Encoding: xchunked"), Fault.CODING_UNKNOWN),
    ],
    "6 transfer coding in HTTP/1.0": [
        (b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", Fault.CODING_ON_1_0),
        (b"POST / HTTP/1.0\r\nTransfer-Encoding: gzip\r\n\r\n", Fault.CODING_ON_1_0),
    ],
    "12 blanks around a name": [
        (head(b"X : y"), Fault.FIELD_NAME),
        (head(b"Content-Length : 5"), Fault.FIELD_NAME),
        (head(b"X\t: y"), Fault.FIELD_NAME),
        (b"GET / HTTP/1.1\r\n Host: a\r\n\r\n", Fault.OBS_FOLD),
        (b"GET / HTTP/1.1\r\n\tX: y\r\nHost: a\r\n\r\n", Fault.OBS_FOLD),
    ],
    "13 folded lines": [
        (head(b"X: y", b" z"), Fault.OBS_FOLD),
        (head(b"X: y", b"\tContent-Length: 5"), Fault.OBS_FOLD),
        (head(b"X: y", b" "), Fault.OBS_FOLD),
        (head(b"Transfer-Encoding:", b" chunked"), Fault.OBS_FOLD),
    ],
    "14 controls in a value": [
        (head(b"X: a\rb"), Fault.BARE_CR),
        (head(b"X: a\rContent-Length: 5"), Fault.BARE_CR),
        (head(b"X: a\r"), Fault.BARE_CR),
        (head(b"X: a\x00b"), Fault.CONTROL),
        (head(b"X: \x01"), Fault.CONTROL),
        (head(b"X: a\x0bb"), Fault.CONTROL),
        (head(b"X: a\x1b[31m"), Fault.CONTROL),
        (head(b"X: a\x7f"), Fault.CONTROL),
        (b"GET /\x00 HTTP/1.1\r\nHost: a\r\n\r\n", Fault.CONTROL),
        (b"GET /\t HTTP/1.1\r\nHost: a\r\n\r\n", Fault.CONTROL),
        (b"GET / HTTP/1.1\r\r\nHost: a\r\n\r\n", Fault.BARE_CR),
        (b"GET / \rHTTP/1.1\r\nHost: a\r\n\r\n", Fault.BARE_CR),
    ],
    "15 bare LF": [
        (b"GET / HTTP/1.1\nHost: a\n\n", Fault.BARE_LF),
        (b"GET / HTTP/1.1\nHost: a\r\n\r\n", Fault.BARE_LF),
        (b"GET / HTTP/1.1\r\nHost: a\n\r\n", Fault.BARE_LF),
        (b"GET / HTTP/1.1\r\nHost: a\r\n\n", Fault.BARE_LF),
        (b"GET / HTTP/1.1\r\nHost: a\nX: y\r\n\r\n", Fault.BARE_LF),
        (b"GET / HTTP/1.1\r\nHost: a\r\nX: y\n z\r\n\r\n", Fault.BARE_LF),
    ],
    "16 names": [
        (head(b": y"), Fault.FIELD_NAME),
        (head(b"no colon"), Fault.FIELD_NAME),
        (head(b"nocolon"), Fault.FIELD_NAME),
        (head(b"X(y): z"), Fault.FIELD_NAME),
        (head(b"X\x00: y"), Fault.FIELD_NAME),
        (head(b"X\x80: y"), Fault.FIELD_NAME),
        (head(b"X\xa0: y"), Fault.FIELD_NAME),
        (head(b'"X": y'), Fault.FIELD_NAME),
        (head(b"X[]: y"), Fault.FIELD_NAME),
    ],
    "17 padding that is not whitespace": [
        (head(b"Content-Length: \x855"), Fault.LENGTH),
        (head(b"Content-Length: 5\xa0"), Fault.LENGTH),
        (head(b"Transfer-Encoding: \xa0chunked"), Fault.CODING_BAD),
        (head(b"Transfer-Encoding: chunked\x85"), Fault.CODING_BAD),
        (head(b"Expect: 100-continue\xa0"), Fault.EXPECTATION),
        (b"GET / HTTP/1.1\r\nHost: a\xa0\r\n\r\n", Fault.HOST),
        (b"GET\x85/ HTTP/1.1\r\nHost: a\r\n\r\n", Fault.NOT_HTTP),
        (b"GET /\xa0 HTTP/1.1\r\nHost: a\r\n\r\n", Fault.TARGET),
    ],
    "18 Host": [
        (b"GET / HTTP/1.1\r\n\r\n", Fault.HOST),
        (b"GET http://a/ HTTP/1.1\r\nX: y\r\n\r\n", Fault.HOST),
        (head(b"Host: a"), Fault.HOST),
        (head(b"HOST: b"), Fault.HOST),
        (b"GET / HTTP/1.0\r\nHost: a\r\nHost: a\r\n\r\n", Fault.HOST),
        (b"GET / HTTP/1.1\r\nHost:\r\n\r\n", Fault.HOST),
        (b"GET / HTTP/1.1\r\nHost: a b/c\r\n\r\n", Fault.HOST),
        (b"GET / HTTP/1.1\r\nHost: u@a\r\n\r\n", Fault.HOST),
        (b"GET / HTTP/1.0\r\nHost: a:99999\r\n\r\n", Fault.HOST),
    ],
    "21 versions and other protocols": [
        (b"GET / HTTP/1.2\r\nHost: a\r\n\r\n", Fault.VERSION),
        (b"GET / HTTP/1.9\r\nHost: a\r\n\r\n", Fault.VERSION),
        (b"GET / HTTP/2.0\r\nHost: a\r\n\r\n", Fault.VERSION),
        (b"GET / HTTP/0.9\r\n\r\n", Fault.VERSION),
        (b"PRI * HTTP/2.0\r\n\r\n", Fault.VERSION),
        (b"GET / HTTP/1.32\r\nHost: a\r\n\r\n", Fault.NOT_HTTP),
        (b"GET / HTTP/11\r\nHost: a\r\n\r\n", Fault.NOT_HTTP),
        (b"GET / http/1.1\r\nHost: a\r\n\r\n", Fault.NOT_HTTP),
        (b"GET / HTTP/1.1 \r\nHost: a\r\n\r\n", Fault.NOT_HTTP),
        (b"GET  / HTTP/1.1\r\nHost: a\r\n\r\n", Fault.NOT_HTTP),
        (b" GET / HTTP/1.1\r\nHost: a\r\n\r\n", Fault.NOT_HTTP),
        (b"GET /a b HTTP/1.1\r\nHost: a\r\n\r\n", Fault.NOT_HTTP),
        (b"G(T / HTTP/1.1\r\nHost: a\r\n\r\n", Fault.NOT_HTTP),
        (b"GET /\r\n\r\n", Fault.NOT_HTTP),
        (b"GET\r\n\r\n", Fault.NOT_HTTP),
        (b"\r\n\r\n", Fault.NOT_HTTP),
        (b"\x16\x03\x01\x02\x00\x01\n\n", Fault.NOT_HTTP),
        (b"SSH-2.0-OpenSSH_9.2\r\n\r\n", Fault.NOT_HTTP),
    ],
    "38 sizes": [
        (head(*[b"X: y"] * 100), Fault.TOO_MANY_FIELDS),
        (head(*[b"X: y"] * 2500), Fault.TOO_MANY_FIELDS),
        (head(*[b"X: y"] * 5000), Fault.HEAD_TOO_LARGE),
        (head(b"X: " + b"y" * 16 * 1024), Fault.HEAD_TOO_LARGE),
        (b"GET /" + b"a" * 8192 + b" HTTP/1.1\r\nHost: a\r\n\r\n", Fault.TARGET_TOO_LONG),
        (b"GET /" + b"a" * 20_000 + b" HTTP/1.1\r\nHost: a\r\n\r\n", Fault.TARGET_TOO_LONG),
        (b"GET /" + b"a" * 8192 + b"\r\n\r\n", Fault.TARGET_TOO_LONG),
        (b"G" * 20_000 + b" / HTTP/1.1\r\nHost: a\r\n\r\n", Fault.HEAD_TOO_LARGE),
    ],
    "expectations": [
        (head(b"Expect: 200-ok"), Fault.EXPECTATION),
        (head(b"Expect: 100-continue, more"), Fault.EXPECTATION),
        (head(b"Expect: 100-continue", b"Expect: more"), Fault.EXPECTATION),
        (b"GET / HTTP/1.0\r\nExpect: more\r\n\r\n", Fault.EXPECTATION),
    ],
}
CASES = [
    pytest.param(octets, fault, id=f"{kind}-{i}")
    for kind, cases in HOSTILE.items()
    for i, (octets, fault) in enumerate(cases)
]


@pytest.mark.parametrize(("octets", "fault"), CASES)
def test_a_hostile_head_gets_its_fault_and_ends_the_connection(octets: bytes, fault: Fault) -> None:
    assert inspect(octets, LIMITS) is fault
    assert fault.close


def test_limits_are_met_exactly() -> None:
    assert isinstance(inspect(head(*[b"X: y"] * 99), LIMITS), Head)
    full = head(b"X: " + b"y" * (LIMITS.size - len(head(b"X: "))))
    assert len(full) == LIMITS.size
    assert isinstance(inspect(full, LIMITS), Head)
    target = b"/" + b"a" * (LIMITS.target_length - 1)
    assert accepted(b"GET " + target + b" HTTP/1.1\r\nHost: a\r\n\r\n").target == target


# --- heads that are still coming ------------------------------------------------------


def judge_in_portions(octets: bytes, size: int) -> Head | Fault | None:
    """What a reader that gets `size` octets at a time comes to; None: it waits for more."""
    buffer, seen = bytearray(), 0
    for at in range(0, len(octets), size):
        buffer += octets[at : at + size]
        end = find_end(buffer, seen)
        if end >= 0:
            return inspect(bytes(buffer[:end]), LIMITS)
        fault = maybe_refuse(buffer, seen, LIMITS)
        if fault is not None:
            return fault
        seen = len(buffer)
    return None


@pytest.mark.parametrize(("octets", "fault"), [c for c in CASES if len(c.values[0]) < 1000])
def test_a_hostile_head_gets_the_same_fault_octet_by_octet(octets: bytes, fault: Fault) -> None:
    assert judge_in_portions(octets, 1) is fault


@pytest.mark.parametrize(("octets", "fault"), [c for c in CASES if len(c.values[0]) >= 1000])
def test_a_long_hostile_head_gets_the_same_fault_in_portions(octets: bytes, fault: Fault) -> None:
    assert judge_in_portions(octets, 499) is fault


@pytest.mark.parametrize(
    ("octets", "fault"),
    [
        (b"\x16\x03\x01", Fault.NOT_HTTP),
        (b"GET /\r\n", Fault.NOT_HTTP),
        (b"GET /\n", Fault.BARE_LF),
        (b"GET / HTTP/3.0\r\n", Fault.VERSION),
        (b"GET /" + b"a" * 8192, Fault.TARGET_TOO_LONG),
        (b"GET / HTTP/1.1\r\nX: " + b"y" * 16 * 1024, Fault.HEAD_TOO_LARGE),
    ],
)
def test_a_hopeless_head_is_not_waited_for(octets: bytes, fault: Fault) -> None:
    assert maybe_refuse(octets, 0, LIMITS) is fault
    assert maybe_refuse(octets, len(octets) - 1, LIMITS) is fault


@pytest.mark.parametrize(
    "octets", [b"", b"\r", b"G", b"GET /", b"GET / HTTP/1.1\r", b"GET / HTTP/1.1\r\nHo"]
)
def test_a_head_that_may_yet_be_good_is_waited_for(octets: bytes) -> None:
    assert maybe_refuse(octets, 0, LIMITS) is None


@given(st.lists(st.sampled_from([b"\r\n", b"\n", b"\r", b"a"]), max_size=12).map(b"".join))
def test_the_end_is_found_whatever_was_searched_before(octets: bytes) -> None:
    whole = find_end(octets, 0)
    portions = [find_end(octets[: n + 1], n) for n in range(len(octets))]
    assert next((end for end in portions if end >= 0), -1) == whole


# --- any octets -----------------------------------------------------------------------

NAMES = st.sampled_from(
    [b"Hos", b"Content-Length", b"Transfer-Encoding", b"Expect", b"Connection", b"X", b"Upgrade"]
)
VALUES = st.sampled_from(
    [
        b"a",
        b"a:80",
        b"5",
        b"chunked",
        b"100-continue",
        b"close",
        b"",
        b"a b",
        b"\xff",
        b" x\t",
        b"h2c",
    ]
)
FIELD_LINES = st.tuples(NAMES, st.sampled_from([b":", b": ", b":\t "]), VALUES).map(b"".join)
REQUEST_LINES = st.tuples(
    st.sampled_from([b"GET", b"HEAD", b"POST", b"OPTIONS", b"CONNECT", b"x!"]),
    st.sampled_from([b"/", b"/a?b#c", b"*", b"a:1", b"http://b/", b"foo"]),
    st.sampled_from([b"HTTP/1.1", b"HTTP/1.0", b"HTTP/1.1"]),
).map(b" ".join)


@st.composite
def heads(draw: st.DrawFn) -> bytes:
    """Heads that are mostly good, then changed in up to three places."""
    lines = draw(st.lists(FIELD_LINES, max_size=3))
    octets = bytearray(head(*lines, first=draw(REQUEST_LINES) + b"\r\nHost: a"))
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, len(octets) - 1))
        new = draw(st.sampled_from([b"", b"\r", b"\n", b" ", b"\t", b":", b"\0", b"\x85", b"a"]))
        octets[at : at + draw(st.integers(0, 1))] = new
    return bytes(octets)


def read_by_h11(octets: bytes) -> tuple[h11.Request, bool]:
    """The request, and whether a body follows."""
    reader = h11.Connection(h11.SERVER)
    reader.receive_data(octets)
    request = reader.next_event()
    assert isinstance(request, h11.Request), request
    assert reader.trailing_data == (b"", False)
    return request, reader.next_event() is h11.NEED_DATA


@pytest.mark.slow
@settings(max_examples=300)
@given(heads())
def test_what_the_gate_accepts_h11_reads_the_same_way(octets: bytes) -> None:
    judged = inspect(octets, LIMITS)
    if isinstance(judged, Fault):
        return
    request, body = read_by_h11(octets)
    assert (request.method, request.target) == (judged.method, judged.target)
    assert request.http_version == b"1.%d" % judged.minor
    framing_names = (b"content-length", b"transfer-encoding")
    assert [n for n, _ in request.headers.raw_items()] == [n for n, _ in judged.fields]
    for (_, theirs), (name, ours) in zip(request.headers, judged.fields, strict=True):
        assert theirs == (ours.lower() if name.lower() in framing_names else ours)
    assert body == (judged.framing.chunked or bool(judged.framing.length))


@pytest.mark.slow
@settings(max_examples=200)
@given(heads(), st.integers(1, 7))
def test_portions_never_change_a_verdict(octets: bytes, size: int) -> None:
    end = find_end(octets, 0)
    if end >= 0:
        verdict = judge_in_portions(octets, size)
        assert verdict == inspect(octets[:end], LIMITS)


@pytest.mark.slow
@settings(max_examples=200)
@given(st.binary(max_size=60) | heads())
def test_any_octets_give_a_head_or_a_fault(octets: bytes) -> None:
    assert isinstance(inspect(octets, LIMITS), Head | Fault)
    assert -1 <= find_end(octets, len(octets) // 2) <= len(octets)
    assert 0 <= skip_blank_lines(octets) <= len(octets)
    assert maybe_refuse(octets, 0, LIMITS) is None or isinstance(
        maybe_refuse(octets, 0, LIMITS), Fault
    )
