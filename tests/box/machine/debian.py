"""A Debian 12 of its own, booted in a container with the systemd that it comes with.

Its network is its own, too, with nothing in it but loopback. The bare tree is made once, by
mmdebstrap, and kept in build/; it holds what a minimal Debian has, and Python.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tests.box.conftest import children_of, wait_until

PROJECT = Path(__file__).parents[3]
BARE = PROJECT / "build" / "bookworm.tar"
PACKAGES = "systemd,systemd-sysv,dbus,python3.11,ca-certificates,iproute2"
BOOTING = 120  # seconds, as all that follows
ORDER = 180  # for one command in there; a start may take as long, see edgebox.service
START = 60

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
    """The project's package, built as `make deb` builds it, but for the time that xz takes.

    The time in it is our own: there may be no git to tell that of the commit.
    """
    command = [str(PROJECT / "packaging" / "build-deb"), str(into)]
    environment = {"SOURCE_DATE_EPOCH": "1700000000", **os.environ, "DEB_COMPRESSION": "gzip"}
    built = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment)
    return Path(built.stdout.rstrip("\n"))


def make_newer(package: Path, into: Path, version: str) -> Path:
    """The same package, but that it says `version`, to dpkg and to who asks the server."""
    tree = into / "tree"
    subprocess.run(["dpkg-deb", "--raw-extract", str(package), str(tree)], check=True)
    control = tree / "DEBIAN" / "control"
    control.write_text(re.sub("(?m)^Version: .*", f"Version: {version}", control.read_text()))
    code = tree / "usr/lib/edgebox/lib/python3.11/site-packages/edgebox/__init__.py"
    before = code.read_text()
    code.write_text(re.sub('__version__ = ".*"', f'__version__ = "{version}"', before))
    assert code.read_text() != before
    shutil.rmtree(code.parent / "__pycache__")  # of code that is never looked at again
    made = into / "edgebox.deb"
    subprocess.run(
        ["dpkg-deb", "--root-owner-group", "-Znone", "--build", str(tree), str(made)],
        check=True, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    shutil.rmtree(tree)
    return made


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
        ran = subprocess.run(self.command(*command), capture_output=True, text=True, timeout=ORDER)
        if check:
            assert ran.returncode == 0, f"{command}: {ran.stdout}{ran.stderr}\n{self.journal()}"
        return ran

    def install(self, package: Path) -> None:
        inside = self.tree / "root" / "edgebox.deb"
        inside.write_bytes(package.read_bytes())
        self.run("dpkg", "--install", "/root/edgebox.deb")
        inside.unlink()

    def has_package(self) -> bool:
        """Whether dpkg knows anything of it."""
        return self.run("dpkg-query", "--show", "edgebox", check=False).returncode == 0

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

    @contextmanager
    def load(self, *options: str) -> Iterator[dict[str, Any]]:
        """During the block a crowd of 20 asks for the front page; afterwards, its figures."""
        figures: dict[str, Any] = {}
        process = self.start(
            "edgebox", "bench", "--json", "-l", "-c", "20", "-t", "600", *options,
            "http://127.0.0.1/",
        )  # fmt: skip
        try:
            time.sleep(1)
            yield figures
            time.sleep(1)
        finally:
            for pid in children_of(process.pid):  # nsenter itself passes nothing on
                os.kill(pid, signal.SIGINT)
            told, complaint = process.communicate(timeout=ORDER)
        assert told, complaint
        figures |= json.loads(told)

    @contextmanager
    def configured(self, old: str, new: str) -> Iterator[None]:
        """In the block edgebox.toml has `new` where it had its first `old`; nobody is told."""
        file = self.tree / "etc" / "edgebox" / "edgebox.toml"
        before = file.read_text()
        assert old in before
        file.write_text(before.replace(old, new, 1))
        try:
            yield
        finally:
            file.write_text(before)

    @contextmanager
    def overridden(self, unit: str, *lines: str) -> Iterator[None]:
        """In the block `lines` stand at the end of the unit."""
        directory = self.tree / "etc" / "systemd" / "system" / f"{unit}.d"
        directory.mkdir(parents=True)
        (directory / "override.conf").write_text("\n".join([*lines, ""]))
        self.systemctl("daemon-reload")
        try:
            yield
        finally:
            shutil.rmtree(directory)
            self.systemctl("daemon-reload")

    def wait_replaced(self, main: str) -> None:
        """Until another main process than `main` is up."""
        wait_until(
            lambda: self.state() == "active" and self.shown("MainPID") not in (main, "0"), START
        )

    def fetch(self, path: str = "/") -> dict[str, str]:
        """The header fields of one answer of port 80, its status under ""."""
        program = (
            "import http.client, json; c = http.client.HTTPConnection('127.0.0.1', 80, timeout=60);"
            f"c.request('GET', {path!r}); r = c.getresponse(); r.read();"
            "print(json.dumps({k.lower(): v for k, v in r.getheaders()} | {'': str(r.status)}))"
        )
        return dict(json.loads(self.run("python3.11", "-c", program).stdout))

    def pids(self, unit: str = "edgebox.service") -> list[int]:
        """The unit's processes, the main one first, by their numbers in there."""
        main = self.shown("MainPID", unit)
        group = self.shown("ControlGroup", unit)
        inside = self.run("cat", f"/sys/fs/cgroup/systemd{group}/cgroup.procs", check=False)
        if inside.returncode:
            inside = self.run("cat", f"/sys/fs/cgroup{group}/cgroup.procs")
        return sorted(map(int, inside.stdout.split()), key=lambda pid: str(pid) != main)

    def workers(self) -> set[int]:
        """Those of the unit's processes that serve."""
        told = json.loads(self.run("edgebox", "status", "--json").stdout)
        return {worker["pid"] for worker in told["workers"]}

    def signal(self, name: str, *pids: int) -> None:
        self.run("sh", "-c", f"kill -{name} {' '.join(map(str, pids))}")

    def files(self) -> set[str]:
        """Every path that is not in a file system of the kernel's, or dpkg's own note."""
        skipped = ("/proc", "/sys", "/run", "/dev", "/tmp", "/var/lib/dpkg", "/var/log/journal")
        found: set[str] = set()
        for directory, names, files in os.walk(self.tree):
            inside = "/" + os.path.relpath(directory, self.tree).lstrip(".")
            names[:] = [n for n in names if os.path.join(inside, n) not in skipped]
            found |= {os.path.join(inside, name) for name in [*names, *files]}
        return found


class NoContainers(Exception):
    """This machine does not let us have one; the message is nspawn's."""


@contextmanager
def booted(bare: Path, where: Path) -> Iterator[Debian]:
    """Unpack and boot; halted and gone when the block ends. Raises NoContainers."""
    tree = where / "debian"
    tree.mkdir()
    subprocess.run(["tar", "-C", str(tree), "-xf", str(bare)], check=True)
    nspawn = [
        "systemd-nspawn", "--quiet", f"--directory={tree}", "--register=no", "--keep-unit",
        "--private-network", "--console=pipe", f"--machine=edgebox-{os.getpid()}",
    ]  # fmt: skip
    can = subprocess.run([*nspawn, "/bin/true"], capture_output=True, text=True)
    remove_groups()
    if can.returncode:
        shutil.rmtree(tree, ignore_errors=True)
        raise NoContainers(can.stderr.strip())
    with (where / "console.log").open("w") as console:
        process = subprocess.Popen(
            [*nspawn, "--boot"], stdin=subprocess.DEVNULL, stdout=console, stderr=console
        )
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
