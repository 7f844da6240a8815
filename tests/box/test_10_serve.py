"""`edgebox serve`: starts, says so, takes signals, and ends as told."""

from __future__ import annotations

import http.client
import re
import signal
import socket
import time
from pathlib import Path

import pytest

from tests.box.conftest import Box, Start
from tests.conftest import HELLO

pytestmark = pytest.mark.slow


def fetch(box: Box, path: str = "/") -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", box.port, timeout=10)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


def test_any_directory_is_served(start: Start, root: Path) -> None:
    assert fetch(start("--root", str(root))) == (200, HELLO)


def test_without_a_file_the_welcome_site_is_served(start: Start, tmp_path: Path) -> None:
    status, body = fetch(start(cwd=tmp_path))
    assert status == 200
    assert b"edgebox" in body


def test_the_file_in_the_current_directory_is_used_and_flags_win(
    start: Start, tmp_path: Path, root: Path
) -> None:
    (tmp_path / "edgebox.toml").write_text(
        f'[server]\nlisten = ["127.0.0.1:1"]\n[[site]]\nroot = "{root}"\n'
    )
    assert fetch(start(cwd=tmp_path)) == (200, HELLO)


def test_several_addresses(start: Start, root: Path) -> None:
    box = start("--root", str(root), "--listen", "127.0.0.1:0", "--listen", "[::1]:0")
    assert fetch(box) == (200, HELLO)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_term_ends_it_at_once_and_cleanly(start: Start, root: Path, number: signal.Signals) -> None:
    box = start("--root", str(root))
    held = socket.create_connection(("127.0.0.1", box.port))
    held.sendall(b"GET / HT")
    fetch(box)
    box.signal(number)
    assert box.wait(5) == 0
    assert box.process.communicate()[1] == ""
    held.close()


def test_quit_answers_what_is_in_hand(start: Start, root: Path) -> None:
    box = start("--root", str(root))
    held = socket.create_connection(("127.0.0.1", box.port), timeout=10)
    held.sendall(b"GET / HTTP/1.1\r\nHo")
    time.sleep(0.2)
    box.signal(signal.SIGQUIT)
    held.sendall(b"st: x\r\n\r\n")
    answer = b""
    while data := held.recv(65536):
        answer += data
    assert answer.endswith(HELLO)
    assert b"Connection: close" in answer
    held.close()
    assert box.wait(5) == 0


def test_usr1_opens_the_access_log_again(start: Start, root: Path, tmp_path: Path) -> None:
    log = tmp_path / "access.log"
    box = start("--root", str(root), "--access-log", str(log))
    fetch(box, "/a.txt")
    deadline = time.monotonic() + 5
    while not log.read_bytes() and time.monotonic() < deadline:
        time.sleep(0.05)
    log.rename(tmp_path / "old.log")
    box.signal(signal.SIGUSR1)
    while not log.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    fetch(box, "/")
    box.signal(signal.SIGTERM)
    box.wait()
    assert b'"GET /a.txt HTTP/1.1" 200 100 "-"' in (tmp_path / "old.log").read_bytes()
    new = log.read_bytes()
    assert re.fullmatch(
        rb'127\.0\.0\.1 - - \[.*\] "GET / HTTP/1.1" 200 %d "-" "-"\n' % len(HELLO), new
    )


def test_a_taken_port_is_one_line_and_exit_1(root: Path) -> None:
    import subprocess
    import sys

    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        done = subprocess.run(
            [sys.executable, "-m", "edgebox", "serve", "--root", str(root), "--listen", address],
            capture_output=True, text=True, timeout=30, check=False,
        )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr == f"edgebox: cannot listen on {address}: Address already in use\n"


def test_a_configuration_that_cannot_be_used_has_an_exit_status_of_its_own(tmp_path: Path) -> None:
    import subprocess
    import sys

    file = tmp_path / "edgebox.toml"
    file.write_text("[server]\nworkers = 0\n[limits]\nnonsense = 1\n")
    done = subprocess.run(
        [sys.executable, "-m", "edgebox", "serve", "-c", str(file)],
        capture_output=True, text=True, timeout=30, check=False,
    )  # fmt: skip
    assert done.returncode == 78
    assert [line.split(":")[1] for line in done.stderr.splitlines()] == ["2", "4"]
