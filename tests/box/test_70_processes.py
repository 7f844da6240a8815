"""Supervisor and workers: who dies, hangs or is replaced costs only what it had in hand."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

import edgebox
from edgebox.ops.processes.inheritance import VARIABLE
from perf.processes import alive
from tests.box.conftest import Box, Start, ask, children_of, wait_until
from tests.box.crowd import Crowd
from tests.conftest import HELLO

pytestmark = pytest.mark.slow

READY = 30.0  # seconds that new workers may take on a busy machine
REQUEST = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"


@pytest.fixture
def file(tmp_path: Path, root: Path) -> Path:
    """An edgebox.toml to change."""
    file = tmp_path / "edgebox.toml"
    write(file, root)
    return file


def write(file: Path, root: Path, server: str = "", mark: str = "1") -> None:
    file.write_text(
        f'[server]\ndrain = "5s"\n{server}\n[log]\nerror = "{file.parent}/error.log"\n'
        f'[limits]\nhead_timeout = "60s"\n[compression]\nenabled = false\n'
        f'[[site]]\nroot = "{root}"\n[site.headers]\nX-Mark = "{mark}"\n'
    )


def mark(box: Box) -> str:
    return ask(box, "/").headers["x-mark"]


def log_of(file: Path) -> str:
    log = file.parent / "error.log"
    return log.read_text() if log.exists() else ""


def answered(box: Box) -> bool:
    """Whether a client gets his answer who has patience."""
    with box.connect() as sock:
        sock.settimeout(READY)
        sock.sendall(REQUEST)
        return sock.recv(65536).endswith(HELLO)


def refused(box: Box) -> bool:
    try:
        box.connect().close()
    except ConnectionRefusedError:
        return True
    return False


def test_workers_share_the_load(start: Start, file: Path) -> None:
    box = start("-c", str(file), "--workers", "2")
    assert len(box.workers) == 2

    def sockets(pid: int) -> int:
        links = [os.readlink(link) for link in Path(f"/proc/{pid}/fd").iterdir()]
        return sum(link.startswith("socket:") for link in links)

    before = {pid: sockets(pid) for pid in box.workers}
    with ExitStack() as stack:
        for _ in range(64):
            sock = stack.enter_context(box.connect())
            sock.sendall(REQUEST)
            assert sock.recv(65536).endswith(HELLO)
        # The kernel spreads by a hash of addresses: a worker with none of 64 would be a wonder.
        assert all(sockets(pid) - before[pid] > 5 for pid in box.workers)


def test_a_worker_that_dies_is_replaced(start: Start, file: Path) -> None:
    box = start("-c", str(file))
    for _ in range(2):
        before = box.worker
        os.kill(before, signal.SIGKILL)
        wait_until(lambda before=before: box.workers not in ([], [before]), READY)
        assert answered(box)  # whoever came meanwhile has waited in the queue
    assert "a worker has ended: SIGKILL" in log_of(file)
    box.signal(signal.SIGTERM)
    assert box.wait() == 0


def test_a_death_under_load_costs_only_what_was_in_hand(start: Start, file: Path) -> None:
    box = start("-c", str(file), "--workers", "2")
    with Crowd(box.port, 20) as crowd:
        wait_until(lambda: crowd.tally.answered > 200)
        victim = box.workers[0]
        os.kill(victim, signal.SIGKILL)
        wait_until(lambda: len(box.workers) == 2 and victim not in box.workers, READY)
        before = crowd.tally.answered
        wait_until(lambda: crowd.tally.answered > before + 200)
    assert crowd.tally.refused == 0
    assert len(crowd.tally.lost or []) <= 20  # one on each connection at the most


def test_a_worker_that_hangs_is_replaced(start: Start, file: Path, root: Path) -> None:
    write(file, root, 'hang = "2s"')
    box = start("-c", str(file))
    before = box.worker
    os.kill(before, signal.SIGSTOP)
    wait_until(lambda: not alive(before), 20)
    assert answered(box)
    assert "no sign of life" in log_of(file)


def test_without_the_supervisor_workers_answer_what_they_have_and_end(
    start: Start, file: Path
) -> None:
    box = start("-c", str(file))
    worker = box.worker
    with box.connect() as held:
        held.sendall(b"GET / HTTP/1.1\r\nHo")
        time.sleep(0.2)
        box.process.kill()
        box.wait()
        wait_until(lambda: refused(box))  # another server may have the port
        assert alive(worker)
        held.sendall(b"st: x\r\n\r\n")
        assert held.recv(65536).endswith(HELLO)
    wait_until(lambda: not alive(worker))


def test_what_a_worker_cannot_do_is_one_line_and_exit_1(root: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "edgebox", "serve", "--root", str(root), "--listen", "127.0.0.1:0",
         "--access-log", str(tmp_path)],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr == f"edgebox: [Errno 21] Is a directory: '{tmp_path}'\n"


def test_a_reload_takes_up_the_file(start: Start, file: Path, root: Path) -> None:
    box = start("-c", str(file), "--workers", "2")
    before = set(box.workers)
    with box.connect() as held:
        held.sendall(b"GET / HTTP/1.1\r\nHo")
        write(file, root, mark="2")
        box.signal(signal.SIGHUP)
        wait_until(lambda: mark(box) == "2", READY)
        held.sendall(b"st: x\r\n\r\n")
        assert b"X-Mark: 1" in held.recv(65536)  # by the one who had it in hand
    wait_until(lambda: len(box.workers) == 2 and not before & set(box.workers), READY)


def test_a_reload_may_change_how_many_and_where(file: Path, root: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        other = free.getsockname()[1]
    path = file.parent / "s"
    write(file, root, f'listen = ["127.0.0.1:0", "unix:{path}"]\nworkers = 1')
    command = [sys.executable, "-m", "edgebox", "serve", "-c", str(file)]
    environment = os.environ | {"RUNTIME_DIRECTORY": str(file.parent)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as served:
        try:
            assert served.stdout is not None
            box = Box(served, served.stdout.readline().split()[3])
            assert ask(box, "/").body == HELLO
            assert path.is_socket()
            write(file, root, f'listen = ["127.0.0.1:0", "127.0.0.1:{other}"]\nworkers = 3', "2")
            box.signal(signal.SIGHUP)
            wait_until(lambda: mark(box) == "2", READY)
            wait_until(lambda: not path.exists(), READY)  # when all of them serve
            elsewhere = Box(served, f"http://127.0.0.1:{other}/")
            assert mark(elsewhere) == "2"
            wait_until(lambda: len(box.workers) == 3, READY)
            write(file, root, 'listen = ["127.0.0.1:0"]\nworkers = 2', "3")
            box.signal(signal.SIGHUP)
            wait_until(lambda: mark(box) == "3", READY)
            wait_until(lambda: len(box.workers) == 2, READY)
            assert [mark(box) for _ in range(30)] == ["3"] * 30  # on each of its three sockets
            with pytest.raises(ConnectionRefusedError):
                elsewhere.connect()
        finally:
            served.terminate()


@pytest.mark.parametrize("wrong", ["nonsense = 1", 'listen = ["127.0.0.1:1"]\nuser = "no such"'])
def test_a_reload_that_cannot_be_leaves_all_as_it_was(
    start: Start, file: Path, root: Path, wrong: str
) -> None:
    box = start("-c", str(file))
    before = box.worker
    write(file, root, wrong, mark="2")
    box.signal(signal.SIGHUP)
    wait_until(lambda: "reload failed" in log_of(file), READY)
    assert box.worker == before
    assert mark(box) == "1"
    write(file, root, mark="3")
    box.signal(signal.SIGHUP)
    wait_until(lambda: mark(box) == "3", READY)


def test_workers_that_fail_leave_all_as_it_was(start: Start, file: Path, root: Path) -> None:
    box = start("-c", str(file))
    before = box.worker
    file.write_text(file.read_text().replace("[log]", f'[log]\naccess = "{root}"'))
    box.signal(signal.SIGHUP)
    wait_until(lambda: "reload failed" in log_of(file), READY)
    assert "Is a directory" in log_of(file)
    wait_until(lambda: box.workers == [before])
    assert mark(box) == "1"


def test_fifty_reloads_under_load_lose_no_request(start: Start, file: Path, root: Path) -> None:
    box = start("-c", str(file))
    with Crowd(box.port, 20) as crowd:
        for number in range(50):
            write(file, root, mark=f"m{number}")
            box.signal(signal.SIGHUP)
            wait_until(lambda number=number: mark(box) == f"m{number}", READY)
    assert "reload failed" not in log_of(file)
    assert crowd.tally.answered > 1000
    assert crowd.tally.lost == []
    assert crowd.tally.refused == 0


def test_winch_lets_workers_go_and_keeps_the_sockets(start: Start, file: Path) -> None:
    box = start("-c", str(file), start_new_session=True)  # away from any terminal
    box.signal(signal.SIGWINCH)
    wait_until(lambda: not box.workers)
    with box.connect() as waiting:
        waiting.sendall(REQUEST)
        box.signal(signal.SIGHUP)
        waiting.settimeout(READY)
        assert waiting.recv(65536).endswith(HELLO)
    assert box.process.poll() is None


def successors(box: Box) -> list[int]:
    """Supervisors that it has started. By what they inherit: between fork and exec a worker, too,
    has the supervisor's command."""
    found = []
    for pid in children_of(box.process.pid):
        with suppress(OSError):
            if f"{VARIABLE}=".encode() in Path(f"/proc/{pid}/environ").read_bytes():
                found.append(pid)
    return found


