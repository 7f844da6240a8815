"""What is planned for RAM holds under floods: of large objects, of distinct heads, of slow readers.

The plan is for a box with little memory, so that each flood is far larger than its share. What
counts is the memory that the server's processes have to themselves, at its most.
"""

from __future__ import annotations

import http.client
import json
import os
import random
import re
import resource
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from edgebox.config.load import load
from edgebox.ops.sizing.sizing import size
from edgebox.plan.family import resident, resident_of, sockets
from edgebox.plan.figures import Plan
from tests.box.conftest import Box, Start, lack, wait_until
from tests.wire import PATIENCE

pytestmark = pytest.mark.slow

MIB = 1024 * 1024
OBJECTS = 300
SPARE = 1.1  # of the plan's sum


@dataclass
class Budget:
    """A running box, and what was planned for it."""

    box: Box
    plan: Plan

    def value(self, key: str) -> int:
        return int(self.plan.value(key) or 0)

    @property
    def planned(self) -> int:
        """Bytes of the processes, of what they keep, and of connections."""
        keys = ("memory.processes", "files.working_set", "memory.connections")
        return sum(map(self.value, keys))

    @contextmanager
    def kept(self, without: int = 0) -> Iterator[None]:
        """In the block, resident memory stays within the plan, of which `without` is not used."""
        done, peaks = threading.Event(), [0]

        def watch() -> None:
            while not done.wait(0.02):
                peaks.append(resident(self.box.process.pid))

        watcher = threading.Thread(target=watch)
        watcher.start()
        try:
            yield
        finally:
            done.set()
            watcher.join()
        most = (self.planned - without) * SPARE
        assert max(peaks) <= most, f"{max(peaks) / MIB:.0f} MiB of {most / MIB:.0f}"


@pytest.fixture
def budget(tmp_path: Path, start: Start) -> Callable[..., Budget]:
    root = tmp_path / "www"
    root.mkdir()
    (root / "small.txt").write_bytes(b"small")

    def begin(memory: str = "300 MiB", **popen: object) -> Budget:
        file = tmp_path / "edgebox.toml"
        file.write_text(
            f'[server]\nworkers = 1\n[plan]\nmemory = "{memory}"\n'
            f'[compression]\nenabled = false\n[[site]]\nhosts = ["*"]\nroot = "{root}"\n'
        )
        return Budget(start("-c", str(file), **popen), size(load(file)).plan)

    return begin


def fill(root: Path) -> int:
    """Objects of many sizes that go into RAM; all their bytes."""
    draw = random.Random(1)
    sizes = [draw.randint(20, 1000) * 1024 for _ in range(OBJECTS)]
    for number, octets in enumerate(sizes):
        (root / f"{number}.bin").write_bytes(os.urandom(octets))
    return sum(sizes)


def crowd(clients: int, visit: Callable[[int], None]) -> None:
    """So many clients at once, each in a thread; what one raises, the crowd raises."""
    problems: list[BaseException] = []

    def run(number: int) -> None:
        try:
            visit(number)
        except BaseException as problem:
            problems.append(problem)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if problems:
        raise problems[0]


def test_a_flood_of_large_objects(budget: Callable[..., Budget], tmp_path: Path) -> None:
    total = fill(tmp_path / "www")
    found = budget()
    assert total > 1.3 * found.value("files.working_set")

    def visit(number: int) -> None:
        draw = random.Random(number)
        connection = http.client.HTTPConnection("127.0.0.1", found.box.port, timeout=PATIENCE)
        for _ in range(300):
            connection.request("GET", f"/{draw.randrange(OBJECTS)}.bin")
            assert connection.getresponse().read()
        connection.close()

    with found.kept(without=found.value("memory.connections")):
        crowd(4, visit)


def test_a_flood_of_distinct_heads(budget: Callable[..., Budget]) -> None:
    """Each comes twice, so that it is worth remembering; each decides, so nothing is shared."""
    found = budget()

    def visit(number: int) -> None:
        with socket.create_connection(("127.0.0.1", found.box.port), PATIENCE) as sock:
            for count in range(2000):
                mark = f"{number}-{count}-".encode() * 150
                head = (
                    b"GET /small.txt HTTP/1.1\r\nHost: a\r\nAccept-Encoding: " + mark
                    + b"\r\nCookie: " + mark + b"\r\n\r\n"
                )  # fmt: skip
                for _ in range(2):
                    sock.sendall(head)
                    answer = b""
                    while not answer.endswith(b"\r\n\r\nsmall"):
                        octets = sock.recv(65536)
                        assert octets, answer
                        answer += octets

    # None of the objects is in RAM, so that all of their share stays unused.
    unused = found.value("memory.connections") + found.value("files.working_set")
    with found.kept(without=unused):
        crowd(4, visit)


