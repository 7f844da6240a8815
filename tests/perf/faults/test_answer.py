"""An answer is read however it comes in pieces, and is right to the octet or not at all."""

from __future__ import annotations

import gzip

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perf.faults.answer import NAMED, Answer, Garbage, Target, Verdict, judge, read, request

WHOLE = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX-Y: z\r\n\r\nhello"
CHUNKS = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n"
TARGET = Target("/", b"hello")


@pytest.mark.parametrize("octets", [WHOLE, CHUNKS])
def test_an_answer_is_whole_with_its_last_octet(octets: bytes) -> None:
    assert all(read(octets[:end]) is None for end in range(len(octets)))
    found = read(octets + b"HTTP/1.1 ")
    assert found is not None
    answer, length = found
    assert (answer.status, answer.body, answer.keep, length) == (200, b"hello", True, len(octets))


def test_fields_are_found_by_lower_case_and_a_last_answer_says_so() -> None:
    found = read(WHOLE.replace(b"X-Y: z", b"Connection: close"))
    assert found is not None
    assert found[0].fields == {"content-length": "5", "connection": "close"}
    assert not found[0].keep


@pytest.mark.parametrize(
    "octets",
    [
        b"SSH-2.0",
        b"HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nnonsense\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nabc\r\n",
    ],
)
def test_what_is_no_answer_is_told(octets: bytes) -> None:
    with pytest.raises(Garbage):
        read(octets)


@given(st.binary(max_size=200))
def test_nothing_else_is_ever_raised(octets: bytes) -> None:
    for begin in (b"", b"HTTP/1.1 200 OK\r\n", CHUNKS[:48]):
        try:
            read(begin + octets)
        except Garbage:
            pass


def test_right_is_the_very_body_coded_or_not() -> None:
    assert judge(Answer(200, {}, b"hello"), TARGET) == (Verdict.RIGHT, "")
    coded = Answer(200, {"content-encoding": "gzip"}, gzip.compress(b"hello"))
    assert judge(coded, TARGET) == (Verdict.RIGHT, "")


@pytest.mark.parametrize(
    "answer",
    [
        Answer(200, {}, b"hellO"),
        Answer(200, {}, b"hell"),
        Answer(404, {}, b"hello"),
        Answer(500, {}, b""),
        Answer(200, {"content-encoding": "gzip"}, b"hello"),
        Answer(200, {"content-encoding": "gzip"}, gzip.compress(b"hello")[:-1]),
        Answer(200, {"content-encoding": "br"}, b"hello"),
    ],
)
def test_all_else_is_wrong(answer: Answer) -> None:
    verdict, why = judge(answer, TARGET)
    assert verdict is Verdict.WRONG
    assert why


@pytest.mark.parametrize("status", NAMED)
def test_a_status_that_says_whose_fault_it_is_is_not_wrong(status: int) -> None:
    assert judge(Answer(status), TARGET) == (Verdict.NAMED, str(status))


def test_a_request_says_what_it_accepts() -> None:
    assert request(TARGET) == b"GET / HTTP/1.1\r\nHost: faults\r\n\r\n"
    assert b"\r\nAccept-Encoding: gzip\r\n" in request(TARGET, "gzip")
