"""Runs an app of this directory under gunicorn, as an operator would, for one test."""

from __future__ import annotations

import http.client
import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
START = 30  # seconds that gunicorn and its worker may take to boot


@dataclass
class AppServer:
    """A gunicorn with one worker of many threads, so that an app can count in plain variables."""

    process: subprocess.Popen[bytes]
    url: str  # as edgebox takes it: "http://127.0.0.1:PORT" or "unix:/path"
    log: Path

    @property
    def bind(self) -> str:
        """What --bind takes to start it here again."""
        return self.url.removeprefix("http://")

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    def workers(self) -> list[int]:
        """Process ids of the workers, the latest last."""
        return [int(pid) for pid in re.findall(r"Booting worker with pid: (\d+)", self.told())]

    def told(self) -> str:
        return self.log.read_text()

    def ask(self, path: str, method: str = "GET", body: str | None = None) -> bytes:
        """The answer to a request behind the box's back."""
        with closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)) as connection:
            connection.request(method, path, body)
            return connection.getresponse().read()

    def state(self) -> dict[str, int]:
        """What the app of `streams` says of itself."""
        counts: dict[str, int] = json.loads(self.ask("/state"))
        return counts


@contextmanager
def gunicorn(app: str, bind: str, log: Path, *options: str) -> Iterator[AppServer]:
    """Serve `app` ("module:name") at `bind` until the block ends; port 0 is the kernel's choice."""
    process = subprocess.Popen(
        [
            sys.executable, "-m", "gunicorn", "--chdir", str(HERE), "--bind", bind,
            "--worker-class", "gthread", "--threads", "40", "--error-logfile", str(log),
            "--graceful-timeout", "1", "--no-control-socket", *options, app,
        ],
    )  # fmt: skip
    try:
        yield AppServer(process, _wait_listening(process, log), log)
    finally:
        end(process)


def _wait_listening(process: subprocess.Popen[bytes], log: Path) -> str:
    """Its address, once a worker is there to accept."""
    deadline = time.monotonic() + START
    while time.monotonic() < deadline and process.poll() is None:
        told = log.read_text() if log.exists() else ""
        listening = re.search(r"Listening at: (\S+)", told)
        if listening and "Booting worker" in told:
            return listening[1]
        time.sleep(0.02)
    process.kill()
    raise AssertionError(f"gunicorn did not start: {log.read_text() if log.exists() else ''}")


def end(process: subprocess.Popen[bytes]) -> None:
    """Have it end, if need be at once."""
    process.terminate()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
