"""Arbitrary octets to a live server: an answer or a clean refusal, never an exception.

Hypothesis draws them from fragments that mean something to HTTP as well as from noise.
What counts: the service goes on, nothing in the error log is a bug of ours, and how the
octets were cut into segments makes no difference to what comes back.
"""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.conftest import HELLO
from tests.wire import PATIENCE, Server, configure, request, serving, unharmed

pytestmark = pytest.mark.slow

halved = settings(max_examples=settings().max_examples // 2)  # each draws a dozen streams

FRAGMENTS = [
    b"GET ", b"HEAD ", b"POST ", b"OPTIONS ", b"CONNECT ", b"PRI ", b"/", b"/a.txt", b"/sub",
    b"/big.bin", b"*", b"http://x", b"/..", b"%2e", b"%00", b"%", b"?", b"#", b"\\", b" HTTP/1.1",
    b" HTTP/1.0", b" HTTP/2.0", b"HTTP/", b"\r\n", b"\r", b"\n", b"\r\n\r\n", b"\0", b" ", b"\t",
    b":", b": ", b",", b";", b"=", b'"', b"\x80", b"\xff", b"Host: x\r\n", b"Host:", b"host: y\r\n",
    b"Connection: close\r\n", b"Connection: keep-alive\r\n", b"Connection: Host, close\r\n",
    b"Content-Length: 5\r\n", b"Content-Length:", b"Content-Length: 99999999999\r\n",
    b"Transfer-Encoding: chunked\r\n", b"Transfer-Encoding:", b"chunked", b"identity",
    b"Expect: 100-continue\r\n", b"Upgrade: h2c\r\n", b"5\r\nhello\r\n", b"0\r\n\r\n",
    b"fffffff\r\n", b"5;a=b\r\n", b"Trailer: x\r\n", b"Range: bytes=", b"Range: bytes=0-4,2-\r\n",
    b"-5", b"9" * 30, b"If-None-Match: *\r\n", b'If-Match: "x', b"If-Modified-Since: ",
    b"If-Range: W/\r\n", b"Accept-Encoding: br;q=0, *;q=0\r\n", b"Accept-Encoding: gzip;q=",
    b"Cookie: " + b"c" * 500, b"X: y\r\n", b" folded\r\n", b"x" * 9000, b"\x16\x03\x01",
]  # fmt: skip

whole = st.sampled_from(
    [
        request("/"),
        request("/a.txt", "Range: bytes=1-3"),
        request("/none"),
        request("/sub"),
        request("/big.bin", "If-None-Match: *"),
        request("/", "Accept-Encoding: br", method="HEAD"),
        request("/", "Content-Length: 5", method="POST") + b"hello",
        request("/", "Transfer-Encoding: chunked", method="POST") + b"2\r\nhi\r\n0\r\n\r\n",
        request("/", "Connection: close"),
        b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
    ]
)
noise = st.one_of(
    st.binary(max_size=200), st.lists(st.sampled_from(FRAGMENTS), max_size=15).map(b"".join)
)


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    """Good requests, one after the other, with a place or two gone wrong."""
    octets = b"".join(draw(st.lists(whole, min_size=1, max_size=4)))
    for _ in range(draw(st.integers(0, 2))):
        start = draw(st.integers(0, len(octets)))
        end = min(len(octets), start + draw(st.integers(0, 5)))
        octets = octets[:start] + draw(st.one_of(noise, st.sampled_from(FRAGMENTS))) + octets[end:]
    return octets


streams = st.one_of(noise, mutated())


def check(octets: bytes, answer: bytes) -> None:
    """`answer` is nothing, or begins with one of the answers that we give."""
    if not answer:
        return
    found = re.match(rb"HTTP/1\.1 (\d{3}) [A-Za-z -]+\r\nDate: ", answer)
    assert found, (octets, answer[:200])
    assert int(found[1]) in {
        200, 204, 206, 301, 304, 400, 404, 405, 406, 408, 412, 413, 414, 416, 417, 431, 501, 505,
    }, (octets, answer[:200])  # fmt: skip


async def say(server: Server, octets: bytes, cuts: list[int]) -> bytes:
    """Send `octets` cut at `cuts`, each piece once the last was taken; then no more."""
    async with server.connect() as client:
        try:
            for start, end in zip([0, *cuts], [*cuts, len(octets)], strict=True):
                await client.send(octets[start:end])
                for _ in range(3):  # the server shares this loop: it has its turn
                    await trio.lowlevel.checkpoint()
            await client.stream.send_eof()
        except trio.BrokenResourceError:
            pass  # it has heard enough
        return await client.read_all()


@pytest.mark.parametrize("express", [True, False], ids=["lane", "tasks"])
@halved
@given(st.lists(streams, min_size=5, max_size=15))
async def test_whatever_comes_gets_an_answer_or_a_clean_end(
    root: Path, tmp_path: Path, express: bool, drawn: list[bytes]
) -> None:
    log = tmp_path / "error.log"
    log.unlink(missing_ok=True)
    async with unharmed(configure(root, server={"express": express}), log) as server:
        for octets in drawn:
            check(octets, await say(server, octets, []))
            assert (await server.get("/")).body == HELLO
        await server.wait_rest()
    assert not re.search(r" (warning|error): ", log.read_text())


@pytest.mark.parametrize("express", [True, False], ids=["lane", "tasks"])
@halved
@given(st.lists(streams, min_size=5, max_size=15), st.randoms(use_true_random=False))
async def test_how_octets_are_cut_changes_nothing(
    root: Path, express: bool, drawn: list[bytes], dice: random.Random
) -> None:
    async with serving(configure(root, server={"express": express})) as server:
        for octets in drawn:
            count = dice.choice([1, 2, 5, 20])
            cuts = sorted(dice.randrange(len(octets) + 1) for _ in range(count))
            first = await say(server, octets, [])
            again = await say(server, octets, cuts)
            for answer in (first, again):
                check(octets, answer)
            assert undated(first) == undated(again), (octets, cuts)


def undated(octets: bytes) -> bytes:
    return re.sub(rb"\r\nDate: [^\r]*", b"", octets)


async def test_a_long_run_of_noise_leaves_nothing_behind(root: Path, tmp_path: Path) -> None:
    """Many at once, none of them read to the end."""
    dice = random.Random(26)
    async with unharmed(configure(root), tmp_path / "error.log") as server:

        async def one() -> None:
            octets = b"".join(dice.choices([*FRAGMENTS, request("/"), request("/big.bin")], k=12))
            async with server.connect() as client:
                try:
                    await client.send(octets)
                    await trio.sleep(dice.random() * 0.05)
                except trio.BrokenResourceError:
                    pass

        with trio.fail_after(PATIENCE * 3):
            for _ in range(10):
                async with trio.open_nursery() as nursery:
                    for _ in range(40):
                        nursery.start_soon(one)
