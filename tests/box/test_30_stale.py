"""No stale octet: after a change on disk the old answer is gone within the stated bound.

A client asks over one connection without pause, so that the express lane has the answer
hot when the change comes. With inotify at work nothing asked for 100 ms after the change
may get the old answer; where inotify is off or blind, nothing asked for `stale_bound`
(2 s) after it. A round in which a single answer took long (this machine was busy with
something else) proves nothing about the server, and is repeated.
"""

from __future__ import annotations

import gzip
import itertools
import mmap
import os
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from tests.box.conftest import Box, Start, running

pytestmark = [pytest.mark.slow, pytest.mark.alone]  # a tenth of a second is at stake

HEARD = 0.1
BOUND = 2.0
OBJECT = 1000  # larger files are sent from their descriptor

Seen = tuple[int, bytes]


def write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def replace(path: Path, content: bytes) -> None:
    """As editors and deploy tools do it: a new file under the old name, at once."""
    write(path.with_name("new"), content)
    path.with_name("new").rename(path)


def link(path: Path, target: str) -> None:
    """Make `path` a symlink to `target`, at once, whatever it was before."""
    path.with_name("new").symlink_to(target)
    path.with_name("new").rename(path)


def edit_unseen(path: Path) -> None:
    """The same length and the same mtime as before."""
    before = path.stat()
    path.write_bytes(b"new")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def swap_directories(directory: Path) -> None:
    (directory / "dir").rename(directory / "old")
    (directory / "next").rename(directory / "dir")


@dataclass(frozen=True)
class Change:
    """Something that happens below a directory; asked for is `path`, which must change."""

    name: str
    prepare: Callable[[Path], object]
    apply: Callable[[Path], object]
    new: Seen
    path: str = "f"
    fields: str = ""

    def __str__(self) -> str:
        return self.name


def two_directories(d: Path, first: str, second: str) -> None:
    write(d / first / "f", b"old")
    write(d / second / "f", b"new")


def plain(d: Path) -> None:
    write(d / "f", b"old")


def large(d: Path) -> None:
    write(d / "f", b"old" * OBJECT)


def linked(d: Path) -> None:
    write(d / "target" / "t", b"old")
    link(d / "f", "target/t")


def versions(d: Path) -> None:
    two_directories(d, "v1", "v2")
    link(d / "current", "v1")


def packed(d: Path) -> None:
    write(d / "f.txt", b"plain")
    write(d / "f.txt.gz", gzip.compress(b"old"))


NEW = gzip.compress(b"new", mtime=0)

CHANGES = [
    Change("edit", plain, lambda d: write(d / "f", b"newer"), (200, b"newer")),
    Change("edit-of-equal-size-and-mtime", plain, lambda d: edit_unseen(d / "f"), (200, b"new")),
    Change("truncation", plain, lambda d: os.truncate(d / "f", 1), (200, b"o")),
    Change("truncation-to-nothing", plain, lambda d: os.truncate(d / "f", 0), (200, b"")),
    Change("growth", plain, lambda d: os.truncate(d / "f", 5), (200, b"old\0\0")),
    Change("replacement", plain, lambda d: replace(d / "f", b"new"), (200, b"new")),
    Change("large-edit", large, lambda d: write(d / "f", b"n" * 3000), (200, b"n" * 3000)),
    Change("large-replacement", large, lambda d: replace(d / "f", b"new"), (200, b"new")),
    Change("rename-away", plain, lambda d: (d / "f").rename(d / "g"), (404, b"")),
    Change("deletion", plain, lambda d: (d / "f").unlink(), (404, b"")),
    Change("creation", lambda d: d.mkdir(), plain, (200, b"old")),
    Change("creation-of-directories", lambda d: None, plain, (200, b"old")),
    Change("creation-of-an-index", lambda d: d.mkdir(),
           lambda d: write(d / "index.html", b"new"), (200, b"new"), ""),
    Change("symlink-flip", lambda d: (plain(d), write(d / "g", b"new"), link(d / "l", "f")),
           lambda d: link(d / "l", "g"), (200, b"new"), "l"),
    Change("symlink-flip-of-a-directory", versions, lambda d: link(d / "current", "v2"),
           (200, b"new"), "current/f"),
    Change("edit-behind-a-symlink", linked, lambda d: write(d / "target/t", b"new"), (200, b"new")),
    Change("replacement-behind-a-symlink", linked, lambda d: replace(d / "target/t", b"new"),
           (200, b"new")),
    Change("directory-swap", lambda d: two_directories(d, "dir", "next"), swap_directories,
           (200, b"new"), "dir/f"),
    Change("directory-removal", plain, shutil.rmtree, (404, b"")),
    Change("sidecar-appears", lambda d: write(d / "f.txt", b"plain"),
           lambda d: write(d / "f.txt.gz", NEW), (200, NEW), "f.txt", "Accept-Encoding: gzip\r\n"),
    Change("sidecar-edit", packed, lambda d: replace(d / "f.txt.gz", NEW), (200, NEW), "f.txt",
           "Accept-Encoding: gzip\r\n"),
]  # fmt: skip


