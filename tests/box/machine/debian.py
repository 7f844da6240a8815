"""A Debian 12 of its own, booted in a container with the systemd that it comes with.

Its network is its own, too, with nothing in it but loopback. The bare tree is made once, by
mmdebstrap, and kept in build/; it holds what a minimal Debian has, and Python.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

PROJECT = Path(__file__).parents[3]
BARE = PROJECT / "build" / "bookworm.tar"
PACKAGES = "systemd,systemd-sysv,dbus,python3.11,ca-certificates,iproute2"
BOOTING = 60  # seconds

TOOLS = {
    "mmdebstrap": "mmdebstrap", "systemd-nspawn": "systemd-container", "nsenter": "util-linux",
    "dpkg-deb": "dpkg", "systemd-analyze": "systemd",
}  # fmt: skip


def make_bare_tree() -> Path:
    """A tar of the bare system."""
    if not BARE.exists():
        BARE.parent.mkdir(exist_ok=True)
        fresh = BARE.with_suffix(".new.tar")
        subprocess.run(
            ["mmdebstrap", "--quiet", "--variant=minbase", f"--include={PACKAGES}", "bookworm",
             str(fresh)],
            check=True,
        )  # fmt: skip
        fresh.rename(BARE)
    return BARE


def build_package(into: Path) -> Path:
    """The project's package, built as `make deb` builds it."""
    command = [str(PROJECT / "packaging" / "build-deb"), str(into)]
    return Path(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout[:-1])


class Debian:
    """A booted system below `tree`."""

    def __init__(self, tree: Path, leader: int) -> None:
        self.tree = tree
        self._leader = leader

    def command(self, *command: str) -> list[str]:
        """What runs `command` in there, from here."""
        return ["nsenter", f"--target={self._leader}", "--mount", "--uts", "--ipc", "--net",
                "--pid", "--", *command]  # fmt: skip

    def run(self, *command: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        ran = subprocess.run(self.command(*command), capture_output=True, text=True, timeout=120)
        if check:
            assert ran.returncode == 0, f"{command}: {ran.stdout}{ran.stderr}\n{self.journal()}"
        return ran

    def systemctl(self, *arguments: str) -> str:
        return self.run("systemctl", *arguments).stdout

    def start(self, *command: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            self.command(*command), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def state(self, unit: str = "edgebox.service") -> str:
        return self.run("systemctl", "is-active", unit, check=False).stdout.strip()

    def shown(self, name: str, unit: str = "edgebox.service") -> str:
        """A property of a unit."""
        return self.systemctl("show", "--value", f"--property={name}", unit).strip()

    def journal(self) -> str:
        command = ("journalctl", "--no-pager", "--lines=50", "--unit=edgebox*")
        return self.run(*command, check=False).stdout

    def bench(self, *arguments: str) -> dict[str, object]:
        """What `edgebox bench --json` measures from inside."""
        return dict(json.loads(self.run("edgebox", "bench", "--json", *arguments).stdout))

    def fetch(self, path: str = "/") -> dict[str, str]:
        """The header fields of one answer of port 80, its status under ""."""
        program = (
            "import http.client, json; c = http.client.HTTPConnection('127.0.0.1', 80, timeout=9);"
            f"c.request('GET', {path!r}); r = c.getresponse(); r.read();"
            "print(json.dumps({k.lower(): v for k, v in r.getheaders()} | {'': str(r.status)}))"
        )
        return dict(json.loads(self.run("python3.11", "-c", program).stdout))

    def pids(self, unit: str = "edgebox.service") -> list[int]:
        """The unit's processes, the main one first, by their numbers outside."""
        main = self.shown("MainPID", unit)
        group = self.shown("ControlGroup", unit)
        inside = self.run("cat", f"/sys/fs/cgroup/systemd{group}/cgroup.procs", check=False)
        if inside.returncode:
            inside = self.run("cat", f"/sys/fs/cgroup{group}/cgroup.procs")
        return sorted(map(int, inside.stdout.split()), key=lambda pid: str(pid) != main)

    def files(self) -> set[str]:
        """Every path that is not in a file system of the kernel's, or dpkg's own note."""
        skipped = ("/proc", "/sys", "/run", "/dev", "/tmp", "/var/lib/dpkg", "/var/log/journal")
        found: set[str] = set()
        for directory, names, files in os.walk(self.tree):
            inside = "/" + os.path.relpath(directory, self.tree).lstrip(".")
            names[:] = [n for n in names if os.path.join(inside, n) not in skipped]
            found |= {os.path.join(inside, name) for name in [*names, *files]}
        return found


@contextmanager
def booted(bare: Path, where: Path) -> Iterator[Debian]:
    """Unpack and boot; halted and gone when the block ends."""
    tree = where / "debian"
    tree.mkdir()
    subprocess.run(["tar", "-C", str(tree), "-xf", str(bare)], check=True)
    with (where / "console.log").open("w") as console:
        process = subprocess.Popen(
            ["systemd-nspawn", "--quiet", f"--directory={tree}", "--boot", "--register=no",
             "--keep-unit", "--private-network", "--console=pipe",
             f"--machine=edgebox-{os.getpid()}"],
            stdin=subprocess.DEVNULL, stdout=console, stderr=console,
        )  # fmt: skip
    try:
        debian = Debian(tree, wait_leader(process))
        debian.run("systemctl", "is-system-running", "--wait", check=False)
        yield debian
    finally:
        process.terminate()  # which nspawn takes for an orderly shutdown
        with suppress(subprocess.TimeoutExpired):
            process.wait(20)
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
            process.wait()
        shutil.rmtree(tree, ignore_errors=True)
        remove_groups()


def remove_groups() -> None:
    """The control groups that nspawn leaves where no systemd runs; the next needs them gone."""
    for hierarchy in Path("/sys/fs/cgroup").iterdir():
        for name in ("payload", "supervisor"):
            for directory, _, _ in os.walk(hierarchy / name, topdown=False):
                with suppress(OSError):
                    os.rmdir(directory)


def wait_leader(process: subprocess.Popen[bytes]) -> int:
    """The number of the container's first process, once its bus can be talked to."""
    deadline = time.monotonic() + BOOTING
    while time.monotonic() < deadline and process.poll() is None:
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        for child in children.read_text().split():
            if Path(f"/proc/{child}/root/run/systemd/private").exists():
                return int(child)
        time.sleep(0.1)
    raise AssertionError(f"the container did not boot: {process.poll()}")
