"""The servers of the proxied rows: the same names as caches before one upstream.

Each is set up as its own documentation would for speed: one worker or thread, connections to
the upstream kept, a store in RAM or on tmpfs, concurrent misses of one URL collapsed where
the server can. With the log on, all write the combined format to a file, in the cheapest way
that each has. What is fresh or private is left to the upstream's Cache-Control in all.

Pure: a configuration is a text made from a `Setting`.
"""

from __future__ import annotations

import sys

from perf.peers import IDLE, PEERS, Peer, Setting
from perf.rows import Row
from perf.targets import FLOOR, SUBJECT

NAMES = (SUBJECT, "nginx", "lighttpd", "h2o", "haproxy", "varnish", FLOOR)  # as in the tables
KEPT = 64  # connections to the upstream: as many as the load has clients


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

[cache]
dir = "{s.memory}/cache"

[log]
access = "{s.access_log if s.log else "off"}"

[[site]]
[[site.route]]
path = "/"
upstream = "http://127.0.0.1:{s.upstream}"
"""


def _nginx(s: Setting) -> str:
    log = f"{s.access_log} combined buffer=64k flush=1s" if s.log else "off"
    temporary = "\n".join(
        f"    {kind}_temp_path {s.memory}/{kind};"
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
    open_file_cache max=10000 inactive=300s;  # of the cache's files, too
    open_file_cache_valid 60s;
    open_file_cache_min_uses 1;
    access_log {log};
{temporary}
    proxy_cache_path {s.memory}/cache levels=1:2 keys_zone=cache:32m max_size=1g inactive=1h
                     use_temp_path=off;
    upstream origin {{
        server 127.0.0.1:{s.upstream};
        keepalive {KEPT};
        keepalive_requests 1000000;
    }}
    server {{
        listen 127.0.0.1:{s.port} backlog=4096 deferred;
        location / {{
            proxy_pass http://origin;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            proxy_cache cache;
            proxy_cache_lock on;
        }}
    }}
}}
"""


def _haproxy(s: Setting) -> str:
    # Combined, once %tr, %r and the two fields are put together so. It writes line by line.
    combined = (
        "%ci - - [%trl] %{+Q}r %ST %B %{+Q,+E}[capture.req.hdr(0)] %{+Q,+E}[capture.req.hdr(1)]"
    )
    program = "    log stdout format raw local0\n" if s.log else ""
    session = f"""\
    log global
    log-format "{combined}"
"""
    return f"""\
global
    nbthread 1
    maxconn {s.connections // 2}  # two descriptors each
{program}
defaults
    mode http
    http-reuse always
    timeout connect 5s
    timeout client {IDLE}s
    timeout server {IDLE}s
    timeout http-keep-alive {IDLE}s
{session if s.log else ""}
cache answers
    total-max-size 256  # megabytes
    max-object-size 16777216
    max-age 86400

frontend clients
    bind 127.0.0.1:{s.port} backlog 4096 defer-accept
    capture request header Referer len 256
    capture request header User-Agent len 256
    filter cache answers
    http-request cache-use answers
    http-response cache-store answers
    default_backend origin

backend origin
    server origin 127.0.0.1:{s.upstream} pool-max-conn {KEPT}
"""


def _start_haproxy(s: Setting, tool: str) -> list[str]:
    # Its log is a file only by way of standard output.
    redirected = 'exec "$0" -f "$1" >> "$2"'
    return ["sh", "-c", redirected, tool, str(s.config), str(s.access_log)]


def _varnish(s: Setting) -> str:
    return f"""\
vcl 4.1;

backend origin {{
    .host = "127.0.0.1";
    .port = "{s.upstream}";
}}
"""


def _start_varnish(s: Setting, tool: str) -> list[str]:
    name = f"{s.memory}/varnish"  # its log in shared memory: better not on a disk
    # A thread for each client, and one for each fetch.
    threads = max(200, 2 * s.load.connections)
    parameters = {
        "thread_pools": 1,
        "thread_pool_min": threads,
        "thread_pool_max": threads + 100,
        "timeout_idle": IDLE,
    }
    started = [tool, "-F", "-j", "none", "-T", "none", "-n", name, "-f", str(s.config)]
    started += ["-a", f"127.0.0.1:{s.port}", "-s", "malloc,256m"]
    for parameter, value in parameters.items():
        started += ["-p", f"{parameter}={value}"]
    if not s.log:
        return started
    # The log in memory becomes a file by a program of its own, which counts as a part of it.
    beside = 'varnishncsa -c -t off -n "$0" -w "$1" & shift; exec "$@"'
    return ["sh", "-c", beside, name, str(s.access_log), *started]


CACHES = (
    Peer(
        SUBJECT,
        sys.executable,
        _edgebox,
        lambda s, tool: [tool, "-m", "edgebox", "serve", "-c", str(s.config)],
        ("--version",),
    ),
    Peer("nginx", "nginx", _nginx, lambda s, tool: [tool, "-c", str(s.config)], ("-v",)),
    Peer("haproxy", "haproxy", _haproxy, _start_haproxy, ("-v",)),
    Peer("varnish", "varnishd", _varnish, _start_varnish, ("-V",)),
)


def lineup(row: Row) -> tuple[Peer, ...]:
    """The servers that a row is for, set up for it."""
    servers = CACHES if row.is_proxied else PEERS
    return tuple(peer for peer in servers if not row.peers or peer.name in row.peers)
