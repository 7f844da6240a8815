"""A real `edgebox serve` to do harm to: two workers, a site of files, an app behind the cache.

Every process that comes of it carries a mark in its environment, so that one that lost its
parent is found, too: nothing may be left when the box has ended.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from edgebox.cli.control import ControlClient
from perf.faults.answer import Target
from perf.faults.app import body_of
from perf.processes import marked
from perf.server import free_port

MARK = "EDGEBOX_FAULTS"
READY_WITHIN = 60.0  # seconds, on a machine that others use
END_WITHIN = 20.0
WORKER, HOUSEKEEPER, HELPER = "worker", "housekeeper", "compression helper"
MODULES = {
    WORKER: b"edgebox.ops.processes.child",
    HOUSEKEEPER: b"edgebox.cache.disk.housekeeper",
    HELPER: b"edgebox.files.compression.helper",
}
SUPERVISOR = b"edgebox\0serve"

Tables = Mapping[str, Mapping[str, object]]


class BoxFailed(Exception):
    """It does not start, or not end; says what it said."""


@dataclass(frozen=True)
class Place:
    """Where a box has its files. `keeps` is for what grows: caches and logs."""

    root: Path
    keeps: Path
    scratch: Path

    @property
    def access_log(self) -> Path:
        return self.keeps / "access.log"

    @property
    def error_log(self) -> Path:
        return self.keeps / "error.log"


def make_place(scratch: Path, keeps: Path | None = None) -> Place:
    """With a docroot of three files: small, of a page's size, and too large for RAM."""
    root = scratch / "root"
    root.mkdir(parents=True)
    chance = random.Random(1)
    (root / "small.html").write_bytes(b"<p>small</p>\n" * 34)
    (root / "page.html").write_bytes(chance.randbytes(13_000).hex().encode())
    (root / "large.bin").write_bytes(chance.randbytes(1_500_000))
    return Place(root, keeps or scratch, scratch)


def targets_of(root: Path) -> list[Target]:
    """What a crowd asks for: files by far most, answers that are kept, a few that are not."""
    names = ["small.html"] * 40 + ["page.html"] * 20 + ["large.bin"]
    files = [Target(f"/{name}", (root / name).read_bytes()) for name in names]
    paths = [f"/app/2/page-{n}" for n in range(15)] + [f"/app/0/own-{n}" for n in range(5)]
    return files + [Target(path, body_of(path)) for path in paths]


def config(place: Place, app: int, changed: Tables) -> str:
    """edgebox.toml; `changed` are tables whose keys are put in or replaced."""
    tables: dict[str, dict[str, object]] = {
        "server": {"listen": ["127.0.0.1:0"], "workers": 2},
        "control": {"socket": str(place.scratch / "control.sock")},
        "log": {"access": str(place.access_log), "error": str(place.error_log)},
        "compression": {"dir": str(place.keeps / "variants")},
        "cache": {"dir": str(place.keeps / "cache"), "dir_size": "64 MiB"},
    }
    for name, keys in changed.items():
        tables[name] = tables.get(name, {}) | dict(keys)
    tables["[site]"] = {"root": str(place.root)}
    tables["[site.route]"] = {"path": "/app", "upstream": f"http://127.0.0.1:{app}"}
    lines = []
    for name, keys in tables.items():
        lines += [f"[{name}]", *(f"{key} = {json.dumps(value)}" for key, value in keys.items()), ""]
    return "\n".join(lines)


@dataclass
class App:
    """The app server, started again as often as it is killed."""

    port: int
    process: subprocess.Popen[bytes]

    def start_again(self) -> None:
        self.process.wait()
        self.process = _start_app(self.port)