class Poller:
    """Asks for the same again and again over one connection."""

    def __init__(self, box: Box, target: str, fields: str = "") -> None:
        self._sock = box.connect()
        self._request = f"GET {target} HTTP/1.1\r\nHost: x\r\n{fields}\r\n".encode()

    def ask(self) -> Seen:
        """Status and body; no body of answers that are not 200."""
        self._sock.sendall(self._request)
        octets = self._sock.recv(65536)
        head, _, body = octets.partition(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
        while len(body) < length:
            body += self._sock.recv(65536)
        status = int(head[9:12])
        return status, body if status == 200 else b""

    def close(self) -> None:
        self._sock.close()


@dataclass(frozen=True)
class Round:
    """What was seen of one change: the latest instant, in seconds after it, at which the
    old answer was still asked for and got; and the longest that any answer took."""

    stale: float
    longest: float
    last: Seen


def poll(pollers: list[Poller], change: Callable[[], object], seconds: float) -> list[Round]:
    """Warm up, change, and go on for `seconds`."""
    hot_until = time.monotonic() + 0.2
    old = []
    while time.monotonic() < hot_until:
        old = [poller.ask() for poller in pollers]
    change()
    changed = time.monotonic()
    stale, last = [0.0] * len(pollers), old
    longest = 0.0
    while (asked := time.monotonic()) < changed + seconds:
        last = [poller.ask() for poller in pollers]
        longest = max(longest, time.monotonic() - asked)
        for number, (before, now) in enumerate(zip(old, last, strict=True)):
            if before == now:
                stale[number] = asked - changed
    return [Round(s, longest, now) for s, now in zip(stale, last, strict=True)]


def configure(where: Path, root: Path, engine: str) -> Path:
    config = where / "edgebox.toml"
    config.write_text(
        f'[server]\nlisten = ["127.0.0.1:0"]\n[limits]\nkeep_alive_requests = 10000000\n'
        f'[files]\nstat_cache = "{engine}"\nobject_size = {OBJECT}\n'
        f'[compression]\nenabled = false\nsidecars = true\n[[site]]\nroot = "{root}"\n'
    )
    return config


@pytest.fixture(scope="module")
def docroot(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("stale")


@pytest.fixture(scope="module", params=["inotify", "off"])
def box(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, docroot: Path
) -> Iterator[tuple[Box, float]]:
    """One box for all changes, which happen in directories of their own; and its promise."""
    config = configure(tmp_path_factory.mktemp("config"), docroot, request.param)
    with running("-c", str(config)) as box:
        yield box, {"inotify": HEARD, "off": 0.0}[request.param]


numbers = itertools.count()


@pytest.mark.parametrize("change", CHANGES, ids=str)
def test_the_old_is_gone_at_once(box: tuple[Box, float], docroot: Path, change: Change) -> None:
    """Within 100 ms with inotify, without any delay where each request looks."""
    for _ in range(10):
        directory = docroot / f"{change}-{next(numbers)}"
        change.prepare(directory)
        poller = Poller(box[0], f"/{directory.name}/{change.path}", change.fields)
        (seen,) = poll([poller], partial(change.apply, directory), HEARD + 0.15)
        poller.close()
        assert seen.last == change.new
        if seen.longest < HEARD / 2:
            assert seen.stale <= box[1]
            return
    pytest.fail("this machine never answered in time: nothing can be said")


def test_without_inotify_the_old_is_gone_within_the_bound(start: Start, tmp_path: Path) -> None:
    root = tmp_path / "www"
    root.mkdir()
    box = start("-c", str(configure(tmp_path, root, "ttl")))
    for change in CHANGES:
        change.prepare(root / change.name)
    pollers = [Poller(box, f"/{c.name}/{c.path}", c.fields) for c in CHANGES]
    rounds = poll(pollers, lambda: [c.apply(root / c.name) for c in CHANGES], BOUND + 0.5)
    for poller in pollers:
        poller.close()
    for change, seen in zip(CHANGES, rounds, strict=True):
        assert seen.last == change.new, change
        assert seen.stale <= BOUND, change


def test_a_flip_of_the_docroot_is_seen(start: Start, tmp_path: Path) -> None:
    """A deploy: the root is a symlink, and points to the next release."""
    two_directories(tmp_path, "releases/1", "releases/2")
    link(tmp_path / "current", "releases/1")
    box = start("-c", str(configure(tmp_path, tmp_path / "current", "inotify")))
    poller = Poller(box, "/f")
    for release in itertools.cycle("21"):
        flip = partial(link, tmp_path / "current", f"releases/{release}")
        (seen,) = poll([poller], flip, HEARD + 0.15)
        assert seen.last == (200, {"1": b"old", "2": b"new"}[release])
        if seen.longest < HEARD / 2:
            assert seen.stale <= HEARD
            break
    poller.close()


def test_where_inotify_is_blind_the_bound_holds(start: Start, tmp_path: Path) -> None:
    """Writes through another hard link or a mapping make no event in the directory."""
    root = tmp_path / "www"
    for name in ("linked", "mapped"):
        write(root / name / "f", b"old" * 10)
    os.link(root / "linked" / "f", tmp_path / "elsewhere")
    box = start("-c", str(configure(tmp_path, root, "inotify")))

    def change() -> None:
        (tmp_path / "elsewhere").write_bytes(b"new" * 10)
        with (root / "mapped" / "f").open("r+b") as file, mmap.mmap(file.fileno(), 0) as memory:
            memory[:] = b"new" * 10

    pollers = [Poller(box, f"/{name}/f") for name in ("linked", "mapped")]
    rounds = poll(pollers, change, BOUND + 0.5)
    for poller in pollers:
        poller.close()
    for seen in rounds:
        assert seen.last == (200, b"new" * 10)
        assert seen.stale <= BOUND
