"""What a configuration of the right types can still get wrong.

Each check takes a value and tells why it will not do; nothing is raised, nothing is
changed. Only directories are looked up on disk, because a root that is not there is
the commonest mistake of all. Paths must be absolute by now (`config/load` sees to it).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from ipaddress import IPv6Address, ip_address
from pathlib import Path
from stat import S_ISDIR

from edgebox.config.problems import Finding, show
from edgebox.config.schema import Compression, Config, Files, Log, Server, Site
from edgebox.config.toml import KeyPath

# RFC 9110 §5.6.2, and §8.3.1 for what media types are made of.
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_MEDIA_TYPE = re.compile(rf"{_TOKEN.pattern}/{_TOKEN.pattern}([ \t]*;.*)?")
# RFC 9110 §5.5: visible ASCII with spaces and tabs only between.
_FIELD_VALUE = re.compile(r"([!-~]([ \t!-~]*[!-~])?)?")
# RFC 1123 §2.1; the underscore is no host name, but is seen in the wild.
_LABEL = r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?"
_HOST = re.compile(rf"(\*\.)?{_LABEL}(\.{_LABEL})*")

SOCKET_PATH = 107  # octets of sun_path without its NUL, unix(7)

# Fields that belong to one answer or one connection: a constant would break them.
OURS = frozenset((
    "accept-ranges", "age", "connection", "content-encoding", "content-length",
    "content-range", "content-type", "date", "etag", "keep-alive", "last-modified",
    "server", "te", "trailer", "transfer-encoding", "upgrade",
))  # fmt: skip


def check(config: Config) -> Iterator[Finding]:
    """Every problem of `config`, with the key that has it."""
    yield from _server(config.server)
    yield from _files(config.files)
    yield from _compression(config.compression)
    yield from _log(config.log)
    for number, site in enumerate(config.site):
        yield from _site(site, ("site", number))


def check_hosts(sites: tuple[Site, ...]) -> Iterator[Finding]:
    """That each host has one site, and whatever host is left has one too."""
    owner: dict[str, int] = {}
    for number, site in enumerate(sites):
        for index, host in enumerate(site.hosts):
            if host in owner:
                other = "this" if owner[host] == number else f"site[{owner[host]}]"
                yield ("site", number, "hosts", index), f"{show(host)} is in {other} already"
            owner.setdefault(host, number)
    if not sites:
        yield ("site",), "there is none: add a [[site]]"
    elif "*" not in owner:
        yield (
            ("site",),
            'no site takes the hosts that are left: add "*" to the hosts of one of them',
        )


def _server(server: Server) -> Iterator[Finding]:
    if not server.listen:
        yield ("server", "listen"), 'is empty: give at least one, as "127.0.0.1:8080"'
    for index, address in enumerate(server.listen):
        if problem := wrong_address(address):
            yield ("server", "listen", index), f"{show(address)} {problem}"
        elif address in server.listen[:index]:
            yield ("server", "listen", index), f"{show(address)} is listed twice"
    if problem := _wrong_field_value(server.name):
        yield ("server", "name"), problem


def wrong_address(address: str) -> str | None:
    """Why `address` cannot be listened on; None if it looks as if it could."""
    if address.startswith("unix:"):
        path = address.removeprefix("unix:")
        if not path.startswith("/") or "\0" in path:
            return 'must name an absolute path, as "unix:/run/edgebox/http.sock"'
        if len(os.fsencode(path)) > SOCKET_PATH:
            return f"is too long: the path of a Unix socket has at most {SOCKET_PATH} octets"
        return None
    host, colon, port = address.rpartition(":")
    if not colon or host.endswith(":"):
        return 'has no port: write HOST:PORT, as "127.0.0.1:8080" or "[::1]:8080"'
    if not re.fullmatch("[0-9]{1,5}", port) or int(port) > 65535:
        return f"has no valid port: {show(port)} is not a number from 0 to 65535"
    if host in ("", "*", "localhost"):
        return None
    return _wrong_host_address(host)


def _wrong_host_address(host: str) -> str | None:
    inner = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    try:
        version = ip_address(inner).version
    except ValueError:
        return f'names {show(host)}: it must be an IP address, "localhost", or "*" for all'
    if (version == 6) != (inner != host):
        return "has brackets wrong: IPv6 addresses have them, IPv4 has not"
    return None


def _files(files: Files) -> Iterator[Finding]:
    if files.negative_entries > files.entries:
        yield (
            ("files", "negative_entries"),
            f"{files.negative_entries} are more than files.entries, {files.entries},"
            " of which they are a part",
        )


def _compression(compression: Compression) -> Iterator[Finding]:
    for index, pattern in enumerate(compression.types):
        if not _MEDIA_TYPE.fullmatch(pattern) or ";" in pattern:
            yield (
                ("compression", "types", index),
                f'{show(pattern)} is no media type: write "type/subtype" or "type/*"',
            )
    if len(set(compression.codings)) < len(compression.codings):
        yield ("compression", "codings"), "names one twice"
    if compression.min_size > compression.max_size:
        yield ("compression", "min_size"), "is more than compression.max_size: nothing is left"
    if compression.dir is not None and (not compression.dir or "\0" in compression.dir):
        yield ("compression", "dir"), 'is no path: name a directory, or "auto"'


def _log(log: Log) -> Iterator[Finding]:
    for name, target in (("access", log.access), ("error", log.error)):
        if not target:
            yield ("log", name), 'is empty: write a path, "-", or "off"'
        elif target not in ("-", "off") and (why := _no_directory(str(Path(target).parent))):
            yield ("log", name), why


def _site(site: Site, path: KeyPath) -> Iterator[Finding]:
    if site.root and (why := _no_directory(site.root)):
        yield (*path, "root"), why
    if not site.hosts:
        yield (*path, "hosts"), 'is empty: nobody would reach this site; "*" is whatever is left'
    for index, host in enumerate(site.hosts):
        if problem := wrong_host(host):
            yield (*path, "hosts", index), f"{show(host)} {problem}"
    for index, name in enumerate(site.index):
        if not name or "/" in name or "\0" in name or name in (".", ".."):
            yield (*path, "index", index), f'{show(name)} is no file name, as "index.html"'
    for status, page in site.error_pages.items():
        if not re.fullmatch("[45][0-9][0-9]", status):
            yield (*path, "error_pages", status), "is no error status, 400 to 599"
        if not page.startswith("/") or not page.isprintable():
            yield (
                (*path, "error_pages", status),
                f'{show(page)} must be a path from the root of the site, as "/404.html"',
            )
    yield from _site_headers(site, (*path, "headers"))
    for extension, media_type in site.types.items():
        if not extension.startswith(".") or len(extension) < 2 or "/" in extension:
            yield (*path, "types", extension), 'must start with a dot, as ".webmanifest"'
        if not _MEDIA_TYPE.fullmatch(media_type) or not _FIELD_VALUE.fullmatch(media_type):
            yield (
                (*path, "types", extension),
                f'{show(media_type)} is no media type, as "text/plain"',
            )


def wrong_host(host: str) -> str | None:
    """Why `host` is no pattern of hosts; None if it is one."""
    if host == "*":
        return None
    if "/" in host:
        return "must be a host alone, without scheme or path"
    if not host.isascii():
        return 'must be written in its ASCII form, "xn--..."'
    if host.startswith("["):
        try:
            IPv6Address(host[1:].removesuffix("]"))
        except ValueError:
            return "is no IPv6 address"
        return None if host.endswith("]") else "must be a host alone, without port"
    if ":" in host:
        return "must be a host alone, without port"
    if "*" in host.removeprefix("*."):
        return 'may have a star only as its whole first label, as "*.example.com"'
    if not _HOST.fullmatch(host) or len(host) > 253:
        return 'is no host name, as "www.example.com" or "*.example.com"'
    return None


def _site_headers(site: Site, path: KeyPath) -> Iterator[Finding]:
    seen: set[str] = set()
    for name, value in site.headers.items():
        if not _TOKEN.fullmatch(name):
            yield (*path, name), "is no field name: letters, digits and - only (RFC 9110 §5.1)"
        elif name.lower() in OURS:
            yield (*path, name), "edgebox sets this field itself, for each answer"
        elif name.lower() in seen:
            yield (*path, name), "is there twice: names of fields have no upper or lower case"
        seen.add(name.lower())
        if problem := _wrong_field_value(value):
            yield (*path, name), problem


def _wrong_field_value(value: str) -> str | None:
    if _FIELD_VALUE.fullmatch(value):
        return None
    return f"{show(value)} must be visible ASCII, with spaces only between (RFC 9110 §5.5)"


def _no_directory(path: str) -> str | None:
    """Why `path` is not a directory that can be read; None if it is."""
    try:
        if S_ISDIR(os.stat(path).st_mode):
            return None
    except FileNotFoundError:
        return f"no such directory: {path}"
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        return f"cannot use {show(path)}: {getattr(error, 'strerror', None) or error}"
    return f"is not a directory: {path}"
