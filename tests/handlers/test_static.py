"""Files of a site, as a client sees them."""

from __future__ import annotations

import gzip
import os
from email.utils import formatdate
from pathlib import Path

import pytest

from tests.conftest import HELLO
from tests.wire import configure, serving, statuses


async def test_head_has_gets_fields_and_no_body(root: Path) -> None:
    async with serving(configure(root)) as server:
        for target in ("/", "/a.txt", "/big.bin", "/none", "/sub"):
            got = await server.get(target)
            head = await server.get(target, method="HEAD")
            assert head.body == b""
            assert [h for h in head.raw_headers if h[0] != "date"] == [
                h for h in got.raw_headers if h[0] != "date"
            ], target


async def test_methods(root: Path) -> None:
    async with serving(configure(root)) as server:
        options = await server.get("/", method="OPTIONS")
        assert (options.status, options.headers["allow"]) == (204, "GET, HEAD, OPTIONS")
        assert (await server.get("*", method="OPTIONS")).status == 204
        refused = await server.get("/", method="DELETE")
        assert (refused.status, refused.headers["allow"]) == (405, "GET, HEAD, OPTIONS")
        assert (await server.get("/", method="BREW")).status == 501


@pytest.mark.usefixtures("settled_root")
async def test_validators_lead_to_304_with_the_same_fields(root: Path) -> None:
    async with serving(configure(root)) as server:
        full = await server.get("/")
        again = await server.get("/", f'If-None-Match: "x", W/{full.headers["etag"]}')
        assert (again.status, again.body) == (304, b"")
        for name in ("etag", "last-modified", "vary"):
            assert again.headers.get(name) == full.headers.get(name)
        since = await server.get("/", f"If-Modified-Since: {full.headers['last-modified']}")
        assert since.status == 304
        failed = await server.get("/", 'If-Match: "other"')
        assert failed.status == 412
        both = await server.get(
            "/", 'If-None-Match: "x"', f"If-Modified-Since: {full.headers['last-modified']}"
        )
        assert both.status == 200, "If-None-Match decides (RFC 9110 §13.2.2)"


@pytest.mark.usefixtures("settled_root")
@pytest.mark.parametrize("name", ["a.txt", "big.bin"])
async def test_ranges(root: Path, name: str) -> None:
    whole = (root / name).read_bytes()
    size = len(whole)
    async with serving(configure(root)) as server:
        part = await server.get(f"/{name}", "Range: bytes=5-14")
        assert (part.status, part.body) == (206, whole[5:15])
        assert part.headers["content-range"] == f"bytes 5-14/{size}"
        tail = await server.get(f"/{name}", "Range: bytes=-7")
        assert tail.body == whole[-7:]
        beyond = await server.get(f"/{name}", f"Range: bytes={size}-")
        assert (beyond.status, beyond.headers["content-range"]) == (416, f"bytes */{size}")
        several = await server.get(f"/{name}", "Range: bytes=0-1, 10-11")
        kind = several.headers["content-type"]
        assert several.status == 206
        assert kind.startswith("multipart/byteranges; boundary=")
        boundary = kind.partition("boundary=")[2].encode()
        parts = several.body.split(b"--" + boundary)
        assert [p.partition(b"\r\n\r\n")[2].removesuffix(b"\r\n") for p in parts[1:3]] == [
            whole[0:2], whole[10:12],
        ]  # fmt: skip
        assert parts[3] == b"--\r\n"
        etag = part.headers["etag"]
        fresh = await server.get(f"/{name}", "Range: bytes=0-0", f"If-Range: {etag}")
        stale = await server.get(f"/{name}", "Range: bytes=0-0", 'If-Range: "old"')
        assert statuses([fresh, stale]) == [206, 200]


async def test_types_are_ours_whatever_the_host_says(root: Path) -> None:
    (root / "x.tar.gz").write_bytes(b"\x1f\x8b")
    (root / "x.odd").write_bytes(b"x")
    async with serving(configure(root, site={"types": {".odd": "x/odd"}})) as server:
        assert (await server.get("/")).headers["content-type"] == "text/html; charset=utf-8"
        archive = await server.get("/x.tar.gz")
        assert archive.headers["content-type"] == "application/gzip"
        assert "content-encoding" not in archive.headers
        assert (await server.get("/x.odd")).headers["content-type"] == "x/odd"
        assert (await server.get("/big.bin")).headers["content-type"] == "application/octet-stream"


