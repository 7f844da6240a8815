"""The disk tier of a whole edgebox: what outlives it, what never comes back, what it costs."""

from __future__ import annotations

import os
import random
import signal
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import shake_128
from http.client import HTTPException
from pathlib import Path

import pytest

from tests.box.apps.counting import CountingApp, QuietHandler
from tests.box.conftest import Before, Box, Reply, Start, children_of, wait_until
from tests.box.conftest import ask as ask_box

pytestmark = pytest.mark.slow

MIB = 1024 * 1024
LARGE = 30 * MIB
KILLS = 100


def body_of(path: str, size: int) -> bytes:
    """`size` octets that only this path has."""
    return shake_128(path.encode()).digest(min(size, MIB)) * -(-size // MIB)


class App(CountingApp):
    """Answers /SIZE/NAME with so many octets, fresh for an hour; `asked` counts by path.

    Tags are what follows a "+" in the name. POST is answered with 204.
    """

    salt = ""

    def __init__(self) -> None:
        super().__init__(Handler)


class Handler(QuietHandler):
    server: App

    def do_GET(self) -> None:
        self.server.asked[self.path] += 1
        size = int(self.path.split("/")[1])
        self.send_response(200)
        self.send_header("Cache-Control", "max-age=3600")
        self.send_header("ETag", f'"{self.path}"')
        self.send_header("Surrogate-Key", self.path.partition("+")[2] or "none")
        self.send_header("Content-Length", str(size))
        self.end_headers()
        self.wfile.write(body_of(self.path + self.server.salt, size)[:size])

    def do_POST(self) -> None:
        self.send_response(204)
        self.end_headers()

    def handle(self) -> None:
        with suppress(OSError):  # the box was killed
            super().handle()


@contextmanager
def serving(app: App) -> Iterator[App]:
    thread = threading.Thread(target=app.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield app
    app.shutdown()
    thread.join()
    app.server_close()


@pytest.fixture
def app() -> Iterator[App]:
    with serving(App()) as app:
        yield app


class Another(App):
    """What else may be behind the same names: other octets for the same paths."""

    salt = "of another app"


@pytest.fixture
def another() -> Iterator[App]:
    with serving(Another()) as app:
        yield app


def ask(box: Box, path: str, method: str = "GET", **headers: str) -> Reply:
    """One request to the same site, on whatever port it is this time."""
    return ask_box(box, path, method, host="example.com", **headers)


def stop(box: Box, how: signal.Signals = signal.SIGTERM) -> None:
    """All its processes at once, where they are killed: the workers first, who write."""
    if how is signal.SIGKILL:
        for worker in children_of(box.process.pid):
            with suppress(ProcessLookupError):
                os.kill(worker, how)
    box.signal(how)
    box.wait()


def is_hit(reply: Reply) -> bool:
    return "hit" in reply.headers["cache-status"].split("; ")


def on_disk(cache: Path) -> int:
    """Named files below the directory of answers."""
    return sum(1 for path in (cache / "responses" / "objects").rglob("*") if path.is_file())


def test_an_answer_survives_a_restart_and_grows_old_meanwhile(
    app: App, before: Before, tmp_path: Path
) -> None:
    box = before(app.url)
    begun = time.time()
    first = ask(box, "/1000/a")
    wait_until(lambda: on_disk(tmp_path / "cache") == 1)
    stop(box)
    time.sleep(1.1)
    box = before(app.url)
    again = ask(box, "/1000/a")
    assert is_hit(again)
    assert again.body == first.body == body_of("/1000/a", 1000)[:1000]
    assert 1 <= int(again.headers["age"]) <= time.time() - begun + 1
    assert app.asked["/1000/a"] == 1


def wait_stored(box: Box, path: str) -> None:
    """A client does not wait longer than two seconds for a slow disk to take its answer up."""
    wait_until(lambda: is_hit(ask(box, path, "HEAD", cache_control="only-if-cached")))


def test_what_is_larger_than_ram_takes_streams_and_then_comes_from_disk(
    app: App, before: Before
) -> None:
    path, box = f"/{LARGE}/large", before(app.url)
    whole = body_of(path, LARGE)
    first = ask(box, path)
    assert (first.body == whole, is_hit(first)) == (True, False)
    for restarts in (False, True):
        if restarts:
            stop(box)
            box = before(app.url)
        wait_stored(box, path)
        again = ask(box, path)
        assert (again.body == whole, is_hit(again)) == (True, True)
        part = ask(box, path, range=f"bytes={5 * MIB + 3}-{6 * MIB}")
        assert (part.status, is_hit(part)) == (206, True)
        assert part.headers["content-range"] == f"bytes {5 * MIB + 3}-{6 * MIB}/{LARGE}"
        assert part.body == whole[5 * MIB + 3 : 6 * MIB + 1]
        assert ask(box, path, if_none_match=f'"{path}"').status == 304
        head = ask(box, path, "HEAD")
        assert (head.headers["content-length"], head.body) == (str(LARGE), b"")
    assert app.asked[path] == 1
    assert box.peak_memory() < 200 * MIB


@pytest.mark.parametrize("size", [1000, 2 * MIB])
def test_a_purge_reaches_the_disk_and_holds_after_a_restart(
    app: App, before: Before, tmp_path: Path, size: int
) -> None:
    gone, tagged, posted, stays = (f"/{size}/{name}" for name in ("a", "b+t", "c", "d"))
    box = before(app.url)
    for path in (gone, tagged, posted, stays):
        ask(box, path)
    wait_until(lambda: on_disk(tmp_path / "cache") == 4)
    stop(box)
    box = before(app.url)
    assert ask(box, gone, "PURGE").status == 200
    assert ask(box, "/", "PURGE", surrogate_key="t").status == 200
    assert ask(box, posted, "POST").status == 204
    stop(box, signal.SIGKILL)
    box = before(app.url)
    assert [is_hit(ask(box, path)) for path in (gone, tagged, posted, stays)] == [False] * 3 + [
        True
    ]


@pytest.mark.timeout(900)  # a hundred boxes, a second or two each
def test_a_box_that_is_killed_a_hundred_times_while_it_stores_never_gives_a_wrong_octet(
    app: App, before: Before
) -> None:
    chance = random.Random(9111)
    stored: list[str] = []
    hits = 0

    def is_right(box: Box, path: str) -> bool:
        """Asserts that it is; whether the cache had it."""
        reply = ask(box, path)
        size = int(path.split("/")[1])
        assert reply.body == body_of(path, size)[:size], path
        return is_hit(reply)

    for number in range(KILLS):
        box = before(app.url)
        hits += sum(is_right(box, path) for path in stored[-4:])
        new = [f"/{size}/{number}" for size in (500, 70_000, 900_000, 2 * MIB)]
        lost = threading.Event()

        def visit(paths: list[str], box: Box = box, lost: threading.Event = lost) -> None:
            with suppress(OSError, HTTPException):
                while not lost.is_set():
                    for path in paths:
                        ask(box, path)

        visitors = [
            threading.Thread(target=visit, args=(new[first:] + new[:first],)) for first in range(4)
        ]
        for visitor in visitors:
            visitor.start()
        time.sleep(chance.uniform(0.005, 0.1))  # while the answers come and are written
        stop(box, signal.SIGKILL)
        lost.set()
        for visitor in visitors:
            visitor.join()
        stored += new
    box = before(app.url)
    hits += sum(is_right(box, path) for path in stored)
    assert KILLS < hits < 2 * len(stored), "all kills were too early, or all too late"


@pytest.mark.parametrize("kind", ["unwritable", "no directory"])
def test_a_directory_that_cannot_be_used_is_warned_of_once(
    app: App, before: Before, start: Start, tmp_path: Path, kind: str
) -> None:
    directory = tmp_path / "answers"
    if kind == "unwritable":
        directory.mkdir(0o500)
    else:
        directory.write_text("a file")
    stop(before(app.url, cache={"dir": ""}))
    file = tmp_path / "edgebox.toml"
    file.write_text(file.read_text().replace('dir = ""', f'dir = "{directory}"'))
    box = start("-c", str(file), unprivileged=True)
    for number in range(5):
        assert not is_hit(ask(box, f"/1000/{number}"))
        assert is_hit(ask(box, f"/1000/{number}"))
        assert len(ask(box, f"/{3 * MIB}/{number}").body) == 3 * MIB
    warnings = [
        line for line in (tmp_path / "error.log").read_text().splitlines() if "warning" in line
    ]
    assert len(warnings) == 1, warnings


def test_a_box_without_upstreams_makes_no_directory_for_answers(
    start: Start, tmp_path: Path
) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (root / "a.txt").write_text("a")
    box = start("--root", str(root))
    assert ask(box, "/a.txt").body == b"a"
    assert not (tmp_path / "cache" / "responses").exists()


def test_a_client_that_leaves_a_large_answer_leaves_no_descriptor(app: App, before: Before) -> None:
    path, box = f"/{LARGE}/left", before(app.url)
    ask(box, path)
    ask(box, path)
    descriptors = box.descriptors()
    for _ in range(5):
        with socket.create_connection(("127.0.0.1", box.port)) as client:
            client.sendall(f"GET {path} HTTP/1.1\r\nHost: example.com\r\n\r\n".encode())
            assert client.recv(1000)
    wait_until(lambda: len(box.descriptors()) <= len(descriptors))


@pytest.mark.parametrize("size", [1000, 2 * MIB])
def test_boxes_that_share_a_directory_never_get_the_answers_of_each_others_apps(
    app: App, another: App, start: Start, tmp_path: Path, size: int
) -> None:
    path, cache = f"/{size}/a", tmp_path / "cache"
    one = start("--upstream", app.url)
    assert ask(one, path).body == body_of(path, size)[:size]
    wait_until(lambda: on_disk(cache) == 1)
    other = start("--upstream", another.url)
    for box, salt in ((other, another.salt), (one, app.salt)) * 2:
        assert ask(box, path).body == body_of(path + salt, size)[:size]
    stop(one)
    stop(other)
    for url, salt in ((app.url, app.salt), (another.url, another.salt)):
        assert ask(start("--upstream", url), path).body == body_of(path + salt, size)[:size]


def test_boxes_before_the_same_app_share_what_they_store(
    app: App, start: Start, tmp_path: Path
) -> None:
    first, second = start("--upstream", app.url), start("--upstream", app.url)
    ask(first, "/1000/a")
    wait_until(lambda: on_disk(tmp_path / "cache") == 1)
    assert is_hit(ask(second, "/1000/a"))
    assert app.asked["/1000/a"] == 1


def test_a_pool_keeps_its_answers_while_it_grows_and_loses_them_to_another(
    app: App, another: App, before: Before, tmp_path: Path
) -> None:
    stop(seen_by(before(app.url), tmp_path))
    grown = before(app.url, "http://127.0.0.1:9")
    assert is_hit(ask(grown, "/1000/a"))
    stop(grown)
    moved = before(another.url)
    reply = ask(moved, "/1000/a")
    assert (is_hit(reply), another.asked["/1000/a"]) == (False, 1)
    assert reply.body == body_of("/1000/a" + another.salt, 1000)[:1000]


def test_another_host_field_is_another_page(app: App, before: Before, tmp_path: Path) -> None:
    """The app may answer by it, whatever the client has asked for."""
    stop(seen_by(before(app.url), tmp_path))
    assert not is_hit(ask(before(app.url, route={"host": "upstream"}), "/1000/a"))


def seen_by(box: Box, directory: Path) -> Box:
    """The same box, with one answer on disk."""
    ask(box, "/1000/a")
    wait_until(lambda: on_disk(directory / "cache") == 1)
    return box
