"""The recogniser accepts only what the gate and h11 read in the very same way."""

from __future__ import annotations

import h11
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgebox.express.recogniser import Facts, Line, Recogniser, match_line, strip_cookie
from edgebox.http.faults import Fault
from edgebox.http.gate import NO_BODY, Head, HeadLimits, inspect
from edgebox.http.headers import Headers
from edgebox.http.target import effective_host, parse_target

DECIDING = frozenset((b"accept-encoding", b"connection", b"if-none-match", b"range"))
FIELDS = 8
RECOGNISER = Recogniser(DECIDING, FIELDS)
LIMITS = HeadLimits(size=16 * 1024, fields=FIELDS, target_length=8 * 1024)

AGENT = b"Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/130.0.0.0"


def block(*lines: bytes, host: bytes = b"Host: a") -> bytes:
    return b"".join(line + b"\r\n" for line in (host, *lines)) + b"\r\n"


# --- request lines --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "seen"),
    [
        (b"GET / HTTP/1.1", Line(b"GET", b"/", 1)),
        (b"HEAD /a%20b?c=d&e HTTP/1.0", Line(b"HEAD", b"/a%20b?c=d&e", 0)),
        (b'GET //x/../"!~ HTTP/1.1', Line(b"GET", b'//x/../"!~', 1)),
    ],
)
def test_plain_request_lines_are_recognised(line: bytes, seen: Line) -> None:
    assert match_line(line) == seen


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"POST / HTTP/1.1",
        b"OPTIONS * HTTP/1.1",
        b"get / HTTP/1.1",
        b"GET * HTTP/1.1",
        b"GET a HTTP/1.1",
        b"GET http://a/ HTTP/1.1",
        b"GET /#a HTTP/1.1",
        b"GET /a\\b HTTP/1.1",
        b"GET /a b HTTP/1.1",
        b"GET  / HTTP/1.1",
        b"GET /\x80 HTTP/1.1",
        b"GET /\x7f HTTP/1.1",
        b"GET /\t HTTP/1.1",
        b"GET / HTTP/1.2",
        b"GET / HTTP/2.0",
        b"GET / HTTP/1.1 ",
        b"GET / HTTP/1.1\r",
        b"GET / HTTP/1.1\n",
        b"\nGET / HTTP/1.1",
        b"GET /",
    ],
)
def test_other_request_lines_are_for_the_task(line: bytes) -> None:
    assert match_line(line) is None


# --- header blocks --------------------------------------------------------------------


def test_a_browsers_block_gives_what_decides_and_what_is_logged() -> None:
    octets = block(
        b"User-Agent: " + AGENT,
        b"Accept: text/html,*/*;q=0.8",
        b"Accept-Encoding: gzip, br",
        b"Upgrade-Insecure-Requests: 1",
        b"Referer: https://example.com/",
        b"Cookie: sid=1",
        b"connection:keep-alive",
        host=b"HOST:  Example.COM.:8080",
    )
    assert RECOGNISER.match_block(octets) == Facts(
        ((b"accept-encoding", b"gzip, br"), (b"connection", b"keep-alive")),
        b"example.com",
        b"https://example.com/",
        AGENT,
    )


def test_a_block_without_fields_names_no_host() -> None:
    assert RECOGNISER.match_block(b"\r\n") == Facts((), None, b"", b"")


def test_fields_that_decide_keep_their_order_and_octets() -> None:
    facts = RECOGNISER.match_block(block(b"RANGE: bytes=0-1", b'if-none-match:   "\xffA"'))
    assert facts is not None
    assert facts.fields == ((b"range", b"bytes=0-1"), (b"if-none-match", b'"\xffA"'))


def test_host_referer_and_agent_can_decide_as_well() -> None:
    recogniser = Recogniser(frozenset((b"host", b"referer")), FIELDS)
    facts = recogniser.match_block(block(b"Referer: b", b"Range: bytes=0-1", host=b"Host: A:1"))
    assert facts == Facts(((b"host", b"A:1"), (b"referer", b"b")), b"a", b"b", b"")


