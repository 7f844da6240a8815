"""What systemd sees of a box, and what a box that was started as root gives up."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from edgebox.ops.processes.privileges import landlock_version
from tests.box.conftest import Before, Box, Start, ask, lack, wait_until
from tests.conftest import HELLO

pytestmark = pytest.mark.slow

READY = 30.0  # seconds that new workers may take on a busy machine
# Gives descriptor 3 to what it executes, as systemd does.
ACTIVATE = """
import os, sys
os.dup2(int(sys.argv[1]), 3)
os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS="1")
os.execv(sys.argv[2], sys.argv[2:])
"""


@pytest.fixture
def given() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0), backlog=64) as sock:
        yield sock


def activate(start: Start, root: Path, given: socket.socket, *more: str) -> Box:
    prefix = [sys.executable, "-c", ACTIVATE, str(given.fileno())]
    return start("--root", str(root), *more, prefix=prefix, pass_fds=[given.fileno()])


def test_sockets_of_systemd_are_served_instead_of_addresses(
    start: Start, root: Path, given: socket.socket
) -> None:
    box = activate(start, root, given, "--workers", "2")
    assert box.port == given.getsockname()[1]
    assert ask(box).body == HELLO
    box.signal(signal.SIGHUP)
    before = set(box.workers)
    wait_until(lambda: len(set(box.workers) - before) == 2, READY)
    wait_until(lambda: not before & set(box.workers), READY)
    assert ask(box).body == HELLO


def test_nobody_is_lost_across_a_restart_with_sockets_of_systemd(
    start: Start, root: Path, given: socket.socket
) -> None:
    box = activate(start, root, given)
    box.signal(signal.SIGQUIT)
    assert box.wait(30) == 0
    with box.connect() as waiting:
        waiting.sendall(b"GET / HTTP/1.0\r\n\r\n")
        again = activate(start, root, given)
        assert waiting.recv(65536).endswith(HELLO)
        again.signal(signal.SIGTERM)
        assert again.wait() == 0


class Manager:
    """Who listens at $NOTIFY_SOCKET."""

    def __init__(self, path: Path) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.sock.bind(str(path))
        self.sock.settimeout(READY)
        self.environment = os.environ | {
            "NOTIFY_SOCKET": str(path), "CACHE_DIRECTORY": str(path.parent / "cache"),
        }  # fmt: skip

    def hear(self, wanted: str) -> dict[str, str]:
        """The next message that has `wanted` in it."""
        deadline = time.monotonic() + READY
        while time.monotonic() < deadline:
            lines = self.sock.recv(4096).decode().split("\n")
            told = dict(line.split("=", 1) for line in lines)
            if wanted in told:
                return told
        raise AssertionError(f"{wanted} was never told")


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[Manager]:
    one = Manager(tmp_path / "notify")
    yield one
    one.sock.close()


def test_systemd_is_told_of_each_state(
    start: Start, tmp_path: Path, root: Path, manager: Manager
) -> None:
    file = tmp_path / "edgebox.toml"
    file.write_text(f'[[site]]\nroot = "{root}"\n[log]\nerror = "off"\n')
    box = start("-c", str(file), env=manager.environment)
    assert manager.hear("READY")["MAINPID"] == str(box.process.pid)
    box.signal(signal.SIGHUP)
    assert int(manager.hear("RELOADING")["MONOTONIC_USEC"]) > 0
    assert manager.hear("READY")["STATUS"]
    file.write_text("nonsense = 1")
    box.signal(signal.SIGHUP)
    manager.hear("RELOADING")
    assert manager.hear("READY")["STATUS"] == "reload failed, all goes on as before"
    box.signal(signal.SIGQUIT)
    manager.hear("STOPPING")
    assert box.wait() == 0


def test_the_watchdog_is_fed_only_while_workers_move(
    start: Start, tmp_path: Path, root: Path, manager: Manager
) -> None:
    file = tmp_path / "edgebox.toml"
    file.write_text(f'[server]\nhang = "60s"\n[[site]]\nroot = "{root}"\n')
    fed = manager.environment | {"WATCHDOG_USEC": "4000000"}
    box = start("-c", str(file), env=fed)
    manager.hear("READY")
    manager.hear("WATCHDOG")
    manager.hear("WATCHDOG")
    os.kill(box.worker, signal.SIGKILL)  # it comes back, and so does the food
    manager.hear("WATCHDOG")
    file.write_text(file.read_text().replace("60s", "2s"))
    box.signal(signal.SIGHUP)
    manager.hear("READY")
    wait_until(lambda: len(box.workers) == 1, READY)
    hung = box.worker
    os.kill(hung, signal.SIGSTOP)
    wait_until(lambda: hung not in box.workers, READY)
    manager.hear("WATCHDOG")


def status_of(pid: int) -> dict[str, str]:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


@pytest.fixture
def open_path() -> Iterator[Path]:
    """A directory that anybody can get to, unlike those of pytest."""
    if os.geteuid() != 0:
        lack("needs root")
    directory = Path(tempfile.mkdtemp(prefix="edgebox-"))
    directory.chmod(0o755)
    yield directory
    shutil.rmtree(directory, ignore_errors=True)


def can_start_python(user: str) -> bool:
    """Not where it lies below /root, say."""
    try:
        return not subprocess.run([sys.executable, "-c", ""], user=user, check=False).returncode
    except PermissionError:
        return False


def test_workers_of_root_become_the_user_and_can_still_do_all(
    start: Start, root: Path, open_path: Path
) -> None:
    root = Path(shutil.copytree(root, open_path / "www"))
    nobody = pwd.getpwnam("nobody")
    logs = open_path / "log"
    logs.mkdir()
    os.chown(logs, nobody.pw_uid, nobody.pw_gid)
    file = open_path / "edgebox.toml"
    file.write_text(
        f'[server]\nuser = "nobody"\nlandlock = "always"\n'
        f'[log]\naccess = "{logs}/access.log"\nerror = "{logs}/error.log"\n'
        f'[compression]\ndir = "{open_path}/variants"\n[[site]]\nroot = "{root}"\n'
    )
    (root / "text.txt").write_text("squeeze me " * 1000)
    box = start("-c", str(file))
    status = status_of(box.worker)
    assert status["Uid"].split() == [str(nobody.pw_uid)] * 4
    assert status["Gid"].split() == [str(nobody.pw_gid)] * 4
    assert status["NoNewPrivs"] == "1"
    assert int(status["CapEff"], 16) == int(status["CapPrm"], 16) == 0
    assert status_of(box.process.pid)["Uid"].split()[0] == "0"
    coded = {"accept_encoding": "br"}
    if can_start_python("nobody"):  # then a helper makes a variant, which inherits all this
        wait_until(
            lambda: ask(box, "/text.txt", **coded).headers.get("content-encoding") == "br", READY
        )
    (logs / "access.log").rename(logs / "old.log")
    box.signal(signal.SIGUSR1)
    wait_until((logs / "access.log").exists)
    wait_until(lambda: ask(box) and "GET / " in (logs / "access.log").read_text())
    assert (logs / "access.log").stat().st_uid == nobody.pw_uid
    before = box.worker
    box.signal(signal.SIGHUP)
    wait_until(lambda: before not in box.workers and box.workers, READY)
    assert ask(box, "/big.bin").body == (root / "big.bin").read_bytes()
    assert "error" not in (logs / "error.log").read_text()


def test_landlock_hides_what_is_not_served(start: Start, root: Path, tmp_path: Path) -> None:
    if not landlock_version():
        lack("needs a kernel with landlock")
    releases = tmp_path / "releases"
    for number in ("1", "2"):
        (releases / number).mkdir(parents=True)
        (releases / number / "index.html").write_text(number)
    (tmp_path / "now").symlink_to(releases / "1")
    file = tmp_path / "edgebox.toml"
    file.write_text(f'[server]\nlandlock = "always"\n[[site]]\nroot = "{tmp_path}/now"\n')
    box = start("-c", str(file))
    assert ask(box).body == b"1"
    (tmp_path / "next").symlink_to(releases / "2")
    (tmp_path / "next").rename(tmp_path / "now")
    wait_until(lambda: ask(box).body == b"2")  # a release beside the last one
    (tmp_path / "next").symlink_to(root)
    (tmp_path / "next").rename(tmp_path / "now")
    wait_until(lambda: ask(box).status == 403)  # elsewhere: not without a reload
    before = box.worker
    box.signal(signal.SIGHUP)
    wait_until(lambda: before not in box.workers and box.workers, READY)
    assert ask(box).body == HELLO


def test_landlock_is_no_hindrance_to_a_disk_cache(before: Before, origin_url: str) -> None:
    if not landlock_version():
        lack("needs a kernel with landlock")
    box = before(origin_url, server={"landlock": "always"})
    assert ask(box, "/kept").body == b"from the origin"
    reloaded = box.worker
    box.signal(signal.SIGHUP)
    wait_until(lambda: reloaded not in box.workers and box.workers, READY)
    assert "hit" in ask(box, "/kept").headers["cache-status"]


@pytest.fixture
def origin_url(tmp_path: Path) -> Iterator[str]:
    """An app server whose answers may be kept."""
    code = (
        "import http.server\n"
        "class H(http.server.BaseHTTPRequestHandler):\n"
        "    def do_GET(self):\n"
        "        self.send_response(200)\n"
        "        self.send_header('Cache-Control', 'max-age=600')\n"
        "        self.send_header('Content-Length', '15')\n"
        "        self.end_headers()\n"
        "        self.wfile.write(b'from the origin')\n"
        "s = http.server.ThreadingHTTPServer(('127.0.0.1', 0), H)\n"
        "print(s.server_port, flush=True)\n"
        "s.serve_forever()\n"
    )
    command = [sys.executable, "-c", code]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as app:
        assert app.stdout is not None
        yield f"http://127.0.0.1:{int(app.stdout.readline())}"
        app.terminate()


def test_below_a_chroot_files_are_served_and_reloads_work(start: Start, open_path: Path) -> None:
    jail = open_path / "jail"
    for name in ("www", "log", "proc"):
        (jail / name).mkdir(parents=True)
    os.chown(jail / "log", pwd.getpwnam("nobody").pw_uid, -1)
    (jail / "www" / "index.html").write_bytes(HELLO)
    mount = ["mount", "-t", "proc", "proc", str(jail / "proc")]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        lack("needs to be allowed to mount /proc")
    try:
        file = open_path / "edgebox.toml"
        file.write_text(
            f'[server]\nuser = "nobody"\nchroot = "{jail}"\n[log]\nerror = "{jail}/log/e"\n'
            f'access = "{jail}/log/a"\n[[site]]\nroot = "{jail}/www"\n'
        )
        box = start("-c", str(file))
        assert os.readlink(f"/proc/{box.worker}/root") == str(jail)
        assert ask(box).body == HELLO
        before = box.worker
        box.signal(signal.SIGHUP)
        wait_until(lambda: before not in box.workers and box.workers, READY)
        assert ask(box).body == HELLO
        assert ask(box, "/none").status == 404
        box.signal(signal.SIGTERM)
        assert box.wait() == 0
        assert (jail / "log" / "a").read_text().count("GET / ") == 2
        assert "error" not in (jail / "log" / "e").read_text()
    finally:
        subprocess.run(["umount", "-l", str(jail / "proc")], check=False)


def test_a_user_that_cannot_be_had_is_one_line(root: Path, tmp_path: Path) -> None:
    file = tmp_path / "edgebox.toml"
    file.write_text(f'[server]\nuser = "no such"\n[[site]]\nroot = "{root}"\n')
    done = subprocess.run(
        [sys.executable, "-m", "edgebox", "serve", "-c", str(file), "--listen", "127.0.0.1:0"],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr == "edgebox: server.user: there is no user 'no such'\n"
