"""Hostile paths: nothing outside the docroot is served, and nothing but regular files.

The numbers are those of the project's list of fault classes. Each path is asked for
several times, so that what the express lane remembers is put to the test as well.
"""

from __future__ import annotations

import gzip
import itertools
import os
import random
import re
import socket
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import pytest
import trio

from tests.box.conftest import Arena, Start, ask
from tests.wire import PATIENCE, Answer, Server, request

SECRET = b"root:x:0:0: not for the world"


@pytest.fixture(autouse=True)
def secret(root: Path) -> Path:
    """A file beside the docroot that must never be seen."""
    path = root.parent / "secret.txt"
    path.write_bytes(SECRET)
    return path


async def insist(server: Server, target: str, *fields: str) -> Answer:
    """The answer to a request made three times on one connection: the same each time."""
    async with server.connect() as client:
        answers = []
        for _ in range(3):
            await client.send(request(target, *fields))
            answers.append(await client.read_answer())
            if "close" in answers[-1].headers.get("connection", ""):
                break
    assert len({(a.status, a.body) for a in answers}) == 1
    assert SECRET not in answers[0].body
    return answers[0]


@dataclass(frozen=True)
class NotServed:
    """Targets of one class, none of which leads to a file."""

    number: int
    name: str
    targets: tuple[str, ...]
    statuses: tuple[int, ...] = (400, 404)

    def __str__(self) -> str:
        return f"{self.number:02}-{self.name}"


TABLE = [
    NotServed(23, "dot-segments", (
        "/../secret.txt", "/..", "/../", "/sub/../../secret.txt", "/%2e%2e/secret.txt",
        "/.%2e/secret.txt", "/%2E%2E/secret.txt", "/..%2fsecret.txt", "/%2e%2e%2fsecret.txt",
        "/sub%2f..%2f..%2fsecret.txt", "/%252e%252e/secret.txt", "/%252e%252e%252fsecret.txt",
        "/..\\secret.txt", "/..%5csecret.txt", "/%c0%ae%c0%ae/secret.txt", "/..;/secret.txt",
        "/.../secret.txt", "/..%00/secret.txt", "/sub/..%2f..%2fsecret.txt", "/%2e./secret.txt",
        "http://x/../secret.txt", "/a.txt/../../secret.txt", "/..%ff/secret.txt",
    )),
    NotServed(24, "controls", tuple(
        f"/a.txt%{octet}{rest}" for octet in ("00", "01", "09", "0a", "0d", "1f", "7f")
        for rest in ("", ".html", "/index.html")
    )),
    NotServed(25, "absolute-join", (
        "//etc/passwd", "///etc/passwd", "/%2fetc/passwd", "/%2Fetc%2Fpasswd", "//etc//passwd",
        "/./etc/passwd", "file:///etc/passwd", "/C:/windows/win.ini", "/~root/", "/proc/self/maps",
    )),
    NotServed(31, "names-that-cannot-be", (
        "/" + "n" * 256, "/" + "n" * 5000, "/" + "d/" * 2000 + "f", "/a.txt/", "/a.txt/b",
        "/a.txt/../b", "/index.html/index.html", "/loop", "/loop/x", "/sub/none/",
    ), (404,)),
]  # fmt: skip


@pytest.mark.parametrize("paths", TABLE, ids=str)
async def test_it_leads_nowhere(arena: Arena, root: Path, paths: NotServed) -> None:
    (root / "loop").symlink_to("loop")
    async with arena() as server:
        for target in paths.targets:
            assert (await insist(server, target)).status in paths.statuses, target


async def test_23_a_path_is_decoded_exactly_once(arena: Arena, root: Path) -> None:
    (root / "%41.txt").write_bytes(b"percent")
    (root / "A.txt").write_bytes(b"letter")
    (root / "\udcff.txt").write_bytes(b"not UTF-8")
    async with arena() as server:
        assert (await insist(server, "/%2541.txt")).body == b"percent"
        assert (await insist(server, "/%41.txt")).body == b"letter"
        assert (await insist(server, "/%ff.txt")).body == b"not UTF-8"
        assert (await insist(server, "/sub/%2e%2e/./A.txt")).body == b"letter"


async def test_25_empty_segments_are_no_way_out(arena: Arena, root: Path) -> None:
    async with arena() as server:
        assert (await insist(server, "//a.txt")).body == (root / "a.txt").read_bytes()
        assert (await insist(server, "//sub///index.html")).body == b"sub"


async def test_26_symlinks_stay_below_the_root(arena: Arena, root: Path, secret: Path) -> None:
    outside = root.parent / "outside"
    outside.mkdir()
    (outside / "index.html").write_bytes(SECRET)
    links = {
        "relative": "../secret.txt", "absolute": str(secret), "directory": "../outside",
        "twice": "relative", "sub/up": "../../secret.txt", "by-way-of-out": "../www/../secret.txt",
        "proc": "/proc/self/root/etc/passwd",
    }  # fmt: skip
    for name, target in links.items():
        (root / name).symlink_to(target)
    (root / "linked-index").mkdir()
    (root / "linked-index" / "index.html").symlink_to("../../secret.txt")
    (root / "within").symlink_to("sub/../a.txt")
    (root / "within-absolute").symlink_to(root / "a.txt")
    (root / "out-and-in").symlink_to("../outside/../www/a.txt")  # the end is what counts
    async with arena(site={"error_pages": {"404": "/relative"}}) as server:
        for target in (*links, "directory/", "directory/index.html", "linked-index/"):
            assert (await insist(server, f"/{target}")).status == 404, target
        for target in ("within", "within-absolute", "out-and-in"):
            assert (await insist(server, f"/{target}")).body == (root / "a.txt").read_bytes()


