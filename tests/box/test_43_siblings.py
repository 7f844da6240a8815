"""Several workers are one cache to the app: it is asked once, and nobody waits for the end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial

import pytest

from tests.box.apps.counting import CountingApp, QuietHandler
from tests.box.conftest import Before, Box, Reply, ask, wait_until

pytestmark = pytest.mark.slow

CLIENTS = 40
PATIENCE = 20


class App(CountingApp):
    """Answers /KIND/SIZE/NAME when it may: `thinking` until then, `halting` with half of it out.

    Each answer is another, and says so at both ends.
    """

    request_queue_size = 4 * CLIENTS

    def __init__(self) -> None:
        super().__init__(Handler)
        self.may_begin, self.may_end = threading.Event(), threading.Event()
        self.may_end.set()
        self.number = 0


class Handler(QuietHandler):
    server: App

    def do_GET(self) -> None:
        app = self.server
        _, kind, size, _ = self.path.split("/")
        app.asked[self.path] += 1
        app.number += 1
        name = b"%08d" % app.number
        body = name + b"x" * (int(size) - 16) + name
        assert app.may_begin.wait(PATIENCE)
        if self.headers.get("If-None-Match"):
            self.send_response(304)
            self.send_header("Cache-Control", kind)
            self.end_headers()
            return
        self.send_response(200)
        if "/tagged" in self.path:
            self.send_header("ETag", '"1"')
        self.send_header("Cache-Control", kind)
        self.send_header("Surrogate-Key", "some")
        self.send_header("Vary", "Accept-Language")
        self.send_header("Content-Language", self.headers.get("Accept-Language", "none"))
        self.send_header("Content-Length", size)
        self.end_headers()
        self.wfile.write(body[: len(body) // 2])
        assert app.may_end.wait(PATIENCE)
        self.wfile.write(body[len(body) // 2 :])

    def handle(self) -> None:
        with suppress(OSError):
            super().handle()


@pytest.fixture
def app() -> Iterator[App]:
    app = App()
    thread = threading.Thread(target=app.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield app
    app.may_begin.set()
    app.may_end.set()
    app.shutdown()
    thread.join()
    app.server_close()


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(CLIENTS) as pool:
        yield pool


def three(before: Before, app: App, **cache: str) -> Box:
    return before(app.url, cache=cache, options=("--workers", "3"))


@pytest.fixture(params=[{}, {"dir": ""}], ids=["disk", "ram"])
def box(request: pytest.FixtureRequest, before: Before, app: App) -> Box:
    """One with three workers, with a cache directory or without."""
    return three(before, app, **request.param)


def ask_all(box: Box, pool: ThreadPoolExecutor, path: str) -> list[Future[Reply]]:
    """Each on a connection of its own: so many that every worker gets some."""
    waiting = [pool.submit(ask, box, path) for _ in range(CLIENTS)]
    wait_until(lambda: sum(in_hand(box).values()) >= CLIENTS)
    assert all(in_hand(box).values()), "a worker got none"
    return waiting


def in_hand(box: Box) -> dict[int, int]:
    """Clients by worker whose request it has read, as the kernel sees it."""
    told = subprocess.run(
        ["ss", "-tnpiOH", "state", "established", f"( sport = :{box.port} )"],
        capture_output=True, text=True, check=True,
    ).stdout.splitlines()  # fmt: skip
    read = [line for line in told if "bytes_received:" in line and line.split()[0] == "0"]
    return {worker: sum(f"pid={worker}," in line for line in read) for worker in box.workers}


def test_all_workers_together_ask_once(box: Box, app: App, pool: ThreadPoolExecutor) -> None:
    path = "/max-age=60/449/a"
    waiting = ask_all(box, pool, path)
    app.may_begin.set()
    replies = [each.result(PATIENCE) for each in waiting]
    assert app.asked[path] == 1
    assert len({reply.body for reply in replies}) == 1
    said = [reply.headers["cache-status"] for reply in replies]
    assert sum("collapsed" in each for each in said) == CLIENTS - 1
    assert sum("stored" in each for each in said) == 1
    # And each worker has it now.
    assert {"hit" in ask(box, path).headers["cache-status"] for _ in range(CLIENTS)} == {True}
    assert app.asked[path] == 1


@pytest.mark.parametrize("name", ["tagged", "plain"])
def test_what_has_grown_stale_is_asked_for_once_too(
    box: Box, app: App, pool: ThreadPoolExecutor, name: str
) -> None:
    path = f"/max-age=2/449/{name}"
    app.may_begin.set()
    first = {reply.body for reply in pool.map(lambda _: ask(box, path), range(CLIENTS))}
    before = app.asked[path]
    time.sleep(3.1)
    app.may_begin.clear()
    waiting = ask_all(box, pool, path)
    app.may_begin.set()
    bodies = {each.result(PATIENCE).body for each in waiting}
    assert app.asked[path] == before + 1
    assert len(bodies) == 1
    assert (bodies <= first) == (name == "tagged")


def test_an_app_that_answers_at_once_is_asked_once_too(
    before: Before, app: App, pool: ThreadPoolExecutor
) -> None:
    """Between RAM and disk: who comes while an answer is filed gets it from who has it."""
    box = three(before, app)
    app.may_begin.set()
    paths = [f"/max-age=60/449/{number}" for number in range(20)]
    for path in paths:
        assert all(reply.status == 200 for reply in pool.map(partial(ask, box), [path] * CLIENTS))
    # A disk that takes two seconds to store an answer is not waited for.
    assert sum(app.asked.values()) <= 1.1 * len(paths)


@pytest.mark.parametrize(
    ("size", "cache"), [(5_000_000, {}), (900_000, {"dir": ""})], ids=["disk", "ram"]
)
def test_octets_go_on_as_they_come_to_the_clients_of_every_worker(
    before: Before, app: App, pool: ThreadPoolExecutor, size: int, cache: dict[str, str]
) -> None:
    box = three(before, app, **cache)
    path = f"/max-age=60/{size}/b"
    app.may_end.clear()
    arrived = threading.Semaphore(0)
    waiting = [pool.submit(read_on, box, path, size // 2, arrived) for _ in range(CLIENTS)]
    wait_until(lambda: sum(in_hand(box).values()) >= CLIENTS)
    app.may_begin.set()
    for _ in range(CLIENTS):  # each has had half of it, while there is no more
        assert arrived.acquire(timeout=PATIENCE)
    app.may_end.set()
    bodies = {each.result(PATIENCE) for each in waiting}
    assert app.asked[path] == 1
    assert len(bodies) == 1
    assert len(bodies.pop()) == size


def read_on(box: Box, path: str, part: int, arrived: threading.Semaphore) -> bytes:
    """The body; `arrived` once a part of it is here."""
    with box.connect() as sock:
        sock.settimeout(PATIENCE)
        sock.sendall(f"GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n".encode())
        received = bytearray()
        told = False
        while data := sock.recv(1 << 18):
            received += data
            body = len(received) - received.find(b"\r\n\r\n") - 4
            if not told and body >= part:
                told = True
                arrived.release()
        return bytes(received[received.index(b"\r\n\r\n") + 4 :])


def test_what_is_for_one_client_is_asked_for_by_each(
    box: Box, app: App, pool: ThreadPoolExecutor
) -> None:
    path = "/private/449/c"
    waiting = ask_all(box, pool, path)
    assert app.asked[path] == 1
    app.may_begin.set()
    assert len({each.result(PATIENCE).body for each in waiting}) == CLIENTS


def test_nobody_gets_what_was_made_for_another_language(
    box: Box, app: App, pool: ThreadPoolExecutor
) -> None:
    path = "/max-age=60/449/v"
    waiting = {}
    for number in range(CLIENTS):
        language = ("de", "fr")[number % 2]
        waiting[pool.submit(ask, box, path, accept_language=language)] = language
    wait_until(lambda: sum(in_hand(box).values()) >= CLIENTS)
    app.may_begin.set()
    for each, language in waiting.items():
        assert each.result(PATIENCE).headers["content-language"] == language
    assert app.asked[path] <= 2 * len(box.workers)


@pytest.mark.parametrize("halfway", [False, True], ids=["thinking", "halfway"])
def test_when_the_worker_that_asks_is_killed_the_others_ask(
    box: Box, app: App, pool: ThreadPoolExecutor, halfway: bool
) -> None:
    """Whoever has got nothing of it yet gets it whole; nobody gets two halves of two answers."""
    path = "/max-age=60/449/d"
    if halfway:
        app.may_end.clear()
    waiting = ask_all(box, pool, path)
    if halfway:
        app.may_begin.set()
    killed = asker(box, app)
    count = in_hand(box)[killed]
    os.kill(killed, signal.SIGKILL)
    if not halfway:
        wait_until(lambda: app.asked[path] == 2)
        time.sleep(0.5)  # for the third worker, who is to hear of the second
    app.may_begin.set()
    app.may_end.set()
    whole, broken = [], 0
    for each in waiting:
        try:
            whole.append(each.result(PATIENCE))
        except Exception:
            broken += 1
    assert all(reply.body[:8] == reply.body[-8:] for reply in whole)
    if halfway:
        assert app.asked[path] <= 2  # who came too late for the first
    else:
        assert broken == count
        assert app.asked[path] == 2  # the others agreed on who does
    wait_until(lambda: len(box.workers) == 3)
    assert ask(box, path).status == 200


def asker(box: Box, app: App) -> int:
    """The worker with a connection to the app."""
    port = app.server_port
    told = subprocess.run(
        ["ss", "-tnpH", "state", "established", f"( dport = :{port} )"],
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    (found,) = [worker for worker in box.workers if f"pid={worker}," in told]
    return found


@pytest.mark.parametrize("what", [["URL"], ["--tag", "some"], ["--all"]], ids=["url", "tag", "all"])
def test_what_was_asked_for_before_a_purge_is_nobodys_afterwards(
    box: Box, app: App, pool: ThreadPoolExecutor, what: list[str]
) -> None:
    """Who asked before it may get what was asked for later, but not the other way round."""
    path = "/max-age=60/449/e"
    before = ask_all(box, pool, path)
    begun = app.number
    url = f"http://127.0.0.1:{box.port}{path}"
    purge(box, [url if word == "URL" else word for word in what])
    with ThreadPoolExecutor(CLIENTS) as more:
        after = [more.submit(ask, box, path) for _ in range(CLIENTS)]
        wait_until(lambda: sum(in_hand(box).values()) >= 2 * CLIENTS)
        app.may_begin.set()
        assert all(each.result(PATIENCE).status == 200 for each in before)
        new = [each.result(PATIENCE) for each in after]
    new += [ask(box, path) for _ in range(CLIENTS)]
    assert min(int(reply.body[:8]) for reply in new) > begun


def purge(box: Box, arguments: list[str]) -> None:
    command = [sys.executable, "-m", "edgebox", "purge", "--socket", box.control, *arguments]
    subprocess.run(command, check=True, capture_output=True, timeout=PATIENCE)
