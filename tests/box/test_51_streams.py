"""Answers that take their time or never end: events, WebSockets, downloads of a gigabyte."""

from __future__ import annotations

import http.client
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect
from websockets.sync.server import Server, ServerConnection, serve

from tests.box.apps import streams
from tests.box.apps.running import AppServer, gunicorn
from tests.box.conftest import Before, Box, Start, ask, need, wait_until

pytestmark = pytest.mark.slow

MIB = 1024 * 1024
GIB = 1024 * MIB


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AppServer]:
    log = tmp_path_factory.mktemp("streams") / "gunicorn.log"
    with gunicorn("streams:app", "127.0.0.1:0", log) as app:
        yield app


@pytest.fixture
def box(start: Start, app: AppServer) -> Box:
    return start("--upstream", app.url)


# --- server-sent events -------------------------------------------------------------------


class Events:
    """A client that listens."""

    def __init__(self, box: Box, path: str = "/events") -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", box.port, timeout=10)
        self._connection.request("GET", path, headers={"Accept": "text/event-stream"})
        self.response = self._connection.getresponse()

    def next(self) -> str:
        """The next event; "" at the end."""
        while line := self.response.readline():
            if line.startswith(b"data: "):
                return line[6:].decode().strip()
        return ""

    def close(self) -> None:
        self.response.close()
        self._connection.close()


def say(app: AppServer, text: str) -> None:
    app.ask("/say", "POST", text)


def test_each_event_is_there_before_the_next_is_made(box: Box, app: AppServer) -> None:
    with closing(Events(box)) as events:
        assert events.response.getheader("Content-Type") == "text/event-stream"
        for number in range(20):
            say(app, f"event {number}")
            assert events.next() == f"event {number}"
        say(app, "end")
        assert events.next() == ""


def test_events_reach_all_who_listen_each_by_a_stream_of_its_own(box: Box, app: AppServer) -> None:
    with closing(Events(box)) as first, closing(Events(box)) as second:
        wait_until(lambda: app.state()["listeners"] == 2)
        say(app, "to all")
        assert (first.next(), second.next()) == ("to all", "to all")
        say(app, "end")
        assert (first.next(), second.next()) == ("", "")


def test_the_app_sees_that_a_listener_left(box: Box, app: AppServer) -> None:
    wait_until(lambda: app.state()["listeners"] == 0)
    before = box.descriptors()
    events = Events(box, "/events?tick=0.05")
    wait_until(lambda: app.state()["listeners"] == 1)
    events.close()
    wait_until(lambda: app.state()["listeners"] == 0)
    wait_until(lambda: len(box.descriptors()) <= len(before))


# --- WebSockets ---------------------------------------------------------------------------


class Sockets:
    """A server of WebSockets: sends back what it gets; `talks` are the connections it had."""

    def __init__(self) -> None:
        self.talks: list[ServerConnection] = []
        self.over: list[tuple[int | None, str | None]] = []  # the code and reason it ended with
        self.flooded = 0  # octets
        self.server: Server

    def handle(self, talk: ServerConnection) -> None:
        self.talks.append(talk)
        try:
            for message in talk:
                if message == "bye":
                    talk.close(4001, "as you wish")
                elif message == "flood":
                    while True:
                        talk.send(streams.BLOCK)
                        self.flooded += len(streams.BLOCK)
                elif message == "vanish":
                    talk.socket.shutdown(socket.SHUT_RDWR)
                else:
                    talk.send(message)
        except ConnectionClosed:
            pass
        self.over.append((talk.close_code, talk.close_reason))

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.socket.getsockname()[1]}"


@pytest.fixture
def sockets() -> Iterator[Sockets]:
    sockets = Sockets()
    with serve(sockets.handle, "127.0.0.1", 0, max_size=8 * MIB) as sockets.server:
        thread = threading.Thread(target=sockets.server.serve_forever)
        thread.start()
        yield sockets
        sockets.server.shutdown()
        thread.join()


@contextmanager
def talking(box: Box, **options: object) -> Iterator[ClientConnection]:
    address = f"ws://127.0.0.1:{box.port}/chat"
    with connect(address, max_size=8 * MIB, proxy=None, **options) as talk:  # type: ignore[arg-type]
        yield talk


