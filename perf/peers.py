"""The servers that are measured: how each is found, set up and started.

Each is set up as its own documentation would for speed: one worker, sendfile, open files
remembered, a million requests a connection, a deferred accept where the server has one,
log lines buffered where it can. With the log on, all write the combined format to a file.
The idle time is long in all of them, so that held connections stay.

Pure but for `find` and `version`: a configuration is a text made from a `Setting`.
"""

from __future__ import annotations

import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from perf.rows import Load
from perf.targets import FLOOR, SUBJECT

FLOOR_SOURCE = Path(__file__).with_name("floor.c")
ADMIN_PATH = os.pathsep.join((os.defpath, "/usr/local/sbin", "/usr/sbin", "/sbin"))
IDLE = 300  # seconds
SPARE = 500  # descriptors that are no connections


@dataclass(frozen=True)
class Setting:
    """One start of a server: its private directories, what it serves, where, for which load."""

    directory: Path
    root: Path
    port: int
    log: bool
    load: Load
    descriptors: int  # what the process may open
    memory: Path  # for what belongs into RAM: a directory of a tmpfs where there is one
    upstream: int = 0  # port of the origin, where there is one

    @property
    def config(self) -> Path:
        return self.directory / "server.conf"

    @property
    def access_log(self) -> Path:
        return self.directory / "access.log"

    @property
    def connections(self) -> int:
        """A descriptor each, but for a few; lighttpd wants two."""
        return self.descriptors - SPARE


def _edgebox(s: Setting) -> str:
    return f"""\
[server]
listen = ["127.0.0.1:{s.port}"]
workers = 1

[limits]
connections = {s.connections}
keep_alive_requests = 1000000
keep_alive_idle = "{IDLE}s"

[compression]
enabled = false  # no peer compresses here

[log]
access = "{s.access_log if s.log else "off"}"

[[site]]
root = "{s.root}"
"""


def _nginx(s: Setting) -> str:
    log = f"{s.access_log} combined buffer=64k flush=1s" if s.log else "off"
    temporary = "\n".join(
        f"    {kind}_temp_path {s.directory}/{kind};"
        for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    return f"""\
daemon off;
worker_processes 1;
worker_rlimit_nofile {s.descriptors};
pid {s.directory}/nginx.pid;
error_log stderr error;
events {{
    use epoll;
    worker_connections {s.connections};
}}
http {{
    sendfile on;
    tcp_nopush on;  # head and body in one segment
    tcp_nodelay on;
    keepalive_timeout {IDLE}s;
    keepalive_requests 1000000;
    open_file_cache max=10000 inactive=300s;
    open_file_cache_valid 60s;
    open_file_cache_min_uses 1;
    access_log {log};
    types {{ text/html html; }}
{temporary}
    server {{
        listen 127.0.0.1:{s.port} backlog=4096 deferred;
        root {s.root};
    }}
}}
"""


def _lighttpd(s: Setting) -> str:
    log = (
        f'server.modules = ( "mod_accesslog" )\naccesslog.filename = "{s.access_log}"\n'
        if s.log
        else "server.modules = ()\n"
    )
    return f"""\
server.bind = "127.0.0.1"
server.port = {s.port}
server.document-root = "{s.root}"
server.event-handler = "linux-sysepoll"
server.network-backend = "sendfile"
server.stat-cache-engine = "inotify"
# Kept in 16 bits: a million would wrap to 16960.
server.max-keep-alive-requests = 65535
server.max-keep-alive-idle = {IDLE}
server.max-fds = {s.descriptors}
server.max-connections = {s.descriptors // 2}
server.listen-backlog = 4096
server.defer-accept = 1
mimetype.assign = ( ".html" => "text/html" )
{log}"""


def _h2o(s: Setting) -> str:
    log = f"access-log: {s.access_log}  # one write a line: it has no buffered log\n"
    return f"""\
num-threads: 1
max-connections: {s.connections}
http1-request-timeout: {IDLE}
listen:
  host: 127.0.0.1
  port: {s.port}
{log if s.log else ""}hosts:
  default:
    paths:
      /:
        file.dir: {s.root}
"""


def _floor(s: Setting) -> str:
    return ""


@dataclass(frozen=True)
class Peer:
    """One server: `tool` is the program it needs, `logs` whether it can keep an access log."""

    name: str
    tool: str
    config: Callable[[Setting], str]
    command: Callable[[Setting, str], list[str]]  # the setting and the tool's path
    version_command: tuple[str, ...]  # arguments of the tool
    build: Callable[[Setting, str], list[str]] | None = None
    logs: bool = True


def _build_floor(s: Setting, gcc: str) -> list[str]:
    return [gcc, "-O2", "-o", str(s.directory / "floor"), str(FLOOR_SOURCE)]


def _start_floor(s: Setting, gcc: str) -> list[str]:
    file = s.root / s.load.target.lstrip("/")
    keep = "keep" if s.load.keep_alive else "close"
    return [str(s.directory / "floor"), str(s.port), str(file), keep]


PEERS = (
    Peer(
        SUBJECT,
        sys.executable,
        _edgebox,
        lambda s, tool: [tool, "-m", "edgebox", "serve", "-c", str(s.config)],
        ("--version",),
    ),
    Peer("nginx", "nginx", _nginx, lambda s, tool: [tool, "-c", str(s.config)], ("-v",)),
    Peer(
        "lighttpd",
        "lighttpd",
        _lighttpd,
        lambda s, tool: [tool, "-D", "-f", str(s.config)],
        ("-v",),
    ),
    Peer("h2o", "h2o", _h2o, lambda s, tool: [tool, "-c", str(s.config)], ("--version",)),
    Peer(FLOOR, "gcc", _floor, _start_floor, ("--version",), build=_build_floor, logs=False),
)


def find(tool: str) -> str | None:
    """Where `tool` is; servers live in sbin, which is not on everyone's PATH."""
    return shutil.which(tool) or shutil.which(tool, path=ADMIN_PATH)


def version(peer: Peer, path: str) -> str:
    """The peer's version, as it tells it itself."""
    said = subprocess.run(
        [path, *peer.version_command], capture_output=True, text=True, timeout=30, check=False
    )
    first = (said.stdout + said.stderr).strip().partition("\n")[0]
    pattern = r"\d+\.\d[\w.]*"  # best outside of parentheses, where builds and others' names are
    number = re.search(pattern, re.sub(r"\(.*?\)", "", first)) or re.search(pattern, first)
    told = number[0] if number else first
    if peer.name == SUBJECT:
        return f"{_distribution(SUBJECT)} on Python {told}"
    return f"gcc {told} -O2" if peer.name == FLOOR else told


def _distribution(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "uninstalled"
