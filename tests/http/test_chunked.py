"""The chunk gate: where a body ends, whatever portions it comes in, or why it is refused."""

from __future__ import annotations

from itertools import pairwise

import h11
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgebox.http.chunked import (
    LINE_SIZE,
    OVERHEAD,
    TRAILER_FIELDS,
    TRAILER_SIZE,
    ChunkGate,
)
from edgebox.http.faults import Fault

LAST = b"0\r\n\r\n"


def verdict(*portions: bytes) -> tuple[Fault | None, bool, int, int]:
    """What a gate says in the end; after a fault nothing but the fault counts."""
    gate = ChunkGate()
    fault = None
    for portion in portions:
        fault = gate.feed(portion)
    if fault is not None:
        return fault, False, 0, 0
    return None, gate.done, gate.consumed, gate.announced


def octets_of(body: bytes) -> list[bytes]:
    return [body[i : i + 1] for i in range(len(body))]


# --- what passes ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "announced"),
    [
        (LAST, 0),
        (b"5\r\nhello\r\n" + LAST, 5),
        (b"5\r\nhello\r\n1\r\n!\r\n000\r\n\r\n", 6),
        (b"A\r\n0123456789\r\na\r\n0123456789\r\n" + LAST, 20),
        (b'1;name=value;q="a b\t\xff"\r\nx\r\n0;last\r\n\r\n', 1),
        (b"2\r\n\r\n\r\n" + LAST, 2),
        (b"0000000000000001\r\nx\r\n" + LAST, 1),
        (b"0\r\nX-Sum: 1\r\nEmpty:\r\n\r\n", 0),
    ],
)
def test_a_body_ends_where_it_ends_and_the_rest_is_not_touched(body: bytes, announced: int) -> None:
    rest = b"GET / HTTP/1.1\r\n"
    assert verdict(body + rest) == (None, True, len(body), announced)
    assert verdict(*octets_of(body + rest)) == (None, True, len(body), announced)


def test_a_body_that_is_not_over_asks_for_more() -> None:
    body = b"5\r\nhello\r\n0\r\nX: y\r\n\r\n"
    for cut in range(len(body)):
        fault, done, consumed, _ = verdict(body[:cut])
        assert (fault, done, consumed) == (None, False, cut)


def test_a_size_is_known_before_its_data_comes() -> None:
    gate = ChunkGate()
    assert gate.feed(b"7fffffffffffffff\r\n") is None
    assert gate.announced == 2**63 - 1


def test_a_fault_lasts() -> None:
    gate = ChunkGate()
    assert gate.feed(b"x\r\n") is Fault.CHUNK
    assert gate.feed(LAST) is Fault.CHUNK
    assert not gate.done


@pytest.mark.parametrize(
    "name", [b"Content-Length", b"Transfer-Encoding", b"Host", b"Authorization", b"X"]
)
def test_a_trailer_of_any_name_is_passed_over(name: bytes) -> None:
    body = b"0\r\n" + name + b": 5\r\n\r\n"
    assert verdict(body) == (None, True, len(body), 0)


# --- what does not (FAULTS 7-11) ------------------------------------------------------