def test_messages_of_every_kind_come_back(before: Before, sockets: Sockets) -> None:
    box = before(sockets.url)
    with talking(box) as talk:
        for message in ("text", "ünïcode", b"\x00\xff binary", "", b""):
            talk.send(message)
            assert talk.recv(10) == message
        assert talk.ping().wait(10), "the server's pong"
        assert sockets.talks[0].ping().wait(10), "the client's pong"
        talk.send(["in ", "three ", "frames"])
        assert talk.recv(10) == "in three frames"


@pytest.mark.parametrize("compression", ["deflate", None])
def test_a_message_of_a_megabyte_and_many_at_once_both_ways(
    before: Before, sockets: Sockets, compression: str | None
) -> None:
    box = before(sockets.url)
    large = streams.BLOCK * 4
    with talking(box, compression=compression) as talk:
        talk.send(large)
        assert talk.recv(10) == large
        messages = [f"{number} " * (number % 50) for number in range(2000)]
        sender = threading.Thread(target=lambda: [talk.send(message) for message in messages])
        sender.start()
        received = [talk.recv(10) for _ in messages]
        sender.join()
    assert received == messages


def test_a_client_that_does_not_read_slows_the_server_down(
    before: Before, sockets: Sockets
) -> None:
    box = before(sockets.url)
    with talking(box, compression=None) as talk:
        talk.send("hello")
        talk.recv(10)
        held = box.peak_memory()
        talk.send("flood")
        assert settle(lambda: sockets.flooded) < 64 * MIB
        for _ in range(400):  # 100 MiB
            assert talk.recv(10) == streams.BLOCK
        assert settle(lambda: sockets.flooded) < 164 * MIB
        assert box.peak_memory() - held < 64 * MIB
        talk.socket.shutdown(socket.SHUT_RDWR)
    wait_until(lambda: sockets.over)


def test_either_side_may_end_it(before: Before, sockets: Sockets) -> None:
    box = before(sockets.url)
    with talking(box) as talk:
        talk.close(4000, "enough")
    wait_until(lambda: sockets.over == [(4000, "enough")])
    with talking(box) as talk:
        talk.send("bye")
        with pytest.raises(ConnectionClosed):
            talk.recv(10)
        assert (talk.close_code, talk.close_reason) == (4001, "as you wish")
    with talking(box) as talk:
        talk.send("vanish")
        with pytest.raises(ConnectionClosed):
            talk.recv(10)
        assert talk.close_code == 1006
    with talking(box) as talk:
        talk.socket.shutdown(socket.SHUT_RDWR)
        wait_until(lambda: len(sockets.over) == 4)
        assert sockets.over[-1][0] == 1006


def test_what_the_server_will_not_switch_to_is_an_answer_like_any_other(box: Box) -> None:
    offer = {"Connection": "Upgrade", "Upgrade": "chat/2"}
    with closing(http.client.HTTPConnection("127.0.0.1", box.port, timeout=10)) as connection:
        for _ in range(2):
            connection.request("GET", "/bytes/10", headers=offer)
            response = connection.getresponse()
            assert (response.status, response.read()) == (200, streams.BLOCK[:10])
            assert response.getheader("Upgrade") is None


def test_an_open_socket_counts_as_a_connection_and_is_freed_with_its_end(
    before: Before, sockets: Sockets
) -> None:
    limits = {"connections": 2, "queue_timeout": "100ms"}
    box = before(sockets.url, upstream=limits)
    idle = len(box.descriptors())
    for _ in range(3):
        with talking(box) as one, talking(box) as two:
            assert ask(box, "/third").status == 503
            one.send("still")
            two.send("here")
            assert (one.recv(10), two.recv(10)) == ("still", "here")
        wait_until(lambda: len(box.descriptors()) <= idle)
    with talking(box) as talk:
        talk.send("free")
        assert talk.recv(10) == "free"


def test_a_draining_box_lets_an_open_socket_finish(before: Before, sockets: Sockets) -> None:
    box = before(sockets.url)
    with talking(box) as talk:
        talk.send("before")
        assert talk.recv(10) == "before"
        box.signal(signal.SIGQUIT)
        wait_until(lambda: not accepts(box))
        talk.send("after")
        assert talk.recv(10) == "after"
    assert box.wait() == 0


