"""The machine that a run was made on: facts without which its numbers mean little.

Reads files that any user may read; what is not there is left out.
"""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import resource
import subprocess
from pathlib import Path

LIBRARIES = ("trio", "h11", "msgspec", "cachetools", "inotify-simple")
ENOUGH_DESCRIPTORS = 40_000
CPUS = Path("/sys/devices/system/cpu")


def facts() -> dict[str, str]:
    """Name and value of each fact, in the order in which they are told."""
    found = {
        "CPU": _first(r"model name\s*:\s*(.+)", "/proc/cpuinfo"),
        "cores": str(os.cpu_count()),
        "virtual machine": "yes" if " hypervisor" in _text("/proc/cpuinfo") else "",
        "memory": _memory(),
        "kernel": f"{platform.system()} {platform.release()} {platform.machine()}",
        "distribution": _first(r'^PRETTY_NAME="?([^"\n]+)', "/etc/os-release"),
        "Python": f"{platform.python_implementation()} {platform.python_version()}",
        **{name: _version(name) for name in LIBRARIES},
        "load average at start": _text("/proc/loadavg").split(" ", 1)[0],
    }
    return {name: value for name, value in found.items() if value}


def _text(path: str | Path) -> str:
    try:
        return Path(path).read_text(errors="replace")
    except OSError:
        return ""


def _first(pattern: str, path: str) -> str:
    found = re.search(pattern, _text(path), re.M)
    return found[1].strip() if found else ""


def _memory() -> str:
    kibibytes = _first(r"MemTotal:\s+(\d+)", "/proc/meminfo")
    return f"{int(kibibytes) / (1 << 20):.1f} GiB" if kibibytes else ""


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return ""


def tool_version(name: str, path: str) -> str:
    """What wrk or ab calls itself; wrk tells it together with a failure status."""
    flag = "-V" if name == "ab" else "--version"
    said = subprocess.run([path, flag], capture_output=True, text=True, timeout=10, check=False)
    found = re.search(r"\d+(?:\.\d+)+\S*", said.stdout + said.stderr)
    return found[0] if found else "unknown"


def commit() -> str:
    """The commit of the source tree, "+" if it has changes; empty outside a repository."""
    here = str(Path(__file__).parent)
    try:
        said = subprocess.run(
            ["git", "-C", here, "describe", "--always", "--dirty=+", "--abbrev=10"],
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
    except FileNotFoundError:
        return ""
    return said.stdout.strip()


def choose_cores() -> tuple[int | None, int | None]:
    """A core for the server and one for the load tool, on different physical cores if it can be."""
    usable = sorted(os.sched_getaffinity(0))
    if len(usable) < 2:
        return None, None
    server = usable[0]
    siblings = expand(_text(CPUS / f"cpu{server}/topology/thread_siblings_list"))
    return server, next((core for core in usable[1:] if core not in siblings), usable[1])


def expand(cores: str) -> set[int]:
    """A kernel list such as "0-1,4" as a set."""
    found: set[int] = set()
    for part in cores.strip().split(","):
        first, _, last = part.partition("-")
        if first:
            found |= set(range(int(first), int(last or first) + 1))
    return found


def ram_directory() -> Path | None:
    """Where files take no disk: a tmpfs that this process may write to."""
    shared = Path("/dev/shm")
    return shared if os.access(shared, os.W_OK | os.X_OK) else None


def raise_descriptor_limit() -> int:
    """Lets this process and its children open as many files as a run needs; returns how many."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard == resource.RLIM_INFINITY or hard >= ENOUGH_DESCRIPTORS:
        resource.setrlimit(resource.RLIMIT_NOFILE, (ENOUGH_DESCRIPTORS, hard))
        return ENOUGH_DESCRIPTORS
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (ENOUGH_DESCRIPTORS, ENOUGH_DESCRIPTORS))
    except (ValueError, OSError):  # only root may raise the hard limit
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        return hard
    return ENOUGH_DESCRIPTORS