def _start_app(port: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-m", "perf.faults.app", str(port)])


@contextlib.contextmanager
def running_app() -> Iterator[App]:
    port = free_port()
    app = App(port, _start_app(port))
    try:
        wait_until(lambda: ask(port, "/app/0/ready")[0] == 200, READY_WITHIN)
        yield app
    finally:
        app.process.kill()
        app.process.wait()


@dataclass
class Box:
    """A box at work. `mark` is what all its processes have in their environment."""

    process: subprocess.Popen[str]
    port: int
    place: Place
    mark: str
    control: str = field(init=False)

    def __post_init__(self) -> None:
        self.control = str(self.place.scratch / "control.sock")

    def told(self, verb: str = "stats", patience: float = READY_WITHIN) -> dict[str, Any]:
        """What the supervisor answers. Raises click.ClickException, as where it refuses."""
        with ControlClient(self.control, patience) as client:
            return client.ask(verb)

    def serving(self) -> set[int]:
        """The process ids of the workers that serve and are not to go."""
        generations = self.told()["supervisor"]["generations"]
        found = generations[0]["workers"] if generations else []
        return {worker["pid"] for worker in found if worker["stage"] == "ready"}

    def supervisors(self) -> list[int]:
        """One, but during an upgrade."""
        return [pid for pid in self.processes() if SUPERVISOR in _command(pid)]

    def processes(self, role: str = "") -> list[int]:
        """All that are alive, or those of a role."""
        return [pid for pid in marked(self.mark) if not role or MODULES[role] in _command(pid)]

    def ask(self, path: str, *, coding: str = "", patience: float = 5.0) -> tuple[int, Any, bytes]:
        """Status, fields and body on a connection of its own; 0 where no answer came."""
        return ask(self.port, path, coding=coding, patience=patience)

    def said(self, words: str) -> int:
        """How many lines of the error log have these words."""
        try:
            text = self.place.error_log.read_text(errors="replace")
        except OSError:
            return 0
        return sum(words in line for line in text.splitlines())


def _command(pid: int) -> bytes:
    """Its arguments, with NUL between; b"" if it has ended."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""


def ask(port: int, path: str, *, coding: str = "", patience: float = 5.0) -> tuple[int, Any, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=patience)
    try:
        connection.request("GET", path, headers={"Accept-Encoding": coding} if coding else {})
        response = connection.getresponse()
        return response.status, response.headers, response.read()
    except (OSError, http.client.HTTPException):
        return 0, {}, b""
    finally:
        connection.close()


@contextlib.contextmanager
def running_box(
    place: Place, app: App, changed: Tables | None = None, environment: Mapping[str, str] = {}
) -> Iterator[Box]:
    """A box until the block ends. Raises BoxFailed where one of its processes outlives it."""
    file = place.scratch / "edgebox.toml"
    file.write_text(config(place, app.port, changed or {}))
    mark = f"{MARK}={os.getpid()}-{place.scratch.name}"
    said = place.scratch / "said.txt"
    with said.open("w") as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", "edgebox", "serve", "-c", str(file)],
            env={**os.environ, **environment, MARK: mark.partition("=")[2]},
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, text=True,
        )  # fmt: skip
    assert process.stdout is not None
    box = Box(process, 0, place, mark)
    try:
        line = process.stdout.readline()
        if "ready on" not in line:
            raise BoxFailed(f"not ready: {line.strip()} {said.read_text().strip()}")
        box.port = int(line.split()[3].rstrip("/").rpartition(":")[2])
        yield box
    finally:
        _end(box)


def _end(box: Box) -> None:
    """Told to end, it takes all its processes along."""
    for pid in box.supervisors():
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
    try:
        wait_until(lambda: not box.processes(), END_WITHIN)
    except BoxFailed:
        left = box.processes()
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        raise BoxFailed(f"{len(left)} processes outlive their box") from None
    finally:
        if box.process.poll() is None:
            box.process.kill()
        box.process.communicate()


def wait_until(condition: Callable[[], object], seconds: float, what: str = "it") -> float:
    """Look every few milliseconds; the seconds until it came true. Raises BoxFailed."""
    begun = time.monotonic()
    while not condition():
        if time.monotonic() - begun > seconds:
            raise BoxFailed(f"{what} did not come within {seconds:.0f} s")
        time.sleep(0.02)
    return time.monotonic() - begun


def processor_seconds(processes: Iterable[int]) -> float:
    """What they have used so far; proc(5): fields 14 and 15 of stat."""
    ticks = 0
    for pid in processes:
        with contextlib.suppress(OSError):
            stat = Path(f"/proc/{pid}/stat").read_text()
            ticks += sum(map(int, stat.rpartition(")")[2].split()[11:13]))
    return ticks / os.sysconf("SC_CLK_TCK")


def remote_ports(table: str, port: int, inodes: set[str]) -> frozenset[int]:
    """The peers' ports of those sockets that are bound to `port`; `table` is /proc/net/tcp's."""
    found = set()
    for line in table.splitlines()[1:]:
        words = line.split()
        if int(words[1].rpartition(":")[2], 16) == port and words[9] in inodes:
            found.add(int(words[2].rpartition(":")[2], 16))
    return frozenset(found) - {0}


def clients_of(pid: int, port: int) -> frozenset[int]:
    """The ports of the clients that process `pid` has accepted."""
    inodes = set()
    for link in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(OSError):
            kind, _, inode = os.readlink(link).partition(":")
            if kind == "socket":
                inodes.add(inode.strip("[]"))
    return remote_ports(Path("/proc/net/tcp").read_text(), port, inodes)
