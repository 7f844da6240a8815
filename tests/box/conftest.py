"""Whole processes: `edgebox serve` as an operator starts it, and the tools that visit it."""

from __future__ import annotations

import ctypes
import http.client
import json
import os
import random
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import pytest

from perf.processes import marked
from tests.box.apps.running import AppServer, gunicorn
from tests.wire import PATIENCE, Server, configure, unharmed

START = 30  # seconds that a process may take to say that it is ready


@dataclass
class Box:
    """A running `edgebox serve`: the supervisor, with one worker unless told otherwise.

    `control` is the path of its control socket.
    """

    process: subprocess.Popen[str]
    url: str
    control: str = ""

    @property
    def port(self) -> int:
        return int(self.url.rstrip("/").rpartition(":")[2])

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def wait(self, seconds: float = 10) -> int:
        return self.process.wait(seconds)

    @property
    def workers(self) -> list[int]:
        """Process ids of those that serve."""
        return sorted(
            pid
            for pid in children_of(self.process.pid)
            if b"edgebox.ops.processes.child" in command_of(pid)
        )

    @property
    def worker(self) -> int:
        """The process id of the only one."""
        (pid,) = self.workers
        return pid

    def descriptors(self) -> set[int]:
        """Of the worker, as all that follows."""
        return {int(number) for number in os.listdir(f"/proc/{self.worker}/fd")}

    def cpu_seconds(self) -> float:
        """Processor time so far; proc(5): fields 14 and 15 of stat."""
        stat = Path(f"/proc/{self.worker}/stat").read_text()
        ticks = stat.rpartition(")")[2].split()[11:13]
        return sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")

    def peak_memory(self) -> int:
        """Octets of RAM, the most that it and its children had; proc(5): VmHWM of status."""
        pids, peak = [str(self.process.pid)], 0
        for pid in pids:
            with suppress(OSError):  # a child that has just ended
                status = Path(f"/proc/{pid}/status").read_text()
                if "VmHWM:" not in status:  # it has ended and waits to be reaped
                    continue
                peak += 1024 * int(status.partition("VmHWM:")[2].split()[0])
                for children in Path(f"/proc/{pid}/task").glob("*/children"):
                    pids += children.read_text().split()
        return peak

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE)

    @contextmanager
    def no_descriptors_left(self) -> Iterator[None]:
        """In the block it can open nothing more."""
        pid, taken = self.worker, self.descriptors()
        lowest_free = min(set(range(len(taken) + 1)) - taken)
        soft, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (lowest_free, hard))
        try:
            yield
        finally:
            resource.prlimit(pid, resource.RLIMIT_NOFILE, (soft, hard))


def children_of(pid: int) -> list[int]:
    """Processes that `pid` has started and that are not reaped; none if it has ended."""
    found: list[int] = []
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):
            found += map(int, path.read_text().split())
    return found


def command_of(pid: int) -> bytes:
    """Its arguments, with NUL between; b"" if it has ended."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""


def wait_until(condition: Callable[[], object], seconds: float = PATIENCE) -> None:
    """Look again and again; AssertionError if it never comes true."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(0.01)


def free_port() -> int:
    """A port of loopback that nobody has. Not one of those that the kernel gives to whoever asks
    for any: what runs beside us would have it before we do."""
    first, last = map(int, Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split())
    ours = [port for port in range(10000, 65536) if not first <= port <= last]
    for port in random.choices(ours or range(10000, 65536), k=100):
        with socket.socket() as taken, suppress(OSError):
            taken.bind(("127.0.0.1", port))
            return port
    pytest.fail("no port is free")


Start = Callable[..., Box]
Arena = Callable[..., AbstractAsyncContextManager[Server]]


@pytest.fixture(params=[True, False], ids=["lane", "tasks"])
def arena(request: pytest.FixtureRequest, root: Path, tmp_path: Path) -> Arena:
    """In-process servers of `root` that must come out of the block unharmed, lane or not.

    arena(limits={...}, site={...}) changes single keys, as `configure` does.
    """

    def enter(**tables: dict[str, object]) -> AbstractAsyncContextManager[Server]:
        tables["server"] = {"express": request.param} | tables.get("server", {})
        return unharmed(configure(root, **tables), tmp_path / "error.log")

    return enter


@dataclass(frozen=True)
class Reply:
    """What a box answered."""

    status: int
    headers: dict[str, str]
    body: bytes


def ask(box: Box, path: str = "/", method: str = "GET", **headers: str) -> Reply:
    """One request on a connection of its own; `accept_encoding=` is Accept-Encoding."""
    connection = http.client.HTTPConnection("127.0.0.1", box.port, timeout=PATIENCE)
    try:
        fields = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, path, headers=fields)
        response = connection.getresponse()
        fields = {name.lower(): value for name, value in response.getheaders()}
        return Reply(response.status, fields, response.read())
    finally:
        connection.close()