def accepts(box: Box) -> bool:
    """Whether a new connection gets an answer."""
    try:
        with socket.create_connection(("127.0.0.1", box.port), timeout=0.2) as sock:
            sock.sendall(b"GET / HTTP/1.0\r\n\r\n")
            return bool(sock.recv(100))
    except OSError:
        return False


def test_a_browser_hears_events_and_talks_over_a_socket(
    before: Before, app: AppServer, sockets: Sockets, tmp_path: Path
) -> None:
    route = {"path": "/ws", "upstream": sockets.url}
    box = before(app.url, more_routes=[route])
    command = [
        need("chromium", "chromium"), "--headless", "--no-sandbox", "--disable-gpu",
        "--disable-quic", "--no-first-run", "--disable-background-networking",
        "--disable-component-update", "--disable-sync", f"--user-data-dir={tmp_path}/profile",
        "--remote-debugging-port=0", f"{box.url}listen",
    ]  # fmt: skip
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as browser:
        try:
            wait_until(lambda: app.state()["listeners"] == 1, 30)
            for text in ("one", "two", "socket"):
                say(app, text)
                wait_until(lambda text=text: app.state().get(f"heard {text}"))
            wait_until(lambda: app.state().get("heard echo hello"))
            wait_until(lambda: app.state().get("heard closed 1000"))
        finally:
            browser.terminate()


# --- downloads ----------------------------------------------------------------------------


class Download:
    """Reads what `/bytes/SIZE` gives and holds it against what it must be."""

    def __init__(self, box: Box, path: str) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", box.port, timeout=30)
        self._connection.request("GET", path)
        self.response = self._connection.getresponse()
        self.length = 0

    def read(self, most: int | None = None) -> int:
        """Read `most` octets more, or the rest; how many came in all."""
        block, size = streams.BLOCK, len(streams.BLOCK)
        buffer = bytearray(size)
        end = None if most is None else self.length + most
        while end is None or self.length < end:
            at = self.length % size
            view = memoryview(buffer)[: size - at]
            count = self.response.readinto(view)
            if not count:
                break
            assert view[:count] == memoryview(block)[at : at + count], f"from {self.length} on"
            self.length += count
        return self.length

    def close(self) -> None:
        self.response.close()
        self._connection.close()


@pytest.mark.parametrize("query", ["?length&cc=no-store", "?cc=max-age=3600"])
def test_a_gigabyte_passes_through_and_takes_no_memory(
    before: Before, app: AppServer, query: str
) -> None:
    """Whether or not it may be stored, it is larger than anything that is kept in RAM."""
    box = before(app.url, cache={"dir": "", "largest": "4 GiB"})
    ask(box, "/bytes/1000")
    held = box.peak_memory()
    with closing(Download(box, f"/bytes/{GIB}{query}")) as download:
        assert download.read() == GIB
    assert box.peak_memory() - held < 64 * MIB


@pytest.mark.parametrize("cc", ["no-store", "max-age=3600"])
def test_a_slow_reader_slows_the_app_down(before: Before, app: AppServer, cc: str) -> None:
    """What lies between is a few megabytes of socket buffers, and nothing grows."""
    box = before(app.url, cache={"dir": ""})
    ask(box, "/bytes/1000")
    held, ended, already = box.peak_memory(), app.state()["ended"], app.state()["produced"]

    def produced() -> int:
        return app.state()["produced"] - already

    with closing(Download(box, f"/bytes/{GIB}?length&cc={cc}")) as download:
        for read in (MIB, 64 * MIB, 65 * MIB):
            download.read(read - download.length)
            assert settle(produced) < read + 32 * MIB
    wait_until(lambda: app.state()["ended"] > ended)
    assert produced() < GIB
    assert box.peak_memory() - held < 64 * MIB


def settle(count: Callable[[], int]) -> int:
    """What `count` gives once it grows no more."""
    last = -1
    while (now := count()) != last:
        last = now
        time.sleep(0.3)
    return last
