"""The servers of the test, and how each is set up for it.

As in `perf.peers`: one worker, sendfile, open files remembered, long-lived connections, each
as its own documentation has it for large files and many clients. Slow readers are left alone,
since ten thousand clients of a gigabit get 11 kB a second each, and some wait long for their
turn. With `looks`, each request has its file looked at anew: one stat a request.

edgebox takes two turns: once with `limits.server_rate` a little below what the link carries, as
`edgebox plan` advises where it knows the link, and once, as edgebox-default, without.

Pure. They listen on every address of their namespace, which has the wire's and a loopback.
"""

from __future__ import annotations

import sys
from functools import partial

from perf.peers import Peer, Setting
from perf.targets import SUBJECT

PORT = 8080  # in a namespace of its own, where nobody else listens
PATIENCE = 600  # seconds that a client may take to read anything, or to ask again
DEFAULT = f"{SUBJECT}-default"  # without limits.server_rate
NAMES = (SUBJECT, DEFAULT, "nginx", "lighttpd")


# What a gigabit of Ethernet carries of TCP's payload is 119.6 MB/s: 1448 octets of the 1514 of a
# segment that the shaper counts. A little less, and the queue of the full link is edgebox's.
LINK = "118.7 MB/s"
FREE = "0 B/s"  # no limit: for small objects, which wait for nobody
BELOW = "116 MB/s"  # so that a queue that did form in the shaper is soon gone


def _edgebox(s: Setting, *, looks: bool, rate: str) -> str:
    return f"""\
[server]
listen = ["0.0.0.0:{s.port}"]
workers = 1

[limits]
connections = {s.connections}
keep_alive_requests = 1000000
keep_alive_idle = "{PATIENCE}s"
send_timeout = "{PATIENCE}s"
send_rate = 0  # any progress will do
server_rate = "{rate}"

[files]
stat_cache = "{"off" if looks else "inotify"}"

[compression]
enabled = false  # no peer compresses here, nor looks for what was compressed before
sidecars = false

[log]
access = "{s.access_log if s.log else "off"}"
level = "warning"  # not a line for each client that goes away

[[site]]
root = "{s.root}"
"""


def _nginx(s: Setting, *, looks: bool) -> str:
    log = f"{s.access_log} combined buffer=64k flush=1s" if s.log else "off"
    remembered = "max=10000 inactive=300s"
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
    send_timeout {PATIENCE}s;
    keepalive_timeout {PATIENCE}s;
    keepalive_requests 1000000;
    open_file_cache {"off" if looks else remembered};
    open_file_cache_valid 60s;
    open_file_cache_min_uses 1;
    access_log {log};
    types {{ text/html html; }}
{temporary}
    server {{
        listen 0.0.0.0:{s.port} backlog=4096;
        root {s.root};
    }}
}}
"""


def _lighttpd(s: Setting, *, looks: bool) -> str:
    log = (
        f'server.modules = ( "mod_accesslog" )\naccesslog.filename = "{s.access_log}"\n'
        if s.log
        else "server.modules = ()\n"
    )
    return f"""\
server.bind = "0.0.0.0"
server.port = {s.port}
server.document-root = "{s.root}"
server.event-handler = "linux-sysepoll"
server.network-backend = "sendfile"
server.stat-cache-engine = "{"disable" if looks else "inotify"}"
# Kept in 16 bits: a million would wrap to 16960.
server.max-keep-alive-requests = 65535
server.max-keep-alive-idle = {PATIENCE}
server.max-write-idle = {PATIENCE}
server.max-fds = {s.descriptors}
server.max-connections = {s.connections}  # which share the file's descriptor
server.listen-backlog = 4096
mimetype.assign = ( ".html" => "text/html" )
{log}"""


def lineup(looks: bool = False, rate: str = LINK) -> tuple[Peer, ...]:
    """The servers in the order of their turns; edgebox as it would be started by anybody.

    `rate`: what edgebox may send; all others leave that to the link.
    """
    return (
        *(
            Peer(
                name,
                sys.executable,
                partial(_edgebox, looks=looks, rate=limit),
                lambda s, tool: [tool, "-m", "edgebox", "serve", "-c", str(s.config)],
                ("--version",),
            )
            for name, limit in ((SUBJECT, rate), (DEFAULT, FREE))
        ),
        Peer(
            "nginx",
            "nginx",
            partial(_nginx, looks=looks),
            lambda s, tool: [tool, "-c", str(s.config)],
            ("-v",),
        ),
        Peer(
            "lighttpd",
            "lighttpd",
            partial(_lighttpd, looks=looks),
            lambda s, tool: [tool, "-D", "-f", str(s.config)],
            ("-v",),
        ),
    )
