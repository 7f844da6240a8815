"""A server from start to end: its own directory, port and core, then gone without trace.

A start counts once a request is answered as it should be. Processes are ended by their ids,
the leader first and politely; what is left after a few seconds is killed.
"""

from __future__ import annotations

import contextlib
import http.client
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass

from perf.peers import Peer, Setting
from perf.processes import alive, family
from perf.rows import PATHS, Load

READY_WITHIN = 20.0  # seconds
STOP_WITHIN = 5.0
TAIL = 250  # characters of what a failed server said


class ServerFailed(Exception):
    """It did not start, ended by itself, or answered wrongly: says which."""


@dataclass(frozen=True)
class Server:
    """A running server. `leader` is the process that was started."""

    peer: Peer
    setting: Setting
    leader: int

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self.setting.port}"

    @property
    def processes(self) -> tuple[int, ...]:
        """The leader and its descendants, as they are now."""
        return family(self.leader)


def free_port() -> int:
    """A port that the kernel chose and nobody holds; a server binds it a moment later."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextlib.contextmanager
def pinned(core: int | None) -> Iterator[None]:
    """Children started inside run on `core` alone; this process goes back where it was."""
    before = os.sched_getaffinity(0)
    if core is not None:
        os.sched_setaffinity(0, {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


@contextlib.contextmanager
def running(peer: Peer, tool: str, setting: Setting, core: int | None) -> Iterator[Server]:
    """`peer` at work on `setting`, pinned to `core`; ServerFailed if it will not."""
    setting.config.write_text(peer.config(setting))
    if peer.build is not None:
        built = subprocess.run(
            peer.build(setting, tool), capture_output=True, text=True, timeout=60, check=False
        )
        if built.returncode:
            raise ServerFailed(f"the compiler said: {built.stderr[-TAIL:]}")
    said = setting.directory / "said.txt"
    with said.open("wb") as output, pinned(core):
        process = subprocess.Popen(
            peer.command(setting, tool),
            cwd=setting.directory,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,  # an interrupt at the terminal is ours to handle
        )
    server = Server(peer, setting, process.pid)
    try:
        deadline = time.monotonic() + READY_WITHIN
        while (fault := check(server)) is not None:
            tail = said.read_text(errors="replace")[-TAIL:].strip()
            if process.poll() is not None:
                raise ServerFailed(f"ended with {process.returncode} at start: {tail or fault}")
            if time.monotonic() > deadline:
                raise ServerFailed(f"not ready in {READY_WITHIN:.0f} s: {fault}; it said: {tail}")
            time.sleep(0.05)
        yield server
    finally:
        stop(process)


def stop(process: subprocess.Popen[bytes]) -> None:
    """Ends the process and its descendants, by their ids."""
    members = family(process.pid) if process.poll() is None else ()
    process.terminate()
    try:
        process.wait(STOP_WITHIN)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    for member in members:
        if member != process.pid and alive(member):
            with contextlib.suppress(ProcessLookupError):
                os.kill(member, signal.SIGKILL)


def targets(load: Load) -> list[str]:
    """Every target that the load asks for."""
    if load.heads in ("pool", "unique"):
        return [f"/paths/{number}.html" for number in range(1, PATHS + 1)]
    return [load.target]


def check(server: Server) -> str | None:
    """What is wrong with the answers to this load's targets; None: all are as they should be."""
    connection = http.client.HTTPConnection("127.0.0.1", server.setting.port, timeout=5)
    try:
        for target in targets(server.setting.load):
            connection.request("GET", target)
            fault = _judge(server, target, connection.getresponse())
            if fault is not None:
                return fault
    except (OSError, http.client.HTTPException) as error:
        return f"{type(error).__name__}: {error}"
    finally:
        connection.close()
    return None


def _judge(server: Server, target: str, response: http.client.HTTPResponse) -> str | None:
    size = server.setting.load.size
    if response.status != 200:
        return f"status {response.status} for {target}"
    if response.getheader("Content-Length") != str(size):
        return f"Content-Length {response.getheader('Content-Length')} for {target}, not {size}"
    if response.getheader("Content-Encoding") is not None:
        return f"a coding for {target} that nobody asked for"
    if size > 1 << 20:  # a long one is not read to its end
        return None
    if response.read() != (server.setting.root / target.lstrip("/")).read_bytes():
        return f"a wrong body for {target}"
    return None
