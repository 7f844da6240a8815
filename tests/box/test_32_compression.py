"""Compression as a client meets it: plain at first, soon coded, and never of an older text."""

from __future__ import annotations

import gzip
import itertools
import os
import random
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import brotli
import pytest

from tests.box.conftest import Box, Reply, Start, ask, running, wait_until
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


@pytest.fixture(scope="module")
def docroot(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("www")


@pytest.fixture(scope="module")
def box(tmp_path_factory: pytest.TempPathFactory, docroot: Path) -> Iterator[Box]:
    """One box for all tests, each of which has a page of its own."""
    environment = os.environ | {"CACHE_DIRECTORY": str(tmp_path_factory.mktemp("cache"))}
    with running("--root", str(docroot), "--listen", "127.0.0.1:0", env=environment) as box:
        yield box


numbers = itertools.count()


@pytest.fixture
def page(docroot: Path) -> Path:
    path = docroot / f"page-{next(numbers)}.txt"
    path.write_bytes(text(1))
    return path


def soon_coded(box: Box, page: Path, coding: str) -> Reply:
    """The first answer under `coding`; each one before it is plain and whole."""
    replies: list[Reply] = []

    def is_coded() -> bool:
        replies.append(ask(box, f"/{page.name}", accept_encoding=coding))
        return "content-encoding" in replies[-1].headers

    wait_until(is_coded)
    for reply in replies[:-1]:
        assert (reply.status, reply.body) == (200, text(1))
    assert replies[-1].headers["content-encoding"] == coding
    return replies[-1]


def test_the_first_answer_is_plain_and_soon_it_is_coded(box: Box, page: Path) -> None:
    first = ask(box, f"/{page.name}", accept_encoding="br")
    assert "content-encoding" not in first.headers
    assert first.headers["vary"] == "Accept-Encoding"
    coded = {coding: soon_coded(box, page, coding) for coding in DECODE}
    for coding, reply in coded.items():
        assert DECODE[coding](reply.body) == text(1)
        assert len(reply.body) < len(text(1))
        assert reply.headers["content-length"] == str(len(reply.body))
        assert reply.headers["content-type"] == "text/plain; charset=utf-8"
        assert reply.headers["vary"] == "Accept-Encoding"
        assert reply.headers["last-modified"] == first.headers["last-modified"]
    tags = {reply.headers["etag"] for reply in (ask(box, f"/{page.name}"), *coded.values())}
    assert len(tags) == 4, "each representation has a validator of its own"


def test_validators_and_ranges_are_those_of_the_coded_body(box: Box, page: Path) -> None:
    coded = soon_coded(box, page, "br")
    tag = coded.headers["etag"]
    again = ask(box, f"/{page.name}", accept_encoding="br", if_none_match=tag)
    assert (again.status, again.body, again.headers["etag"]) == (304, b"", tag)
    assert ask(box, f"/{page.name}", if_none_match=tag).status == 200
    part = ask(box, f"/{page.name}", accept_encoding="br", range="bytes=10-19", if_range=tag)
    assert (part.status, part.body) == (206, coded.body[10:20])
    assert part.headers["content-range"] == f"bytes 10-19/{len(coded.body)}"
    head = ask(box, f"/{page.name}", method="HEAD", accept_encoding="br")
    assert head.headers["content-length"] == str(len(coded.body))


def test_the_client_chooses(box: Box, page: Path) -> None:
    for coding in DECODE:
        soon_coded(box, page, coding)
    for accepted, coding in [
        ("gzip, br, zstd", "br"), ("gzip;q=1, br;q=0.5", "gzip"), ("br;q=0, *", "zstd"),
        ("identity", None), ("br;q=0, gzip;q=0, zstd;q=0", None), ("*;q=0, identity", None),
        ("deflate, compress", None), ("GZIP", "gzip"), ("", None),
    ]:  # fmt: skip
        reply = ask(box, f"/{page.name}", accept_encoding=accepted)
        assert reply.headers.get("content-encoding") == coding, accepted
        assert (DECODE[coding](reply.body) if coding else reply.body) == text(1)
    assert ask(box, f"/{page.name}", accept_encoding="*;q=0").status == 406


def test_after_an_edit_no_old_variant_is_served(box: Box, page: Path) -> None:
    """Edited while it is hot, several times, once back to what it was before."""
    soon_coded(box, page, "br")
    for seed in (2, 3, 1):
        new = page.with_suffix(".new")
        new.write_bytes(text(seed))
        new.rename(page)
        edited = time.monotonic()
        deadline = edited + PATIENCE
        while True:
            asked = time.monotonic()
            assert asked < deadline, "never coded again"
            reply = ask(box, f"/{page.name}", accept_encoding="br")
            coded = "content-encoding" in reply.headers
            body = brotli.decompress(reply.body) if coded else reply.body
            delayed = time.monotonic() - asked > 0.05  # by this machine: proves nothing
            assert body == text(seed) or asked < edited + 0.1 or delayed
            if coded and body == text(seed):
                break
            time.sleep(0.02)


def test_what_does_not_get_smaller_stays_plain(box: Box, page: Path) -> None:
    noise = page.with_name("noise.txt")
    noise.write_bytes(random.Random(4).randbytes(5000))
    ask(box, "/noise.txt", accept_encoding="br")
    soon_coded(box, page, "br")  # asked for later, so the noise was tried before
    reply = ask(box, "/noise.txt", accept_encoding="br")
    assert "content-encoding" not in reply.headers
    assert reply.body == noise.read_bytes()


def test_variants_outlive_a_restart(start: Start, root: Path) -> None:
    (root / "page.txt").write_bytes(text(1))
    first = start("--root", str(root))
    coded = soon_coded(first, root / "page.txt", "br")
    first.process.terminate()
    first.wait()
    again = ask(start("--root", str(root)), "/page.txt", accept_encoding="br")
    assert (again.headers["etag"], again.body) == (coded.headers["etag"], coded.body)