def test_an_upgrade_under_load_loses_no_request(start: Start, file: Path, root: Path) -> None:
    box = start("-c", str(file), "--workers", "2")
    with Crowd(box.port, 20) as crowd:
        wait_until(lambda: crowd.tally.answered > 100)
        write(file, root, mark="2")
        box.signal(signal.SIGUSR2)
        wait_until(lambda: successors(box), READY)
        (successor,) = successors(box)
        assert box.wait(60) == 0
        before = crowd.tally.answered
        wait_until(lambda: crowd.tally.answered > before + 100)
    assert mark(box) == "2"
    assert crowd.tally.lost == []
    assert crowd.tally.refused == 0
    assert alive(successor)
    with socket.socket(socket.AF_UNIX) as operator:  # its tools find the new one
        operator.settimeout(10)
        wait_until(lambda: operator.connect_ex(box.control) == 0)
        operator.sendall(b'{"verb": "stop"}\n')
        assert operator.recv(1000) == b'{"ok":true}\n'
    wait_until(lambda: not alive(successor))
    assert not Path(box.control).exists()
    with pytest.raises(ConnectionRefusedError):
        box.connect()


def test_an_upgrade_that_fails_leaves_all_as_it_was(start: Start, file: Path, root: Path) -> None:
    box = start("-c", str(file))
    before = box.worker
    write(file, root, "nonsense = 1", mark="2")
    box.signal(signal.SIGUSR2)
    wait_until(lambda: "upgrade failed" in log_of(file), READY)
    assert box.worker == before
    assert mark(box) == "1"
    assert not successors(box)
    write(file, root, mark="3")
    box.signal(signal.SIGHUP)
    wait_until(lambda: mark(box) == "3", READY)