def drop_privilege() -> None:
    """Between fork and exec: what is run next obeys permission bits, even if it is root's."""
    libc = ctypes.CDLL(None)
    for capability in (1, 2):  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH; capabilities(7)
        libc.prctl(24, capability, 0, 0, 0)  # PR_CAPBSET_DROP; refused unless root, who has them


def end_all(runtime: str) -> None:
    """A box's whole family: who comes after it or outlives it has its pipes, and may keep them."""
    for pid in marked(f"RUNTIME_DIRECTORY={runtime}"):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


@contextmanager
def running(
    *arguments: str, cwd: Path | None = None, unprivileged: bool = False,
    prefix: Sequence[str] = (), **popen: object,
) -> Iterator[Box]:  # fmt: skip
    """A box that ends with the block. `prefix`: a command that is to execute ours."""
    if unprivileged:
        popen["preexec_fn"] = drop_privilege
    if "--workers" not in arguments:
        arguments += ("--workers", "1")
    runtime = tempfile.mkdtemp(prefix="edgebox-")
    environment = {**(popen.pop("env", None) or os.environ), "RUNTIME_DIRECTORY": runtime}  # type: ignore[dict-item]
    process = subprocess.Popen(
        [*prefix, sys.executable, "-m", "edgebox", "serve", *arguments], env=environment,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=cwd, **popen,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        ready = re.search(r"ready on (\S+)", line)
        if ready is None:
            process.kill()
            end_all(runtime)
            raise AssertionError(f"not ready: {line!r} {process.communicate()[1]}")
        yield Box(process, ready[1], f"{runtime}/control.sock")
    finally:
        if process.poll() is None:
            process.terminate()
            with suppress(subprocess.TimeoutExpired):
                process.wait(10)
        end_all(runtime)
        process.communicate()
        shutil.rmtree(runtime, ignore_errors=True)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start boxes that end with the test; port and access log are chosen unless given."""
    from contextlib import ExitStack

    with ExitStack() as stack:

        def start_one(*arguments: str, **popen: object) -> Box:
            if "--listen" not in arguments:
                arguments += ("--listen", "127.0.0.1:0")
            popen.setdefault("env", os.environ | {"CACHE_DIRECTORY": str(tmp_path / "cache")})
            return stack.enter_context(running(*arguments, **popen))  # type: ignore[arg-type]

        yield start_one


ServeApp = Callable[..., AppServer]
Before = Callable[..., Box]


@pytest.fixture
def serve_app(tmp_path: Path) -> Iterator[ServeApp]:
    """Start apps under gunicorn that end with the test: serve_app("shop:app", bind=...)."""
    from contextlib import ExitStack

    with ExitStack() as stack:
        logs = iter(range(100))

        def serve_one(app: str, *options: str, bind: str = "127.0.0.1:0") -> AppServer:
            log = tmp_path / f"gunicorn-{next(logs)}.log"
            return stack.enter_context(gunicorn(app, bind, log, *options))

        yield serve_one


@pytest.fixture
def before(start: Start, tmp_path: Path) -> Before:
    """Start a box before app servers: before(url, ..., route={"body_size": "1 MiB"}).

    `upstream`, `route` and any other table change single keys; `more_routes` come beside it,
    `options` on the command line.
    It logs into error.log and access.log.
    """

    def start_one(
        *urls: str, more_routes: Sequence[dict[str, object]] = (), options: Sequence[str] = (),
        **tables: dict[str, object],
    ) -> Box:  # fmt: skip
        log = {"access": str(tmp_path / "access.log"), "error": str(tmp_path / "error.log")}
        tables["upstream.app"] = {"servers": urls} | tables.pop("upstream", {})
        tables["log"] = log | {"level": "debug"} | tables.get("log", {})
        route = {"path": "/", "upstream": "app"} | tables.pop("route", {})
        routes = [("[site.route]", one) for one in (route, *more_routes)]
        lines = []
        for table, keys in [*tables.items(), ("[site]", {}), *routes]:
            lines += [f"[{table}]", *(f"{key} = {json.dumps(v)}" for key, v in keys.items())]
        file = tmp_path / "edgebox.toml"
        file.write_text("\n".join(lines))
        return start("-c", str(file), *options)

    return start_one


def lack(reason: str) -> NoReturn:
    """Something is not on this machine: the test is skipped, or fails where none may be."""
    if os.environ.get("EDGEBOX_NO_SKIP"):
        pytest.fail(reason)
    pytest.skip(reason)


def need(tool: str, package: str) -> str:
    """The path of a tool that the test cannot do without; see `lack`."""
    return shutil.which(tool) or lack(f"needs {tool}: apt-get install {package}")
