"""Operators' tools against a whole box of several workers, through its control socket."""

from __future__ import annotations

import json
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from edgebox.cli.control import ControlClient
from edgebox.cli.main import main
from tests.box.apps.counting import CountingApp, QuietHandler
from tests.box.conftest import Box, Start, ask, wait_until

pytestmark = pytest.mark.slow

WORKERS = 3
TURNS = 40  # connections after which each worker had one, all but certainly
READY = 60.0


class App(CountingApp):
    """Answers everything with `text`, fresh for an hour; `asked` counts by path."""

    def __init__(self) -> None:
        super().__init__(Handler)
        self.text = b"old"


class Handler(QuietHandler):
    server: App

    def do_GET(self) -> None:
        self.server.asked[self.path] += 1
        self.send_response(200)
        self.send_header("Cache-Control", "max-age=3600")
        self.send_header("Content-Length", str(len(self.server.text)))
        self.end_headers()
        self.wfile.write(self.server.text)


@pytest.fixture
def app() -> Iterator[App]:
    with App() as app:
        thread = threading.Thread(target=app.serve_forever)
        thread.start()
        yield app
        app.shutdown()
        thread.join()


Launch = Callable[..., Box]


@pytest.fixture
def launch(start: Start, app: App, tmp_path: Path) -> Launch:
    """A box of WORKERS before the app; `cache` are keys of [cache]."""

    def launch_one(cache: str = 'dir = ""') -> Box:
        file = tmp_path / "box.toml"
        file.write_text(
            f'[cache]\n{cache}\n[log]\nerror = "{tmp_path}/error.log"\n'
            f'[upstream.app]\nservers = ["{app.url}"]\n[[site]]\n[[site.route]]\nupstream = "app"\n'
        )
        return start("-c", str(file), "--workers", str(WORKERS))

    return launch_one


def run(box: Box, *words: str) -> Result:
    """A verb, told where the box is."""
    return CliRunner().invoke(main, [*words, "--socket", box.control])


def bodies(box: Box, path: str = "/a") -> set[bytes]:
    """What all workers answer."""
    return {ask(box, path).body for _ in range(TURNS)}


def statuses(box: Box, path: str) -> set[int]:
    return {ask(box, path).status for _ in range(TURNS)}


def outdate(box: Box, app: App) -> None:
    """All workers have what the app would not answer any more."""
    app.text = b"old"
    assert bodies(box) == {b"old"}
    app.text = b"new"
    assert bodies(box) == {b"old"}


def test_what_is_purged_or_banned_is_so_in_all_workers(launch: Launch, app: App) -> None:
    box = launch()
    host = f"127.0.0.1:{box.port}"
    outdate(box, app)
    assert app.asked["/a"] == WORKERS  # each has its own RAM
    purged = json.loads(ask(box, "/a", "PURGE").body)
    assert purged["purged"] == 1
    assert bodies(box) == {b"new"}
    for words in (
        ("purge", f"http://{host}/a"),
        ("purge", "--all"),
        ("ban", "host = 127.0.0.1 and path = /a"),
    ):
        assert run(box, "purge", "--all").exit_code == 0
        outdate(box, app)
        result = run(box, *words)
        assert result.output.startswith(f"{WORKERS} "), result.output
        assert bodies(box) == {b"new"}
    told = json.loads(run(box, "explain", f"http://{host}/a", "--json").output)
    assert (told["stored"], len(told["stored_by_worker"])) == (1, WORKERS)


def test_a_ban_outlives_the_box(launch: Launch, app: App, tmp_path: Path) -> None:
    disk = f'dir = "{tmp_path}/answers"'
    box = launch(disk)
    outdate(box, app)
    assert run(box, "ban", "path ~ ^/a").exit_code == 0
    box.process.kill()  # nobody had time to carry anything out
    box.wait()
    box = launch(disk)
    assert bodies(box) == {b"new"}


def test_a_drained_server_stays_drained_through_a_reload(launch: Launch, app: App) -> None:
    box = launch()
    assert statuses(box, "/b") == {200}
    assert run(box, "upstream", "drain", app.url).exit_code == 0
    assert statuses(box, "/c") == {503}
    before = set(box.workers)
    assert run(box, "reload").output.startswith("reloaded")
    wait_until(lambda: not before & set(box.workers), READY)
    assert len(box.workers) == WORKERS
    assert statuses(box, "/d") == {503}
    (server,) = json.loads(run(box, "upstream", "list", "--json").output)
    assert server["standings"] == {"drained": WORKERS}
    assert run(box, "upstream", "up", app.url).exit_code == 0
    assert statuses(box, "/e") == {200}
    result = run(box, "upstream", "drain", "http://nobody")
    assert result.exit_code == 1
    assert f"no upstream server http://nobody; there are {app.url}" in result.output


def test_a_bad_configuration_is_told_line_by_line_and_changes_nothing(
    launch: Launch, tmp_path: Path
) -> None:
    box = launch()
    before = box.workers
    file = tmp_path / "box.toml"
    file.write_text(file.read_text() + '[sever]\nx = 1\n[limits]\nconnections = "many"\n')
    result = run(box, "reload")
    assert result.exit_code == 1
    assert f"{file}:10: " in result.output
    assert f"{file}:13: " in result.output
    assert "the server goes on as it was" in result.output
    assert box.workers == before
    assert ask(box, "/a").body == b"old"


def test_the_log_is_that_of_all_workers_before_and_after_a_reload(launch: Launch) -> None:
    box = launch()
    with ControlClient(box.control) as client:
        pieces = client.stream("log", query="path ~ ^/log and status = 200")
        for _ in range(WORKERS):
            assert next(pieces)["records"] == []  # they listen from now on

        def hear(path: str) -> int:
            heard = 0
            while heard < TURNS:
                heard += sum(record["path"] == path for record in next(pieces)["records"])
            return heard

        bodies(box, "/other")
        bodies(box, "/log/1")
        assert hear("/log/1") == TURNS
        before = set(box.workers)
        box.signal(signal.SIGHUP)
        for _ in range(WORKERS):
            assert next(pieces)["records"] == []
        wait_until(lambda: not before & set(box.workers), READY)
        bodies(box, "/log/2")
        assert hear("/log/2") == TURNS


def test_clients_that_misbehave_hurt_nobody(launch: Launch) -> None:
    box = launch()
    before = box.workers

    def connect() -> socket.socket:
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        sock.connect(box.control)
        sock.settimeout(10)
        return sock

    open_files = len(os.listdir(f"/proc/{box.process.pid}/fd"))
    silent = [connect() for _ in range(100)]  # more than there is room for
    with connect() as garbage, connect() as huge, connect() as deaf, connect() as leaver:
        garbage.sendall(os.urandom(5000) + b"\n")
        assert b'"ok":false' in garbage.recv(10_000)
        huge.sendall(b'{"verb": "' + b"x" * 70_000)
        assert b"octets" in huge.recv(10_000)
        leaver.sendall(b'{"verb": "purge", "everything": true}\n{"verb": "lo')
        leaver.close()
        deaf.settimeout(0.5)
        try:
            for _ in range(2000):
                deaf.sendall(b'{"verb": "status"}\n')  # and reads no answer
        except OSError:
            pass
        assert json.loads(run(box, "status", "--json").output)["workers"]
        assert ask(box, "/a").status == 200
    for sock in silent:
        sock.close()
    wait_until(lambda: len(os.listdir(f"/proc/{box.process.pid}/fd")) <= open_files)
    assert box.workers == before
    assert run(box, "stats", "-1").exit_code == 0