@pytest.mark.alone  # what waits in sockets is the machine's
def test_a_flood_of_slow_readers(budget: Callable[..., Budget], tmp_path: Path) -> None:
    fill(tmp_path / "www")
    (tmp_path / "www" / "large").write_bytes(b"x" * 8 * MIB)
    found = budget()
    limit = found.value("limits.connections")
    clients = min(limit, 2000)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, clients + 500)), hard))
    before, readers = sockets(), []
    with ExitStack() as stack, found.kept():
        for number in range(clients):
            client = stack.enter_context(socket.socket())
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.settimeout(6 * PATIENCE)  # some wait for a thousand reads
            client.connect(("127.0.0.1", found.box.port))
            path = "large" if number % 2 else f"{number // 2 % OBJECTS}.bin"
            client.sendall(f"GET /{path} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
            readers.append(client)
        for client in readers:  # each is being answered
            assert client.recv(1) == b"H"
        held = sockets() - before
        # What is on its way is bounded by what such a client takes: here, a few segments.
        each = found.value("limits.send_buffer") + 64 * 1024
        assert held <= clients * each
    with socket.create_connection(("127.0.0.1", found.box.port), PATIENCE) as sock:
        sock.sendall(b"GET /small.txt HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        assert sock.recv(100).startswith(b"HTTP/1.1 200 ")


def test_what_a_crowd_took_goes_back_once_it_has_left(
    budget: Callable[..., Budget], tmp_path: Path
) -> None:
    """With the C library's allocator: Python's own returns a part of it."""
    with (tmp_path / "www" / "large").open("wb") as large:
        large.truncate(10**9)
    environment = os.environ | {"PYTHONMALLOC": "malloc", "CACHE_DIRECTORY": str(tmp_path)}
    box, clients = budget("2 GiB", env=environment).box, 4000
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, clients + 500)), hard))
    gauges(box)
    before = resident_of([box.worker])
    with ExitStack() as stack:
        for _ in range(clients):
            client = stack.enter_context(socket.socket())
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.settimeout(PATIENCE)
            client.connect(("127.0.0.1", box.port))
            client.sendall(b"GET /large HTTP/1.1\r\nHost: a\r\n\r\n")
        wait_until(lambda: gauges(box)["connections"] >= clients)
        assert resident_of([box.worker]) > 1.15 * before
    wait_until(lambda: resident_of([box.worker]) < 1.1 * before, 30)


GROUPS = Path("/sys/fs/cgroup/memory")


@pytest.fixture
def group() -> Iterator[Path]:
    """A control group of our own, with a limit on memory."""
    if os.geteuid() or not (GROUPS / "memory.limit_in_bytes").exists():
        lack(f"needs root and a memory controller of version 1 at {GROUPS}")
    made = GROUPS / f"edgebox-test-{os.getpid()}"
    made.mkdir()
    (made / "memory.limit_in_bytes").write_text(str(600 * MIB))
    try:
        yield made
    finally:
        wait_until(lambda: not (made / "cgroup.procs").read_text())
        made.rmdir()


def gauges(box: Box) -> dict[str, int]:
    with socket.socket(socket.AF_UNIX) as sock:
        sock.connect(box.control)
        sock.sendall(b'{"verb": "stats"}\n')
        told: dict[str, dict[str, int]] = json.loads(sock.makefile().readline())
    return told["gauges"]


def test_a_limit_that_is_moved_is_planned_for_while_it_serves(
    budget: Callable[..., Budget], group: Path, tmp_path: Path
) -> None:
    fill(tmp_path / "www")

    def join() -> None:
        (group / "cgroup.procs").write_text(str(os.getpid()))

    with ExitStack() as stack:
        found = budget("4 GiB", preexec_fn=join)
        box = found.box
        stack.callback(box.process.wait)
        stack.callback(box.process.terminate)
        wait_until(lambda: gauges(box)["connections_limit"])
        before = gauges(box)
        connection = http.client.HTTPConnection("127.0.0.1", box.port, timeout=PATIENCE)
        for number in range(OBJECTS):
            connection.request("GET", f"/{number}.bin")
            connection.getresponse().read()
        wait_until(lambda: gauges(box)["ram_held"] > 100 * MIB)
        (group / "memory.limit_in_bytes").write_text(str(350 * MIB))
        wait_until(lambda: gauges(box)["connections_limit"] < before["connections_limit"], 30)
        after = gauges(box)
        assert after["ram_budget"] < before["ram_budget"]
        assert after["ram_held"] <= after["ram_budget"]
        connection.request("GET", "/small.txt")  # on the connection that was there before
        assert connection.getresponse().read() == b"small"
        connection.close()
        box.process.terminate()
        _, errors = box.process.communicate(timeout=20)
    assert re.search(r"re-planned: memory limit now 350 MiB: connections [\d,]+ → ", errors)
