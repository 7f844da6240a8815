"""Content out of its chunks: the same however it is cut, and as h11 takes it out."""

from __future__ import annotations

import h11
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgebox.upstream.dechunk import LINE_SIZE, TRAILER_SIZE, Dechunker
from edgebox.upstream.errors import Malformed


def feed(octets: bytes, step: int = 1 << 30) -> tuple[bytes | Malformed, Dechunker]:
    """What comes of `octets` in portions of `step`."""
    dechunker, content = Dechunker(), b""
    for at in range(0, len(octets), step):
        taken = dechunker.feed(octets[at : at + step])
        if isinstance(taken, Malformed):
            return taken, dechunker
        content += taken
    return content, dechunker


WHOLE = b"5\r\nhello\r\n006;a=b\r\n world\r\n0\r\nX-Sum: 1\r\nTE: x\r\n\r\n"


@pytest.mark.parametrize("step", [1, 2, 3, 7, 1000])
def test_content_and_trailers_come_out_however_it_is_cut(step: int) -> None:
    content, dechunker = feed(WHOLE, step)
    assert content == b"hello world"
    assert (dechunker.done, dechunker.surplus) == (True, False)
    assert dechunker.trailers == ((b"X-Sum", b"1"),)


def test_pieces_are_handed_on_before_their_chunk_is_whole() -> None:
    dechunker = Dechunker()
    assert dechunker.feed(b"ff\r\nabc") == b"abc"
    assert dechunker.feed(b"de") == b"de"
    assert not dechunker.done


def test_octets_beyond_the_body_are_noticed() -> None:
    content, dechunker = feed(b"0\r\n\r\nHTTP/1.1 200 OK")
    assert (content, dechunker.done, dechunker.surplus) == (b"", True, True)


def test_nothing_is_done_until_the_last_octet() -> None:
    for end in range(len(WHOLE)):
        assert not feed(WHOLE[:end])[1].done


@pytest.mark.parametrize("step", [1, 1000])
@pytest.mark.parametrize(
    ("octets", "malformed"),
    [
        (b"\r\nhello", Malformed.CHUNK),
        (b"x\r\n", Malformed.CHUNK),
        (b"0x5\r\nhello\r\n", Malformed.CHUNK),
        (b"-1\r\n", Malformed.CHUNK),
        (b"+5\r\n", Malformed.CHUNK),
        (b"1_0\r\n", Malformed.CHUNK),
        (b" 5\r\nhello\r\n", Malformed.CHUNK),
        (b"5\nhello\n", Malformed.CHUNK),
        (b"8000000000000000\r\n", Malformed.CHUNK),
        (b"0" * 17 + b"\r\n", Malformed.CHUNK),
        (b"5;a\0b\r\nhello\r\n", Malformed.CHUNK),
        (b"5;a\rb\r\nhello\r\n", Malformed.CHUNK),
        (b"5\r\nhelloX\r\n", Malformed.CHUNK),
        (b"5\r\nhello\n0\r\n", Malformed.CHUNK),
        (b"5\r\nhello\rX", Malformed.CHUNK),
        (b"5;" + b"x" * LINE_SIZE, Malformed.CHUNK),
        (b"0\r\nno colon\r\n\r\n", Malformed.TRAILERS),
        (b"0\r\nA : b\r\n\r\n", Malformed.TRAILERS),
        (b"0\r\nA: b\n\n", Malformed.TRAILERS),
        (b"0\r\nA: " + b"b" * TRAILER_SIZE, Malformed.TRAILERS),
    ],
)
def test_malformed_framing_is_refused(octets: bytes, malformed: Malformed, step: int) -> None:
    assert feed(octets, step)[0] is malformed


CHUNK = st.binary(min_size=1, max_size=30)


@given(st.lists(CHUNK, max_size=6), st.integers(1, 40), st.sampled_from([b"", b";x=y", b"  "]))
def test_h11_takes_out_the_same(chunks: list[bytes], step: int, extension: bytes) -> None:
    octets = b"".join(b"%x%b\r\n%b\r\n" % (len(c), extension, c) for c in chunks)
    octets += b"0%b\r\nX: y\r\n\r\n" % extension
    content, dechunker = feed(octets, step)
    assert content == b"".join(chunks)
    assert dechunker.done
    reader = h11.Connection(h11.CLIENT)
    reader.send(h11.Request(method="GET", target="/", headers=[("Host", "x")]))
    reader.send(h11.EndOfMessage())
    reader.receive_data(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + octets)
    taken = b""
    while not isinstance(event := reader.next_event(), h11.EndOfMessage):
        taken += bytes(event.data) if isinstance(event, h11.Data) else b""
    assert taken == content
    assert tuple(event.headers.raw_items()) == dechunker.trailers


@given(st.binary(max_size=40), st.integers(1, 40), st.integers(0, 60), st.integers(0, 255))
def test_cutting_never_changes_the_outcome(junk: bytes, step: int, at: int, octet: int) -> None:
    octets = WHOLE[:at] + bytes([octet]) + WHOLE[at + 1 :] + junk
    whole, cut = feed(octets), feed(octets, step)
    assert whole[1].done == cut[1].done
    if isinstance(whole[0], Malformed):
        assert isinstance(cut[0], Malformed)
    else:
        assert whole[0] == cut[0]