@pytest.mark.parametrize("value", [b"close", b"Close", b"keep-alive", b"Keep-Alive"])
def test_plain_connection_options_are_recognised(value: bytes) -> None:
    facts = RECOGNISER.match_block(block(b"Connection: " + value))
    assert facts is not None
    assert facts.fields == ((b"connection", value),)


@pytest.mark.parametrize("port", [b"", b":", b":0", b":80", b":8080", b":59999", b":64999"])
def test_plain_hosts_are_recognised(port: bytes) -> None:
    facts = RECOGNISER.match_block(block(host=b"Host: A-1.b" + port))
    assert facts is not None
    assert facts.host == b"a-1.b"


@pytest.mark.parametrize(
    "line",
    [
        # the framing, the connection or the hop is not plain
        b"Content-Length: 0",
        b"content-length: 5",
        b"Transfer-Encoding: chunked",
        b"TRANSFER-ENCODING: x",
        b"Expect: 100-continue",
        b"Upgrade: h2c",
        b"HTTP2-Settings: x",
        b"TE: trailers",
        b"te:",
        b"Trailer: X",
        b"Proxy-Connection: keep-alive",
        b"proxy-authorization: x",
        b"Connection: upgrade",
        b"Connection: keep-alive, X",
        b"Connection: close, close",
        b"Connection:",
        # a field that matters comes twice
        b"Host: a",
        b"host: b",
        b"Connection: close\r\nConnection: close",
        b"Range: bytes=0-1\r\nrange: bytes=0-1",
        b"Referer: a\r\nReferer: a",
        b"User-Agent: a\r\nUser-Agent: b",
        # not canonical, or not HTTP
        b"X : y",
        b" X: y",
        b": y",
        b"X",
        b"X: y\r\n z",
        b"X: y ",
        b"X: y\t",
        b"X: a\tb",
        b"X: ",
        b"X: a\x00",
        b"X: a\x7f",
        b"X: a\rb",
        b"X: a\nY: b",
        b"X\x80: y",
        b"X: y\r\n\r\nY: z",
        b"X: y\n",
    ],
)
def test_whatever_is_not_plain_is_for_the_task(line: bytes) -> None:
    assert RECOGNISER.match_block(block(b"A: b")) is not None
    assert RECOGNISER.match_block(block(line)) is None
    assert RECOGNISER.match_block(block(b"A: b", line, b"C: d")) is None


@pytest.mark.parametrize(
    "host",
    [b"", b"a b", b"a/b", b"u@a", b"a..b", b".a", b"[::1]", b"a_b", b"a%41", b"a:65536", b"a:x"],
)
def test_hosts_that_need_thought_are_for_the_task(host: bytes) -> None:
    assert RECOGNISER.match_block(block(host=b"Host: " + host)) is None


def test_the_number_of_fields_is_bounded() -> None:
    assert RECOGNISER.match_block(block(*[b"X: y"] * (FIELDS - 1))) is not None
    assert RECOGNISER.match_block(block(*[b"X: y"] * FIELDS)) is None


@pytest.mark.parametrize(
    "octets",
    [
        b"",
        b"\n",
        b"\r",
        b"Host: a\r\n",
        b"Host: a\r\n\n",
        b"\r\n\r\n",
        b"A: b\r\nC: d \r\n",
        b"A: b\r\nC\r\n",
    ],
)
def test_a_block_ends_with_one_empty_line(octets: bytes) -> None:
    assert RECOGNISER.match_block(octets) is None


@pytest.mark.parametrize("name", [b"content-length", b"te", b"proxy-authorization"])
def test_a_field_that_is_never_recognised_cannot_decide(name: bytes) -> None:
    with pytest.raises(ValueError, match="never recognised"):
        Recogniser(frozenset((name,)), FIELDS)


# --- cookies --------------------------------------------------------------------------


def test_blocks_that_differ_in_their_cookie_are_the_same_without_it() -> None:
    first, second = (block(b"Cookie: sid=%d; a=b" % n, b"Accept: */*") for n in (1, 22))
    assert strip_cookie(first) == strip_cookie(second) == block(b"Accept: */*")


