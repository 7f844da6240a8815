"""Compression as a client meets it: plain at first, soon coded, and never of an older text."""

from __future__ import annotations

import gzip
import random
import sys
import time
from collections.abc import Callable
from pathlib import Path

import brotli
import pytest

from tests.box.conftest import Box, Reply, Start, ask, wait_until
from tests.wire import PATIENCE

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

pytestmark = pytest.mark.slow

DECODE: dict[str, Callable[[bytes], bytes]] = {
    "br": brotli.decompress,
    "zstd": zstd.decompress,
    "gzip": gzip.decompress,
}


def text(seed: int) -> bytes:
    return random.Random(seed).randbytes(9000).hex(" ", 3).encode()


@pytest.fixture
def box(start: Start, root: Path) -> Box:
    (root / "page.txt").write_bytes(text(1))
    return start("--root", str(root))


def soon_coded(box: Box, coding: str, **fields: str) -> Reply:
    """The first answer under `coding`; each one before it is plain and whole."""
    replies: list[Reply] = []

    def is_coded() -> bool:
        replies.append(ask(box, "/page.txt", accept_encoding=coding, **fields))
        return "content-encoding" in replies[-1].headers

    wait_until(is_coded)
    for reply in replies[:-1]:
        assert (reply.status, reply.body) == (200, text(1))
    assert replies[-1].headers["content-encoding"] == coding
    return replies[-1]


def test_the_first_answer_is_plain_and_soon_it_is_coded(box: Box) -> None:
    first = ask(box, "/page.txt", accept_encoding="br")
    assert "content-encoding" not in first.headers
    assert first.headers["vary"] == "Accept-Encoding"
    coded = {coding: soon_coded(box, coding) for coding in DECODE}
    for coding, reply in coded.items():
        assert DECODE[coding](reply.body) == text(1)
        assert len(reply.body) < len(text(1))
        assert reply.headers["content-length"] == str(len(reply.body))
        assert reply.headers["content-type"] == "text/plain; charset=utf-8"
        assert reply.headers["vary"] == "Accept-Encoding"
        assert reply.headers["last-modified"] == first.headers["last-modified"]
    tags = {reply.headers["etag"] for reply in (ask(box, "/page.txt"), *coded.values())}
    assert len(tags) == 4, "each representation has a validator of its own"


def test_validators_and_ranges_are_those_of_the_coded_body(box: Box) -> None:
    coded = soon_coded(box, "br")
    tag = coded.headers["etag"]
    again = ask(box, "/page.txt", accept_encoding="br", if_none_match=tag)
    assert (again.status, again.body, again.headers["etag"]) == (304, b"", tag)
    assert ask(box, "/page.txt", if_none_match=tag).status == 200
    part = ask(box, "/page.txt", accept_encoding="br", range="bytes=10-19", if_range=tag)
    assert (part.status, part.body) == (206, coded.body[10:20])
    assert part.headers["content-range"] == f"bytes 10-19/{len(coded.body)}"
    head = ask(box, "/page.txt", method="HEAD", accept_encoding="br")
    assert head.headers["content-length"] == str(len(coded.body))


def test_the_client_chooses(box: Box) -> None:
    for coding in DECODE:
        soon_coded(box, coding)
    for accepted, coding in [
        ("gzip, br, zstd", "br"), ("gzip;q=1, br;q=0.5", "gzip"), ("br;q=0, *", "zstd"),
        ("identity", None), ("br;q=0, gzip;q=0, zstd;q=0", None), ("*;q=0, identity", None),
        ("deflate, compress", None), ("GZIP", "gzip"), ("", None),
    ]:  # fmt: skip
        reply = ask(box, "/page.txt", accept_encoding=accepted)
        assert reply.headers.get("content-encoding") == coding, accepted
        assert (DECODE[coding](reply.body) if coding else reply.body) == text(1)
    assert ask(box, "/page.txt", accept_encoding="*;q=0").status == 406


def test_after_an_edit_no_old_variant_is_served(box: Box, root: Path) -> None:
    """Edited while it is hot, several times, once back to what it was before."""
    soon_coded(box, "br")
    for seed in (2, 3, 1):
        (root / "new").write_bytes(text(seed))
        (root / "new").rename(root / "page.txt")
        edited = time.monotonic()
        deadline = edited + PATIENCE
        while True:
            asked = time.monotonic()
            assert asked < deadline, "never coded again"
            reply = ask(box, "/page.txt", accept_encoding="br")
            coded = "content-encoding" in reply.headers
            body = brotli.decompress(reply.body) if coded else reply.body
            delayed = time.monotonic() - asked > 0.05  # by this machine: proves nothing
            assert body == text(seed) or asked < edited + 0.1 or delayed
            if coded and body == text(seed):
                break
            time.sleep(0.02)


def test_what_does_not_get_smaller_stays_plain(box: Box, root: Path, tmp_path: Path) -> None:
    (root / "noise.txt").write_bytes(random.Random(4).randbytes(5000))
    soon_coded(box, "br")
    ask(box, "/noise.txt", accept_encoding="br")
    wait_until(lambda: [p for p in tmp_path.glob("cache/**/*.br") if not p.stat().st_size])
    reply = ask(box, "/noise.txt", accept_encoding="br")
    assert "content-encoding" not in reply.headers
    assert reply.body == (root / "noise.txt").read_bytes()


def test_variants_outlive_a_restart(box: Box, start: Start, root: Path) -> None:
    coded = soon_coded(box, "br")
    box.process.terminate()
    box.wait()
    again = ask(start("--root", str(root)), "/page.txt", accept_encoding="br")
    assert (again.headers["etag"], again.body) == (coded.headers["etag"], coded.body)