async def test_a_directory_gets_its_slash_on_this_very_host(root: Path) -> None:
    (root / "evil.example").mkdir()
    (root / "a b\r\nX: y").mkdir()
    async with serving(configure(root)) as server:
        moved = await server.get("/sub?q=1")
        assert (moved.status, moved.headers["location"]) == (301, "/sub/?q=1")
        moved = await server.get("//evil.example")
        assert (moved.status, moved.headers["location"]) == (301, "/evil.example/")
        odd = await server.get("/a%20b%0d%0aX:%20y")
        assert odd.status in (400, 404)
        assert "x" not in odd.headers


async def test_dotfiles_are_not_there_unless_allowed(root: Path) -> None:
    async with serving(configure(root)) as server:
        assert (await server.get("/.secret")).status == 404
    async with serving(configure(root, site={"dotfiles": True})) as server:
        assert (await server.get("/.secret")).body == b"secret"


async def test_nothing_outside_the_root_by_a_symlink(root: Path, tmp_path: Path) -> None:
    (tmp_path / "outside.txt").write_bytes(b"outside")
    (root / "escape.txt").symlink_to(tmp_path / "outside.txt")
    (root / "inside.txt").symlink_to("a.txt")
    (root / "absolute.txt").symlink_to(root / "a.txt")
    (root / "index.html.gz").symlink_to(tmp_path / "outside.txt")
    async with serving(configure(root)) as server:
        assert (await server.get("/escape.txt")).status == 404
        assert (await server.get("/inside.txt")).status == 200
        assert (await server.get("/absolute.txt")).status == 200
        assert (await server.get("/", "Accept-Encoding: gzip")).body == HELLO
    async with serving(configure(root, site={"symlinks": "follow"})) as server:
        assert (await server.get("/escape.txt")).body == b"outside"
    async with serving(configure(root, site={"symlinks": "never"})) as server:
        assert (await server.get("/inside.txt")).status == 404


async def test_a_sites_own_error_page_keeps_the_status(root: Path) -> None:
    (root / "404.html").write_bytes(b"not here, friend")
    async with serving(configure(root, site={"error_pages": {"404": "/404.html"}})) as server:
        answer = await server.get("/none")
        assert (answer.status, answer.body) == (404, b"not here, friend")


@pytest.mark.usefixtures("settled_root")
async def test_configured_fields_are_on_200_206_and_304(root: Path) -> None:
    async with serving(
        configure(root, site={"headers": {"Cache-Control": "max-age=60"}})
    ) as server:
        full = await server.get("/")
        part = await server.get("/", "Range: bytes=0-1")
        same = await server.get("/", f"If-None-Match: {full.headers['etag']}")
        assert statuses([full, part, same]) == [200, 206, 304]
        for answer in (full, part, same):
            assert answer.headers["cache-control"] == "max-age=60"


async def test_sidecars_are_honoured_by_weight_and_never_older_than_their_source(
    root: Path,
) -> None:
    packed = gzip.compress(HELLO)
    (root / "index.html.gz").write_bytes(packed)
    async with serving(configure(root)) as server:
        coded = await server.get("/", "Accept-Encoding: br;q=0, gzip;q=0.5")
        assert (coded.headers["content-encoding"], coded.body) == ("gzip", packed)
        plain = await server.get("/", "Accept-Encoding: gzip;q=0")
        assert plain.body == HELLO
        assert plain.headers["vary"] == coded.headers["vary"] == "Accept-Encoding"
        assert plain.headers["etag"] != coded.headers["etag"]
        part = await server.get("/", "Accept-Encoding: gzip", "Range: bytes=0-1")
        assert (part.status, part.body) == (206, packed[:2])
        refused = await server.get("/", "Accept-Encoding: identity;q=0, br")
        assert refused.status == 406
    os.utime(root / "index.html.gz", (1, 1))
    async with serving(configure(root)) as server:
        assert (await server.get("/", "Accept-Encoding: gzip")).body == HELLO


async def test_dates_are_of_the_file_and_of_now(root: Path) -> None:
    os.utime(root / "a.txt", (1_000_000_000, 1_000_000_000))
    async with serving(configure(root)) as server:
        answer = await server.get("/a.txt")
        assert answer.headers["last-modified"] == formatdate(1_000_000_000, usegmt=True)
        assert answer.headers["date"] == formatdate(server.worker.epoch.now, usegmt=True)
