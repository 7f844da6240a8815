"""Whole processes: `edgebox serve` as an operator starts it, and the tools that visit it."""

from __future__ import annotations

import ctypes
import http.client
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.wire import Server, configure, unharmed

START = 30  # seconds that a process may take to say that it is ready


@dataclass
class Box:
    """A running `edgebox serve`."""

    process: subprocess.Popen[str]
    url: str

    @property
    def port(self) -> int:
        return int(self.url.rstrip("/").rpartition(":")[2])

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def wait(self, seconds: float = 10) -> int:
        return self.process.wait(seconds)

    def descriptors(self) -> int:
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))


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
    connection = http.client.HTTPConnection("127.0.0.1", box.port, timeout=10)
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


@contextmanager
def running(
    *arguments: str, cwd: Path | None = None, unprivileged: bool = False, **popen: object
) -> Iterator[Box]:
    if unprivileged:
        popen["preexec_fn"] = drop_privilege
    process = subprocess.Popen(
        [sys.executable, "-m", "edgebox", "serve", *arguments],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=cwd, **popen,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        ready = re.search(r"ready on (\S+)", line)
        if ready is None:
            process.kill()
            raise AssertionError(f"not ready: {line!r} {process.communicate()[1]}")
        yield Box(process, ready[1])
    finally:
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
        process.communicate()


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


def need(tool: str, package: str) -> str:
    """The path of a tool; without it the test is skipped, or fails where nothing may be."""
    path = shutil.which(tool)
    if path is not None:
        return path
    reason = f"needs {tool}: apt-get install {package}"
    if os.environ.get("EDGEBOX_NO_SKIP"):
        pytest.fail(reason)
    pytest.skip(reason)
