"""Bodies on their way to an app: large ones, slow apps, early answers, and too much."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import threading
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.box.apps import streams
from tests.box.apps.running import AppServer, gunicorn
from tests.box.conftest import Before, Box, need, wait_until
from tests.wire import PATIENCE

pytestmark = pytest.mark.slow

MIB = 1024 * 1024
GIB = 1024 * MIB
# What passes does not matter to what is held, so one will do each time; ten were tried.
LONG = int(os.environ.get("EDGEBOX_UPLOAD_GIB", "1")) * GIB
BLOCK = streams.BLOCK * 4  # a megabyte


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AppServer]:
    log = tmp_path_factory.mktemp("uploads") / "gunicorn.log"
    with gunicorn("streams:app", "127.0.0.1:0", log) as app:
        yield app


@pytest.fixture
def box(before: Before, app: AppServer) -> Box:
    return before(app.url, route={"body_size": "100 GiB"})


class Upload:
    """A client that sends a body piece by piece, and can stop anywhere."""

    def __init__(self, sock: socket.socket, chunked: bool) -> None:
        self.sock = sock
        self.chunked = chunked
        self.sent = 0
        self.crc = 0

    def send(self, octets: bytes) -> None:
        if self.chunked:
            self.sock.sendall(b"%x\r\n" % len(octets))
        self.sock.sendall(octets)
        if self.chunked:
            self.sock.sendall(b"\r\n")
        self.sent += len(octets)
        self.crc = zlib.crc32(octets, self.crc)

    def finish(self) -> None:
        if self.chunked:
            self.sock.sendall(b"0\r\n\r\n")

    def answer(self) -> tuple[int, bytes]:
        """Status and body of what the server says, to the end of the connection."""
        octets = b""
        with suppress(ConnectionResetError):
            while piece := self.sock.recv(65536):
                octets += piece
        head, _, body = octets.partition(b"\r\n\r\n")
        return int(head.split(b" ")[1]) if head else 0, body


@contextmanager
def uploading(
    box: Box, path: str, length: int | None, *fields: str, method: str = "PUT"
) -> Iterator[Upload]:
    """A request whose head is out; `length` None: chunked."""
    framing = "Transfer-Encoding: chunked" if length is None else f"Content-Length: {length}"
    lines = [f"{method} {path} HTTP/1.1", "Host: x", framing, "Connection: close", *fields, "", ""]
    with socket.create_connection(("127.0.0.1", box.port), timeout=30) as sock:
        sock.sendall("\r\n".join(lines).encode())
        yield Upload(sock, length is None)


@pytest.mark.parametrize(
    ("size", "framed"), [(LONG, True), (GIB // 4, False)], ids=["length", "chunked"]
)
def test_a_gigabyte_passes_through_and_takes_no_memory(box: Box, size: int, framed: bool) -> None:
    """Nor would ten: what is held does not depend on what has passed."""
    with uploading(box, "/upload", 1) as upload:
        upload.send(b"x")
        assert upload.answer()[0] == 200
    held = box.peak_memory()
    with uploading(box, "/upload", size if framed else None) as upload:
        while upload.sent < size:
            upload.send(BLOCK)
        upload.finish()
        status, body = upload.answer()
    told = json.loads(body)
    assert (status, told["length"], told["crc"]) == (200, size, upload.crc)
    assert box.peak_memory() - held < 64 * MIB


@pytest.mark.parametrize("framed", [True, False], ids=["length", "chunked"])
def test_an_app_that_reads_slowly_slows_the_client_down(
    box: Box, app: AppServer, framed: bool
) -> None:
    app.ask("/stop", "POST")
    held = box.peak_memory()
    with uploading(box, f"/upload?hold={MIB}", GIB if framed else None) as upload:
        upload.sock.settimeout(1)
        with pytest.raises(TimeoutError):
            while True:
                upload.send(BLOCK)
        assert upload.sent < 64 * MIB, "what lies between is socket buffers"
        assert box.peak_memory() - held < 64 * MIB
        received = app.state()["received"]
        app.ask("/go", "POST")
        wait_until(lambda: app.state()["received"] > received)


def test_a_client_that_leaves_in_the_middle_is_seen_by_the_app(
    box: Box, app: AppServer, tmp_path: Path
) -> None:
    begun = app.state()["broken"]
    with uploading(box, "/upload", GIB) as upload:
        upload.send(BLOCK)
    wait_until(lambda: app.state()["broken"] > begun)
    with uploading(box, "/upload", None) as upload:
        upload.send(BLOCK)
    wait_until(lambda: app.state()["broken"] > begun + 1)
    assert "internal error" not in (tmp_path / "error.log").read_text()


@pytest.mark.parametrize("framed", [True, False], ids=["length", "chunked"])
def test_more_than_a_route_takes_is_413_and_the_app_gets_no_whole_request(
    before: Before, app: AppServer, framed: bool
) -> None:
    box = before(app.url, route={"body_size": "1 MiB"})
    uploads = app.state()["uploads"]
    for size in (MIB, 2 * MIB, 50 * MIB):
        with uploading(box, "/upload", size if framed else None) as upload:
            with suppress(ConnectionError):
                while upload.sent < size:
                    upload.send(BLOCK)
                upload.finish()
            status, _ = upload.answer()
        assert status == (200 if size == MIB else 413), size
    assert app.state()["uploads"] == uploads + 1


def test_413_is_told_before_a_body_is_sent_that_waits_to_be_asked_for(
    before: Before, app: AppServer
) -> None:
    box = before(app.url, route={"body_size": "1 MiB"})
    with uploading(box, "/upload", 2 * MIB, "Expect: 100-continue") as upload:
        assert upload.answer()[0] == 413


@pytest.mark.parametrize("framed", [True, False], ids=["length", "chunked"])
def test_an_answer_that_comes_early_is_passed_on_and_ends_the_upload(
    box: Box, framed: bool
) -> None:
    size = 200 * MIB
    with uploading(box, "/refuse", size if framed else None, method="POST") as upload:
        stopped = threading.Event()

        def send() -> None:
            with suppress(ConnectionError):
                while upload.sent < size:
                    upload.send(BLOCK)
            stopped.set()

        sender = threading.Thread(target=send)
        sender.start()
        status, body = upload.answer()
        assert (status, body) == (403, b"not from you\n")
        assert stopped.wait(PATIENCE), "nobody reads on for ever"
        sender.join()
        assert upload.sent < size


def test_an_app_may_answer_as_it_reads(box: Box) -> None:
    """Both directions at once, each as fast as the other end takes it."""
    count = 20
    with uploading(box, "/echo", count * len(BLOCK), method="POST") as upload:

        def send() -> None:
            for _ in range(count):
                upload.send(BLOCK)

        sender = threading.Thread(target=send)
        sender.start()
        stream = upload.sock.makefile("rb")
        assert stream.readline().startswith(b"HTTP/1.1 200 ")
        while stream.readline().strip():
            pass
        pieces = []
        while size := int(stream.readline(), 16):
            pieces.append(stream.read(size))
            stream.readline()
        sender.join()
        stream.close()
    assert b"".join(pieces) == b"begun\n" + BLOCK * count


def test_curl_is_asked_to_go_on_once_and_by_us(box: Box, tmp_path: Path) -> None:
    """The app reads only what curl has sent, and curl sends only when it is told to."""
    file = tmp_path / "body"
    file.write_bytes(BLOCK * 3)
    for more in ((), ("-H", "Transfer-Encoding: chunked")):
        done = subprocess.run(
            [
                need("curl", "curl"), "-sSv", "--max-time", "20", "-H", "Expect: 100-continue",
                "--expect100-timeout", "15", "-T", str(file), *more, f"{box.url}upload",
            ],
            capture_output=True, check=True, timeout=30,
        )  # fmt: skip
        assert done.stderr.count(b"< HTTP/1.1 100 Continue") == 1
        assert json.loads(done.stdout)["crc"] == zlib.crc32(BLOCK * 3)


def test_a_body_that_comes_too_slowly_is_408_and_holds_no_worker(
    before: Before, app: AppServer
) -> None:
    limits = {"body_timeout": "500ms", "body_rate": "1 kB/s"}
    box = before(app.url, limits=limits)
    begun = app.state()["broken"]
    with uploading(box, "/upload", MIB) as upload:
        upload.send(b"a little")
        assert upload.answer()[0] == 408
    wait_until(lambda: app.state()["broken"] > begun)


def test_many_uploads_at_once_take_no_more_memory_than_their_number(
    box: Box, app: AppServer
) -> None:
    app.ask("/stop", "POST")
    with uploading(box, "/upload", 1) as upload:
        upload.send(b"x")
        upload.answer()
    held = box.peak_memory()
    stack = []
    try:
        for _ in range(20):
            entered = uploading(box, f"/upload?hold={MIB}", 16 * MIB)
            upload = entered.__enter__()
            stack.append(entered)
            upload.sock.setblocking(False)
            with suppress(BlockingIOError):
                while True:
                    upload.sock.send(BLOCK)
        time.sleep(0.5)
        assert box.peak_memory() - held < 64 * MIB
    finally:
        app.ask("/go", "POST")
        for entered in stack:
            entered.__exit__(None, None, None)