@pytest.mark.parametrize("policy", ["within-root", "never"])
async def test_26_a_sidecar_is_under_the_same_policy(arena: Arena, root: Path, policy: str) -> None:
    packed = root.parent / "secret.gz"
    packed.write_bytes(gzip.compress(SECRET))
    (root / "a.txt.gz").symlink_to(packed)
    async with arena(site={"symlinks": policy}) as server:
        answer = await insist(server, "/a.txt", "Accept-Encoding: gzip")
        assert (answer.status, answer.body) == (200, (root / "a.txt").read_bytes())
        assert "content-encoding" not in answer.headers


async def test_26_never_means_not_even_within(arena: Arena, root: Path) -> None:
    (root / "file").symlink_to("a.txt")
    (root / "directory").symlink_to("sub")
    async with arena(site={"symlinks": "never"}) as server:
        for target in ("/file", "/directory/", "/directory/index.html"):
            assert (await insist(server, target)).status == 404, target


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["inotify", "off"])
async def test_27_length_tag_and_octets_are_of_one_file(
    arena: Arena, root: Path, engine: str
) -> None:
    """Two files take turns under one name all the while, one of them too large for RAM."""
    sources = (root.parent / "short", root.parent / "long")
    for source, content in zip(sources, (b"short" * 20, b"longer" * 5000), strict=True):
        source.write_bytes(content)
    contents = {source.read_bytes() for source in sources}
    os.link(sources[0], root / "turn.txt")
    over = threading.Event()
    pause = random.Random(27)

    def swap() -> None:
        for source in itertools.cycle(reversed(sources)):
            os.link(source, root / "next")
            os.rename(root / "next", root / "turn.txt")
            if over.wait(pause.uniform(0, 0.002)):  # in no step with the requests
                return

    seen: dict[str, bytes] = {}
    async with arena(files={"stat_cache": engine, "object_size": 1000}) as server:
        async with server.connect() as client, trio.open_nursery() as nursery:
            nursery.start_soon(trio.to_thread.run_sync, swap)
            try:
                with trio.fail_after(PATIENCE):
                    while len(seen) < 60 or set(seen.values()) != contents:
                        await client.send(request("/turn.txt"))
                        answer = await client.read_answer()
                        assert answer.body in contents
                        assert int(answer.headers["content-length"]) == len(answer.body)
                        assert seen.setdefault(answer.headers["etag"], answer.body) == answer.body
            finally:
                over.set()


async def test_28_only_regular_files_are_served(arena: Arena, root: Path) -> None:
    os.mkfifo(root / "fifo")
    (root / "device").symlink_to("/dev/zero")
    (root / "terminal").symlink_to("/dev/tty")
    with socket.socket(socket.AF_UNIX) as listener:
        where = os.open(root, os.O_PATH)  # the path itself may be too long for an address
        listener.bind(f"/proc/self/fd/{where}/socket")
        os.close(where)
        async with arena(site={"symlinks": "follow"}) as server:
            for target in ("/fifo", "/device", "/terminal", "/socket", "/fifo/"):
                with trio.fail_after(PATIENCE):
                    assert (await insist(server, target)).status == 404, target


async def test_29_a_redirect_never_names_another_host(arena: Arena, root: Path) -> None:
    (root / "evil.com").mkdir()
    async with arena() as server:
        for target in ("//evil.com", "///evil.com", "/./evil.com", "//sub/..//evil.com"):
            answer = await insist(server, target)
            assert answer.status == 301, target
            assert answer.headers["location"] == "/evil.com/", target
        for target in ("/\\evil.com", "/%5cevil.com", "/%2fevil.com"):
            assert (await insist(server, target)).status in (400, 404)


async def test_30_nothing_of_a_target_breaks_out_of_location(arena: Arena, root: Path) -> None:
    for name in ("a\r\nSet-Cookie: b=c", 'odd <"&\x27> name', "\udcff", "100%"):
        (root / name).mkdir()
    async with arena() as server:
        refused = await insist(server, "/a%0d%0aSet-Cookie:%20b=c")
        assert refused.status == 400
        assert "set-cookie" not in refused.headers
        for target, location in [
            ("/odd%20%3C%22%26%27%3E%20name", "/odd%20%3C%22&'%3E%20name/"),
            ("/%ff", "/%FF/"),
            ("/100%25", "/100%25/"),
            ("/sub?a=%0d%0aSet-Cookie:b", "/sub/?a=%0d%0aSet-Cookie:b"),
            ("/sub?<script>", "/sub/?<script>"),
            ("/sub?", "/sub/?"),
        ]:
            answer = await insist(server, target)
            assert (answer.status, answer.headers["location"]) == (301, location)
            assert b"<script>" not in answer.body
            assert b'<"' not in answer.body


@pytest.mark.slow
def test_31_what_may_not_be_read_is_403(start: Start, root: Path) -> None:
    (root / "a.txt").chmod(0)
    (root / "sub").chmod(0)
    (root / "closed").mkdir()
    (root / "closed" / "index.html").touch(mode=0)
    box = start("--root", str(root), unprivileged=True)
    try:
        for path in ("/a.txt", "/sub/index.html", "/a.txt", "/sub/", "/closed/"):
            assert ask(box, path).status == 403, path
        assert ask(box, "/").status == 200
        (root / "a.txt").chmod(0o644)  # a change of mode is a change, too
        deadline = time.monotonic() + PATIENCE
        while ask(box, "/a.txt").status != 200:
            assert time.monotonic() < deadline
    finally:
        (root / "sub").chmod(0o755)


def test_no_class_of_this_section_is_missing() -> None:
    special = {int(found[1]) for name in globals() if (found := re.match(r"test_(\d\d)_", name))}
    assert special | {paths.number for paths in TABLE} == set(range(23, 32))