@pytest.mark.parametrize(
    "line",
    [b"Cookie: a\tb", b"Cookie: a ", b"Cookie: a\0", b"Cookie:a", b"cookie2: a", b"Cookie : a"],
)
def test_a_cookie_that_is_not_plain_stays_in_the_block(line: bytes) -> None:
    assert strip_cookie(block(line)) == block(line)


def test_a_cookie_is_only_taken_from_whole_lines() -> None:
    for octets in (b"Cookie: a\r\n\r\n", b"Host: a\r\nCookie: a", b"Host: a\r\nCookie: a\r", b""):
        assert strip_cookie(octets) == octets


# --- any octets -----------------------------------------------------------------------

NAMES = st.sampled_from(
    [
        b"Host", b"Connection", b"Content-Lengt", b"Accept-Encoding", b"IF-NONE-MATCH", b"Range",
        b"Referer", b"User-Agent", b"Cookie", b"Cookie", b"Hos", b"Hostx", b"Rang", b"X",
    ]
)  # fmt: skip
VALUES = st.sampled_from(
    [b"a", b"a.b:80", b"Keep-Alive", b"close", b"x, y", b'"e"', b"\xff", b"", b"a  b", b"bytes=0-"]
)
LINES = st.tuples(NAMES, st.sampled_from([b":", b": ", b":  "]), VALUES).map(b"".join)
TARGETS = st.text(alphabet="/.%2ef?&=a;~", max_size=8).map(lambda tail: b"/" + tail.encode())


def name_of(line: bytes) -> bytes:
    return line.partition(b":")[0].lower()


@st.composite
def heads(draw: st.DrawFn) -> tuple[bytes, bytes]:
    """Request line and block, mostly canonical, changed in up to two places."""
    minor = draw(st.integers(0, 1))
    line = draw(st.sampled_from([b"GET", b"HEAD"])) + b" " + draw(TARGETS) + b" HTTP/1.%d" % minor
    octets = bytearray(
        line + b"\r\n" + block(*draw(st.lists(LINES, max_size=5, unique_by=name_of)))
    )
    for _ in range(draw(st.sampled_from([0, 0, 1, 2]))):
        at = draw(st.integers(0, len(octets) - 1))
        new = draw(st.sampled_from([b"", b"\r", b"\n", b" ", b"\t", b":", b"\0", b"\x85", b"a"]))
        octets[at : at + draw(st.integers(0, 1))] = new
    line, _, rest = bytes(octets).partition(b"\r\n")
    return line, rest


@pytest.mark.slow
@settings(max_examples=400)
@given(heads())
def test_what_is_recognised_the_gate_and_h11_read_the_same_way(head: tuple[bytes, bytes]) -> None:
    line, rest = head
    # As the lane does: one field less, since a cookie may have been taken out before.
    seen, facts = match_line(line), Recogniser(DECIDING, FIELDS - 1).match_block(strip_cookie(rest))
    if seen is None or facts is None or (facts.host is None and seen.minor == 1):
        return
    octets = line + b"\r\n" + rest

    judged = inspect(octets, LIMITS)
    assert isinstance(judged, Head), judged
    assert judged.framing == NO_BODY
    assert not judged.expects_continue

    reader = h11.Connection(h11.SERVER)
    reader.receive_data(octets)
    request = reader.next_event()
    assert isinstance(request, h11.Request), request
    assert isinstance(reader.next_event(), h11.EndOfMessage)
    assert reader.trailing_data == (b"", False)

    assert (request.method, request.target) == (seen.method, seen.target)
    assert request.http_version == b"1.%d" % seen.minor
    assert facts.fields == tuple((n, v) for n, v in request.headers if n in DECIDING)
    headers = Headers(request.headers.raw_items())
    assert facts.referer == (headers.get(b"referer") or b"")
    assert facts.user_agent == (headers.get(b"user-agent") or b"")

    target = parse_target(seen.method, seen.target)
    if not isinstance(target, Fault):
        assert effective_host(target, headers, seen.minor) == (facts.host or b"")


@settings(max_examples=100)
@given(st.binary(max_size=60))
def test_any_octets_give_facts_or_none(octets: bytes) -> None:
    assert isinstance(match_line(octets), Line | None)
    assert isinstance(RECOGNISER.match_block(octets), Facts | None)
