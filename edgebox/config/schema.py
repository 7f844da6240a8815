"""Every key of edgebox.toml: its type, its default, and why that default.

Frozen records, no I/O. Sizes are bytes, times are seconds, rates are bytes a second;
how they are written ("64 MiB", "30s", "1 MB/s") is `config/units`' business.
A number that is None stands for "auto": the planner fills it in.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct, field

# Marks for the loader and the JSON Schema: how a number is written in the file.
Size = Annotated[int, Meta(extra={"unit": "size"}, ge=0, description='bytes, as "64 MiB"')]
Seconds = Annotated[float, Meta(extra={"unit": "time"}, ge=0, description='time, as "30s"')]
Rate = Annotated[int, Meta(extra={"unit": "rate"}, ge=0, description='bytes a second, "1 MB/s"')]
Count = Annotated[int, Meta(ge=0)]


class Record(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A table of the file: unknown keys are refused."""


class Server(Record, frozen=True, kw_only=True):
    """[server]: where edgebox listens and what it calls itself."""

    listen: tuple[str, ...] = ("127.0.0.1:8080",)
    name: str = "edgebox"  # the Server field; "" sends none
    backlog: Annotated[int, Meta(ge=1)] | None = None  # auto: what somaxconn allows, at most 4096
    express: bool = True  # the express lane; off leaves a correct, slower server
    drain: Seconds = 30.0  # SIGQUIT: how long requests in hand may still take


class Limits(Record, frozen=True, kw_only=True):
    """[limits]: what one client may ask of the box."""

    connections: Annotated[int, Meta(ge=1)] | None = None  # auto: from descriptors and memory
    keep_alive_requests: Annotated[int, Meta(ge=1)] = 4000  # a tuning note's figure, up from 128
    keep_alive_idle: Seconds = 30.0
    head_timeout: Seconds = 10.0  # the whole head, first octet to last: not reset per octet
    body_timeout: Seconds = 20.0  # grace before the minimum rate of a request body counts
    body_rate: Rate = 1000  # slower bodies get 408
    send_timeout: Seconds = 20.0  # grace before the minimum sending rate counts
    send_rate: Rate = 1000  # slower readers are cut off; 0: any progress will do
    head_size: Size = 16 * 1024  # 431 beyond
    head_fields: Annotated[int, Meta(ge=1)] = 100  # 431 beyond
    target_length: Size = 8 * 1024  # 414 beyond
    body_discard: Size = 64 * 1024  # unwanted body read off; the connection ends beyond
    linger: Seconds = 2.0  # how long a closed connection is drained, so the answer arrives


class Files(Record, frozen=True, kw_only=True):
    """[files]: the working set in RAM, the stat cache, and how files are sent."""

    working_set: Size | None = None  # auto: 256 MiB until the planner says otherwise
    object_size: Size = 1024 * 1024  # larger files go by sendfile and take no RAM
    stat_cache: Literal["inotify", "ttl", "off"] = "inotify"
    stale_bound: Seconds = 2.0  # no stale octet later than this, whatever the engine
    entries: Annotated[int, Meta(ge=16)] = 100_000  # paths remembered
    negative_entries: Count = 10_000  # of these, paths that were not there
    open_files: Count | None = None  # auto: descriptors kept open for files too big for RAM
    watches: Count | None = None  # auto: a quarter of fs.inotify.max_user_watches
    sendfile_chunk: Annotated[int, Meta(extra={"unit": "size"}, ge=65536)] = 1024 * 1024
    read_threads: Annotated[int, Meta(ge=1)] = 16  # cold reads under way at once


class Compression(Record, frozen=True, kw_only=True):
    """[compression]: variants made ahead of time by a niced helper."""

    enabled: bool = True
    sidecars: bool = True  # x.br, x.zst, x.gz beside x
    dir: str | None = None  # auto: $CACHE_DIRECTORY, /var/cache/edgebox, or below ~/.cache
    codings: tuple[Literal["br", "zstd", "gzip"], ...] = ("br", "zstd", "gzip")
    types: tuple[str, ...] = (
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
    min_size: Size = 256  # below, the fields outweigh what is saved
    max_size: Size = 16 * 1024 * 1024
    dir_size: Size = 1024 * 1024 * 1024  # swept, least recently used first
    br_level: Annotated[int, Meta(ge=0, le=11)] = 9
    zstd_level: Annotated[int, Meta(ge=1, le=19)] = 15
    gzip_level: Annotated[int, Meta(ge=1, le=9)] = 9


class Log(Record, frozen=True, kw_only=True):
    """[log]: "-" is standard output (access) or standard error (error), "off" none."""

    access: str = "off"
    format: Literal["combined", "json"] = "combined"
    error: str = "-"
    level: Literal["debug", "info", "warning", "error"] = "info"
    backlog: Size = 16 * 1024 * 1024  # lines held while the log cannot be written; then dropped


class Site(Record, frozen=True, kw_only=True):
    """[[site]]: which hosts, and what they get."""

    hosts: tuple[str, ...] = ("*",)  # exact, "*.example.com", or "*" for whatever is left
    root: str = ""  # "" is the packaged welcome site
    index: tuple[str, ...] = ("index.html",)
    symlinks: Literal["within-root", "follow", "never"] = "within-root"
    dotfiles: bool = False
    error_pages: dict[str, str] = field(default_factory=dict)  # "404" = "/404.html"
    headers: dict[str, str] = field(default_factory=dict)  # added to every 200, 206 and 304
    types: dict[str, str] = field(default_factory=dict)  # ".ext" = "type/subtype", before our table


class Config(Record, frozen=True, kw_only=True):
    """The whole of edgebox.toml."""

    server: Server = field(default_factory=Server)
    limits: Limits = field(default_factory=Limits)
    files: Files = field(default_factory=Files)
    compression: Compression = field(default_factory=Compression)
    log: Log = field(default_factory=Log)
    site: tuple[Site, ...] = (Site(),)