HOSTILE: dict[str, list[tuple[bytes, Fault]]] = {
    "7 sizes": [
        (size + b"\r\nhello\r\n" + LAST, Fault.CHUNK)
        for size in (
            b"", b"0x1", b"0X1", b"-1", b"+5", b"1_0", b" 5", b"5 ", b"5\t", b"g", b"5 ;a", b"5,5",
            b";a", b"8000000000000000", b"f" * 16, b"0" * 17, b"1" + b"0" * 16, b"\xb2", b"5\x00",
        )
    ],
    "8 data not followed by CRLF": [
        (b"5\r\nhello" + LAST, Fault.CHUNK),
        (b"5\r\nhello!\r\n" + LAST, Fault.CHUNK),
        (b"5\r\nhello\n" + LAST, Fault.CHUNK),
        (b"5\r\nhello\r\r\n" + LAST, Fault.CHUNK),
        (b"5\r\nhelloXX" + LAST, Fault.CHUNK),
        (b"5\r\nhello\n\r" + LAST, Fault.CHUNK),
    ],
    "9 line ends in a size line": [
        (b"5\nhello\r\n" + LAST, Fault.CHUNK),
        (b"5\r\rhello\r\n" + LAST, Fault.CHUNK),
        (b"5;a\nhello\r\n" + LAST, Fault.CHUNK),
        (b"5;a\rb\r\nhello\r\n" + LAST, Fault.CHUNK),
        (b"5;a\r\r\nhello\r\n" + LAST, Fault.CHUNK),
        (b"5;a\x00\r\nhello\r\n" + LAST, Fault.CHUNK),
        (b"5;a\x0b\r\nhello\r\n" + LAST, Fault.CHUNK),
        (b"5;a\x7f\r\nhello\r\n" + LAST, Fault.CHUNK),
        (b"0\n\r\n", Fault.CHUNK),
    ],
    "10 framing without data": [
        (b"1;" + b"a" * 500 + b"\r\nx\r\n", Fault.CHUNK_OVERHEAD),
        (b"1;" + b"a" * 30 + b"\r\nx\r\n", Fault.CHUNK_OVERHEAD),
        (b"1\r\nx\r\n", Fault.CHUNK_OVERHEAD),
    ],
    "11 trailers": [
        (b"0\r\n" + b"X: y\r\n" * (TRAILER_FIELDS + 1) + b"\r\n", Fault.TRAILERS),
        (b"0\r\nX: " + b"y" * TRAILER_SIZE + b"\r\n\r\n", Fault.TRAILERS),
        (b"0\r\nX : y\r\n\r\n", Fault.TRAILERS),
        (b"0\r\n: y\r\n\r\n", Fault.TRAILERS),
        (b"0\r\nX\r\n\r\n", Fault.TRAILERS),
        (b"0\r\nX: y\r\n z\r\n\r\n", Fault.TRAILERS),
        (b"0\r\nX: y\n\r\n", Fault.TRAILERS),
        (b"0\r\nX: a\rb\r\n\r\n", Fault.TRAILERS),
        (b"0\r\nX: a\x00\r\n\r\n", Fault.TRAILERS),
        (b"0\r\n\n", Fault.TRAILERS),
        (b"0\r\nGET / HTTP/1.1\r\n\r\n", Fault.TRAILERS),
    ],
}  # fmt: skip
# These are refused for their number.
HOSTILE["10 framing without data"] = [
    (chunk * (OVERHEAD // (len(chunk) - 2) + 1), fault)
    for chunk, fault in HOSTILE["10 framing without data"]
]
CASES = [
    pytest.param(body, fault, id=f"{kind}-{i}")
    for kind, cases in HOSTILE.items()
    for i, (body, fault) in enumerate(cases)
]


@pytest.mark.parametrize(("body", "fault"), CASES)
def test_a_hostile_body_gets_its_fault_in_any_portions(body: bytes, fault: Fault) -> None:
    assert verdict(body)[0] is fault
    for size in (1, 3) if len(body) < 1000 else (997,):
        portions = [body[i : i + size] for i in range(0, len(body), size)]
        assert verdict(*portions)[0] is fault
    assert fault.close
    assert fault.status == 400


def test_one_octet_less_of_framing_passes() -> None:
    chunk = b"1\r\nx\r\n"
    most = OVERHEAD // (len(chunk) - 2)
    assert verdict(chunk * most)[0] is None
    assert verdict(chunk * (most + 1))[0] is Fault.CHUNK_OVERHEAD


def test_data_pays_for_framing() -> None:
    data = b"%x\r\n%b\r\n" % (5000, b"x" * 5000)
    dear = b"1;" + b"a" * 500 + b"\r\nx\r\n"
    assert verdict(data * 5 + dear * 45)[0] is None
    assert verdict(data + dear * 45)[0] is Fault.CHUNK_OVERHEAD


def test_a_size_line_that_never_ends_is_not_kept() -> None:
    assert verdict(b"1;" + b"a" * LINE_SIZE)[0] is Fault.CHUNK_OVERHEAD
    assert verdict(*[b"a"] * (LINE_SIZE + 1))[0] is Fault.CHUNK_OVERHEAD


def test_trailers_are_bounded_while_they_come() -> None:
    fill = b"0\r\nX: " + b"y" * (TRAILER_SIZE - 3)
    assert verdict(fill)[0] is None
    assert verdict(fill, b"y")[0] is Fault.TRAILERS


# --- any octets -----------------------------------------------------------------------

EXTENSIONS = st.sampled_from([b"", b";a", b';a="b c"', b";", b";\xff"])
CHUNKS = st.builds(
    lambda data, size, extension: (size % len(data)) + extension + b"\r\n" + data + b"\r\n",
    st.binary(min_size=1, max_size=20),
    st.sampled_from([b"%x", b"%X", b"%04x"]),
    EXTENSIONS,
)
TRAILERS = st.lists(st.sampled_from([b"X: y\r\n", b"X-Sum:\r\n", b"Y:\t\xff \r\n"]), max_size=3)


@st.composite
def bodies(draw: st.DrawFn) -> bytes:
    """Well-formed chunked bodies."""
    last = draw(st.sampled_from([b"0", b"00"])) + draw(EXTENSIONS) + b"\r\n"
    trailers = b"".join(draw(TRAILERS))
    return b"".join(draw(st.lists(CHUNKS, max_size=4))) + last + trailers + b"\r\n"


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    """Bodies changed in one or two places, with something after them."""
    octets = bytearray(draw(bodies()) + b"GET / HTTP/1.1\r\n\r\n")
    for _ in range(draw(st.integers(1, 2))):
        at = draw(st.integers(0, len(octets) - 1))
        new = draw(st.sampled_from([b"", b"\r", b"\n", b"0", b"f", b" ", b"\0", b";", b"\r\n"]))
        octets[at : at + draw(st.integers(0, 1))] = new
    return bytes(octets)


def portions_of(body: bytes, cuts: list[int]) -> list[bytes]:
    edges = [0, *sorted(min(cut, len(body)) for cut in cuts), len(body)]
    return [body[a:b] for a, b in pairwise(edges)]


@pytest.mark.slow
@settings(max_examples=200)
@given(bodies() | mutated() | st.binary(max_size=60), st.lists(st.integers(0, 200), max_size=5))
def test_portions_never_change_a_verdict(body: bytes, cuts: list[int]) -> None:
    whole = verdict(body)
    assert verdict(*portions_of(body, cuts)) == whole
    assert verdict(*octets_of(body)) == whole


def read_by_h11(body: bytes) -> tuple[bytes, bool, int]:
    """The payload, whether the body is over, and octets after it."""
    reader = h11.Connection(h11.SERVER)
    reader.receive_data(b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" + body)
    assert isinstance(reader.next_event(), h11.Request)
    payload = b""
    while isinstance(event := reader.next_event(), h11.Data):
        payload += event.data
    rest = len(reader.trailing_data[0])
    return payload, isinstance(event, h11.EndOfMessage), rest


@pytest.mark.slow
@settings(max_examples=200)
@given(bodies() | mutated())
def test_what_the_gate_accepts_ends_in_the_same_place_for_h11(body: bytes) -> None:
    fault, done, consumed, announced = verdict(body)
    if fault is None and done:
        payload, over, rest = read_by_h11(body)
        assert over
        assert rest == len(body) - consumed
        assert len(payload) == announced
