"""Every key of edgebox.toml: its type, its default, and what it is for.

Frozen records, no I/O. Sizes are bytes, times are seconds, rates are bytes a second;
how they are written ("64 MiB", "30s", "1 MB/s") is `config/units`' business.
A value that is None stands for "auto": the planner fills it in.
The descriptions go into the JSON Schema, so an editor shows them beside the key.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, field

from edgebox.config.marks import Count, Positive, Rate, Record, Seconds, Size, Timeout, about
from edgebox.config.upstreams import Upstream


class Server(Record, frozen=True, kw_only=True):
    """[server]: where edgebox listens and what it calls itself."""

    listen: Annotated[
        tuple[str, ...],
        about('addresses: "HOST:PORT", "[IPV6]:PORT", "*:PORT" for all, or "unix:/path"'),
    ] = ("127.0.0.1:8080",)
    name: Annotated[str, about('the Server field of each answer; "" sends none')] = "edgebox"
    # listen(2) takes a C int: a larger number would be a traceback at the start.
    backlog: Annotated[
        Annotated[int, Meta(ge=1, le=1_000_000)] | None,
        about("connections waiting to be accepted; auto: what somaxconn allows, at most 4096"),
    ] = None
    express: Annotated[bool, about("the express lane; off leaves a correct, slower server")] = True
    drain: Annotated[
        Seconds, about("how long requests in hand may still take on SIGQUIT, reload and upgrade")
    ] = 30.0
    workers: Annotated[
        Annotated[int, Meta(ge=1, le=32)] | None,
        about("processes that serve, each with its part of the RAM; auto: as the plan has it"),
    ] = None
    hang: Annotated[
        Timeout, about("a worker that shows no sign of life for so long is ended and replaced")
    ] = 30.0
    user: Annotated[
        str, about('who workers run as, if we are started as root; "" stays who we are')
    ] = ""
    group: Annotated[str, about('their group; "" is that of the user')] = ""
    chroot: Annotated[
        str,
        about(
            'directory that workers are locked into; paths stay as seen from outside; "" is none'
        ),
    ] = ""
    landlock: Annotated[
        Literal["with-user", "always", "never"],
        about("when workers can open nothing but roots, caches and logs"),
    ] = "with-user"
    drain_idle: Annotated[
        Seconds, about("then, how long an idle connection may still bring a last request")
    ] = 1.0


class Limits(Record, frozen=True, kw_only=True):
    """[limits]: what one client may ask of the box."""

    connections: Annotated[
        Positive | None, about("clients at once; auto: from memory, descriptors and link")
    ] = None
    # A tuning note's figure, up from 128.
    keep_alive_requests: Annotated[
        Positive, about("requests on one connection before it is closed")
    ] = 4000
    keep_alive_idle: Annotated[
        Seconds, about("how long a connection may be idle between requests")
    ] = 30.0
    head_timeout: Annotated[
        Timeout, about("for the whole head, first octet to last; not reset by each octet")
    ] = 10.0
    body_timeout: Annotated[
        Timeout, about("grace before the minimum rate of a request body counts")
    ] = 20.0
    body_rate: Annotated[Rate, about("a request body slower than this gets 408")] = 1000
    send_timeout: Annotated[Timeout, about("grace before the minimum sending rate counts")] = 20.0
    send_rate: Annotated[Rate, about("slower readers are cut off; 0: any progress will do")] = 1000
    server_rate: Annotated[
        Rate,
        about("most that goes out, all clients together, but for WebSockets; 0: no limit of ours"),
    ] = 0
    connection_rate: Annotated[Rate, about("most that goes to one connection; 0: no limit")] = 0
    client_rate: Annotated[
        Rate,
        about(
            "most that goes to one client address from each worker, but for WebSockets; 0: no limit"
        ),
    ] = 0
    # Nobody could ask for anything with less.
    head_size: Annotated[
        int, Meta(extra={"unit": "size"}, ge=1024), about("request head; 431 beyond")
    ] = 16 * 1024
    head_fields: Annotated[Positive, about("fields in a request head; 431 beyond")] = 100
    target_length: Annotated[
        int, Meta(extra={"unit": "size"}, ge=64), about("the request target; 414 beyond")
    ] = 8 * 1024
    body_discard: Annotated[
        Size, about("how much of an unwanted body is read off; the connection ends beyond")
    ] = 64 * 1024
    linger: Annotated[
        Seconds, about("how long a closed connection is drained, so that the answer arrives")
    ] = 2.0
    send_buffer: Annotated[
        Annotated[int, Meta(extra={"unit": "size"}, ge=4096)] | None,
        about("of an answer, in the kernel but not yet sent; auto: from the link's speed"),
    ] = None


class Files(Record, frozen=True, kw_only=True):
    """[files]: the working set in RAM, the stat cache, and how files are sent."""

    working_set: Annotated[
        Size | None, about("RAM for hot files and answers; auto: half of what processes leave")
    ] = None
    object_size: Annotated[Size, about("larger files go by sendfile and take no RAM")] = 1024 * 1024
    stat_cache: Annotated[
        Literal["inotify", "ttl", "off"],
        about("how changes are noticed: told by the kernel, looked at now and then, or always"),
    ] = "inotify"
    stale_bound: Annotated[
        Seconds, about("no stale octet later than this after a change, whatever the engine")
    ] = 2.0
    entries: Annotated[int, Meta(ge=16, description="paths remembered by the stat cache")] = 100_000
    negative_entries: Annotated[Count, about("of these, paths that were not there")] = 10_000
    open_files: Annotated[
        Count | None, about("descriptors kept open for files too big for RAM; auto: an eighth")
    ] = None
    watches: Annotated[
        Count | None, about("directories watched; auto: a quarter of max_user_watches")
    ] = None
    sendfile_chunk: Annotated[
        int,
        Meta(extra={"unit": "size"}, ge=65536),
        about("most that one sendfile call sends before others get a turn"),
    ] = 1024 * 1024
    read_threads: Annotated[Positive, about("cold reads from disk under way at once")] = 16


class Compression(Record, frozen=True, kw_only=True):
    """[compression]: variants made ahead of time by a niced helper."""

    enabled: Annotated[bool, about("make compressed variants")] = True
    sidecars: Annotated[bool, about("serve x.br, x.zst and x.gz that lie beside x")] = True
    dir: Annotated[
        str | None,
        about("where variants are kept; auto: $CACHE_DIRECTORY, /var/cache/edgebox or ~/.cache"),
    ] = None
    codings: Annotated[
        tuple[Literal["br", "zstd", "gzip"], ...],
        about("codings offered, the preferred one first"),
    ] = ("br", "zstd", "gzip")
    types: Annotated[
        tuple[str, ...], about('media types worth compressing: "type/subtype" or "type/*"')
    ] = (
        "text/*",
        "application/javascript",
        "application/json",
        "application/manifest+json",
        "application/xml",
        "application/wasm",
        "application/rss+xml",
        "application/atom+xml",
        "image/svg+xml",
        "font/ttf",
        "font/otf",
        "application/vnd.ms-fontobject",
    )
    min_size: Annotated[
        Size, about("smaller files are left alone: the fields outweigh what is saved")
    ] = 256
    max_size: Annotated[Size, about("larger files are left alone")] = 16 * 1024 * 1024
    dir_size: Annotated[
        Size, about("the directory is swept down to this, least recently used first")
    ] = 1024 * 1024 * 1024
    br_level: Annotated[int, Meta(ge=0, le=11, description="effort of br")] = 9
    zstd_level: Annotated[int, Meta(ge=1, le=19, description="effort of zstd")] = 15
    gzip_level: Annotated[int, Meta(ge=1, le=9, description="effort of gzip")] = 9


class Log(Record, frozen=True, kw_only=True):
    """[log]: "-" is standard output (access) or standard error (error), "off" none."""

    access: Annotated[str, about('a path, "-" for standard output, "syslog", or "off"')] = "off"
    format: Annotated[
        str, about('form of an access log line: "combined", "json", or text with $variables')
    ] = "combined"
    only: Annotated[
        str, about('which answers are logged, as "status >= 400 or time > 1"; "" is all')
    ] = ""
    sample: Annotated[
        Positive, about("of answers with a status below 400 one in so many is logged")
    ] = 1
    request_id: Annotated[
        Literal["pass", "make", "off"],
        about("X-Request-Id for upstreams: the client's or else ours, always ours, or untouched"),
    ] = "pass"
    trace: Annotated[
        Literal["pass", "span"],
        about("traceparent for upstreams: the client's as it is, or with a span id of our own"),
    ] = "pass"
    error: Annotated[str, about('a path, "-" for standard error, "syslog", or "off"')] = "-"
    level: Annotated[
        Literal["debug", "info", "warning", "error"], about("the least that the error log tells")
    ] = "info"
    backlog: Annotated[
        Size, about("lines held while the log cannot be written; dropped and counted beyond")
    ] = 16 * 1024 * 1024


class Status(Record, frozen=True, kw_only=True):
    """[status]: the status page and metrics, at an address of their own."""

    listen: Annotated[str, about('address as in server.listen, off the public side; "" is off')] = (
        ""
    )
    path: Annotated[str, about("where the page is")] = "/"
    metrics: Annotated[str, about("where Prometheus finds its metrics")] = "/metrics"
    allow: Annotated[tuple[str, ...], about("networks that may look")] = (
        "127.0.0.0/8",
        "::1/128",
    )


class Control(Record, frozen=True, kw_only=True):
    """[control]: the Unix socket that `edgebox status`, `top`, `reload` and their kin speak to."""

    socket: Annotated[
        str | None,
        about('its path; auto: in $RUNTIME_DIRECTORY, /run/edgebox or the user\'s; "" is none'),
    ] = None
    mode: Annotated[
        str, about("its permissions, octal: who may write to it may reload, purge and stop")
    ] = "0660"


class Route(Record, frozen=True, kw_only=True):
    """[[site.route]]: who answers the paths below a prefix; the longest prefix wins."""

    path: Annotated[
        str, about('prefix: "/app" is /app and all below it, "/app/" only what is below')
    ] = "/"
    upstream: Annotated[
        str, about('name of an [upstream.NAME], or a URL; "" leaves the path to files')
    ] = ""
    cache: Annotated[bool, about("answer from the cache, and store what may be stored")] = True
    body_size: Annotated[Size, about("request bodies beyond get 413")] = 100 * 1024 * 1024
    default_freshness: Annotated[
        Seconds | None,
        about("how long an answer is fresh that does not say; auto: guessed from Last-Modified"),
    ] = None
    stale_while_revalidate: Annotated[
        Seconds, about("serve stale for so long while asking again, where the answer is silent")
    ] = 0.0
    stale_if_error: Annotated[
        Seconds, about("serve stale for so long if the upstream fails, where the answer is silent")
    ] = 0.0
    set_cookie: Annotated[
        Literal["refuse", "strip", "keep"],
        about("answers that set a cookie: not stored, stored without it, or stored with it"),
    ] = "refuse"
    bypass_cookies: Annotated[
        tuple[str, ...],
        about('whoever sends one of these cookies gets nothing stored; "wp_*" is a pattern'),
    ] = ()
    drop_query: Annotated[
        tuple[str, ...],
        about('query parameters that make no other page; "utm_*" is a pattern'),
    ] = ()
    sort_query: Annotated[
        bool, about("URLs that differ in the order of their parameters are the same page")
    ] = False
    host: Annotated[
        Literal["client", "upstream"],
        about("Host that the upstream is asked with: the client's, or that of its first URL"),
    ] = "client"
    accel: Annotated[
        str,
        about('directory that X-Sendfile and X-Accel-Redirect may name files in; "" forbids it'),
    ] = ""


class Site(Record, frozen=True, kw_only=True):
    """[[site]]: which hosts, and what they get."""

    hosts: Annotated[
        tuple[str, ...], about('exact, "*.example.com", or "*" for whatever is left')
    ] = ("*",)
    root: Annotated[
        str,
        about('directory of the files; "" is none where a route takes "/", else the welcome site'),
    ] = ""
    index: Annotated[
        tuple[str, ...], about("what a directory answers with: the first of these it holds")
    ] = ("index.html",)
    symlinks: Annotated[
        Literal["within-root", "follow", "never"], about("which symbolic links are followed")
    ] = "within-root"
    dotfiles: Annotated[
        bool, about("serve names that start with a dot, beside those in /.well-known/")
    ] = False
    error_pages: Annotated[
        dict[str, str], about('what to show for a status: "404" = "/404.html"')
    ] = field(default_factory=dict)
    headers: Annotated[dict[str, str], about("fields added to every 200, 206 and 304")] = field(
        default_factory=dict
    )
    types: Annotated[
        dict[str, str], about('".ext" = "type/subtype", before the built-in table')
    ] = field(default_factory=dict)
    route: Annotated[
        tuple[Route, ...],
        about("who answers which paths; what none takes is files: [[site.route]]"),
    ] = ()

    @property
    def is_proxied(self) -> bool:
        """Whether an upstream answers every path that no other route takes."""
        return any(route.path == "/" and route.upstream for route in self.route)


class Cache(Record, frozen=True, kw_only=True):
    """[cache]: what app servers answered, kept for as long as HTTP lets it."""

    name: Annotated[str, about("our name in Cache-Status")] = "edgebox"
    via: Annotated[
        str | None,
        about("our name in Via and CDN-Loop, which no other box may have; auto: name-NUMBER"),
    ] = None
    object_size: Annotated[Size, about("larger answers take no RAM, only disk")] = 1024 * 1024
    dir: Annotated[
        str | None,
        about('auto: $CACHE_DIRECTORY, /var/cache/edgebox or ~/.cache; "" keeps all in RAM'),
    ] = None
    dir_size: Annotated[Size, about("hard bound of the directory, least recently used first")] = (
        10 * 1024 * 1024 * 1024
    )
    largest: Annotated[Size, about("answers larger than this are passed on, not stored")] = (
        2 * 1024 * 1024 * 1024
    )
    targets: Annotated[
        tuple[str, ...],
        about(
            "fields that mean this cache and go before Cache-Control (RFC 9213), first one first"
        ),
    ] = ("CDN-Cache-Control",)
    variants: Annotated[Positive, about("variants of one URL that are kept (Vary)")] = 32
    pass_for: Annotated[
        Seconds,
        about("how long requests do not wait for each other after an answer not to be stored"),
    ] = 10.0
    request_directives: Annotated[
        bool, about("obey clients' Cache-Control; off: nobody can make the upstream work")
    ] = True
    trusted_proxies: Annotated[
        tuple[str, ...], about("networks whose X-Forwarded-* and Forwarded are believed")
    ] = ()
    purge_from: Annotated[tuple[str, ...], about("networks that may PURGE")] = (
        "127.0.0.0/8",
        "::1/128",
    )


class Nic(Record, frozen=True, kw_only=True):
    """[nic]: the card that clients are reached through, where the machine cannot tell."""

    speed: Annotated[
        Annotated[int, Meta(extra={"unit": "rate"}, ge=1)] | None,
        about("the link's speed; auto: as the card says"),
    ] = None
    interface: Annotated[
        str | None,
        about("its name; auto: the interface of the listen address, or of the default route"),
    ] = None


class Planning(Record, frozen=True, kw_only=True):
    """[plan]: what the numbers that are auto are reckoned from."""

    memory: Annotated[
        Annotated[int, Meta(extra={"unit": "size"}, ge=1)] | None,
        about("RAM that edgebox may use in all; auto: what is available"),
    ] = None
    object_size: Annotated[
        Annotated[int, Meta(extra={"unit": "size"}, ge=1)] | None,
        about("mean size of an answer; auto: that of the files below the roots"),
    ] = None
    round_trip: Annotated[
        Annotated[float, Meta(extra={"unit": "time"}, ge=0.001, le=3600)] | None,
        about("to a far client and back; auto: 100ms"),
    ] = None
    connection_size: Annotated[
        Annotated[int, Meta(extra={"unit": "size"}, ge=1)] | None,
        about("RAM of a connection, the kernel's part included; auto: 24 kB, then as measured"),
    ] = None


class Config(Record, frozen=True, kw_only=True):
    """The whole of edgebox.toml."""

    server: Server = field(default_factory=Server)
    limits: Limits = field(default_factory=Limits)
    files: Files = field(default_factory=Files)
    compression: Compression = field(default_factory=Compression)
    cache: Cache = field(default_factory=Cache)
    upstream: dict[str, Upstream] = field(default_factory=dict)
    log: Log = field(default_factory=Log)
    status: Status = field(default_factory=Status)
    control: Control = field(default_factory=Control)
    nic: Nic = field(default_factory=Nic)
    plan: Planning = field(default_factory=Planning)
    site: tuple[Site, ...] = (Site(),)