def test_a_worker_of_code_that_was_installed_meanwhile_brings_its_supervisor(
    start: Start, file: Path
) -> None:
    installed = Path(shutil.copytree(Path(edgebox.__file__).parent, file.parent / "edgebox"))
    environment = os.environ | {"PYTHONPATH": str(file.parent)}
    box = start("-c", str(file), env=environment, cwd=file.parent)
    pages = installed / "observe" / "pages.py"
    counted = "NUMBERS: tuple[str, ...] = ("
    pages.write_text(pages.read_text().replace(counted, counted + '"new", '))
    os.kill(box.worker, signal.SIGKILL)
    wait_until(lambda: successors(box), READY)
    assert box.wait(60) == 0
    assert ask(box, "/").body == HELLO


def test_who_is_told_to_end_takes_an_unfinished_successor_along(start: Start, file: Path) -> None:
    box = start("-c", str(file))
    box.signal(signal.SIGUSR2)
    wait_until(lambda: successors(box), READY)
    (successor,) = successors(box)
    box.signal(signal.SIGTERM)
    assert box.wait(20) == 0
    wait_until(lambda: not alive(successor))
    wait_until(lambda: refused(box), READY)


def test_logs_are_opened_again_by_all(start: Start, file: Path) -> None:
    log = file.parent / "access.log"
    box = start("-c", str(file), "--workers", "2", "--access-log", str(log))
    log.rename(file.parent / "old.log")
    box.signal(signal.SIGUSR1)
    wait_until(log.exists)
    time.sleep(0.2)  # the other worker, too
    for _ in range(30):
        ask(box, "/a.txt")
    box.signal(signal.SIGTERM)
    box.wait()
    assert log.read_text().count("GET /a.txt") == 30
