"""What a configuration of the right types can still get wrong.

Each check takes a table and tells why a value will not do; nothing is raised, nothing is
changed. Of the disk only directories and files that must be there are looked up: a root
that is not there is the commonest mistake of all. Paths must be absolute by now
(`config/load` sees to it). What is wrong with a single value `config/wrong` knows.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from edgebox.config.problems import Finding, show
from edgebox.config.schema import Cache, Compression, Config, Control, Files, Log, Server
from edgebox.config.site_checks import check_hosts, check_site, check_upstreams_named
from edgebox.config.toml import KeyPath
from edgebox.config.upstream_checks import check_upstream
from edgebox.config.wrong import (
    MEDIA_TYPE,
    TOKEN,
    no_directory,
    wrong_address,
    wrong_field_name,
    wrong_field_value,
    wrong_network,
)
from edgebox.observe.log_format import CONSTANTS, FormatError, make_format
from edgebox.observe.query import QueryError, compile_query
from edgebox.observe.syslog import is_path, is_syslog, parse_receiver

_PATH = re.compile(r"(/[A-Za-z0-9._~-]*)+")
_MODE = re.compile(r"0?[0-7]{3}")

__all__ = ["check", "check_hosts", "check_upstreams_named"]


def check(config: Config) -> Iterator[Finding]:
    """Every problem that a table has by itself, with the key that has it."""
    yield from _server(config.server)
    yield from _chroot(config)
    yield from _files(config.files)
    yield from _compression(config.compression)
    yield from _cache(config.cache)
    yield from _cache_directory(config)
    for name, upstream in config.upstream.items():
        yield from check_upstream(upstream, name)
    yield from _log(config.log)
    yield from _control(config.control)
    yield from _status(config)
    for number, site in enumerate(config.site):
        yield from check_site(site, ("site", number))


def _server(server: Server) -> Iterator[Finding]:
    if not server.listen:
        yield ("server", "listen"), 'is empty: give at least one, as "127.0.0.1:8080"'
    for index, address in enumerate(server.listen):
        if problem := wrong_address(address):
            yield ("server", "listen", index), f"{show(address)} {problem}"
        elif address in server.listen[:index]:
            yield ("server", "listen", index), f"{show(address)} is listed twice"
    if problem := wrong_field_value(server.name):
        yield ("server", "name"), problem
    if server.group and not server.user:
        yield ("server", "group"), "is for server.user, which is not set"


def _chroot(config: Config) -> Iterator[Finding]:
    """That workers find inside what they are told to serve and to write."""
    chroot = config.server.chroot
    if not chroot:
        return
    if why := no_directory(chroot):
        yield ("server", "chroot"), why
        return
    for number, site in enumerate(config.site):
        if site.root and not _lies_in(site.root, chroot):
            yield ("site", number, "root"), f"does not lie below server.chroot, {show(chroot)}"
        for index, route in enumerate(site.route):
            if route.accel and not _lies_in(route.accel, chroot):
                path: KeyPath = ("site", number, "route", index, "accel")
                yield path, f"does not lie below server.chroot, {show(chroot)}"
    for name, target in (("access", config.log.access), ("error", config.log.error)):
        if is_path(target) and not _lies_in(target, chroot):
            yield ("log", name), f"does not lie below server.chroot, {show(chroot)}"


def _files(files: Files) -> Iterator[Finding]:
    if files.negative_entries > files.entries:
        yield (
            ("files", "negative_entries"),
            f"{files.negative_entries} are more than files.entries, {files.entries},"
            " of which they are a part",
        )


def _compression(compression: Compression) -> Iterator[Finding]:
    for index, pattern in enumerate(compression.types):
        if not MEDIA_TYPE.fullmatch(pattern) or ";" in pattern:
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


def _cache(cache: Cache) -> Iterator[Finding]:
    if cache.via is not None and not TOKEN.fullmatch(cache.via):
        yield ("cache", "via"), f"{show(cache.via)} is no single word of letters, digits, - . _"
    if not TOKEN.fullmatch(cache.name):
        # RFC 9110 §7.6.3: a pseudonym in Via is a token.
        yield ("cache", "name"), f"{show(cache.name)} is no single word of letters, digits, - . _"
    if cache.dir is not None and "\0" in cache.dir:
        yield ("cache", "dir"), 'is no path: name a directory, "auto", or "" for none'
    yield from _targets(cache.targets)
    yield from _networks(cache.trusted_proxies, ("cache", "trusted_proxies"))
    yield from _networks(cache.purge_from, ("cache", "purge_from"))


def _targets(targets: tuple[str, ...]) -> Iterator[Finding]:
    for index, name in enumerate(targets):
        path: KeyPath = ("cache", "targets", index)
        if problem := wrong_field_name(name):
            yield path, f"{show(name)} {problem}"
        elif name.lower() in ("cache-control", "expires"):
            yield path, f"{show(name)} comes after these by itself"
        elif name.lower() in (earlier.lower() for earlier in targets[:index]):
            yield path, f"{show(name)} is listed twice"


def _networks(networks: tuple[str, ...], path: KeyPath) -> Iterator[Finding]:
    for index, network in enumerate(networks):
        if problem := wrong_network(network):
            yield (*path, index), f"{show(network)} {problem}"


def _cache_directory(config: Config) -> Iterator[Finding]:
    """That what is swept holds nothing else, and is not published."""
    directory = config.cache.dir
    if not directory:
        return
    variants = config.compression.dir
    if variants and (_lies_in(directory, variants) or _lies_in(variants, directory)):
        yield ("cache", "dir"), "overlaps compression.dir: each is swept by itself"
    for number, site in enumerate(config.site):
        if site.root and _lies_in(directory, site.root):
            yield ("cache", "dir"), f"lies in the root of site[{number}], where anybody could read"


def _lies_in(path: str, directory: str) -> bool:
    return Path(os.path.normpath(path)).is_relative_to(os.path.normpath(directory))


def _log(log: Log) -> Iterator[Finding]:
    for name, target in (("access", log.access), ("error", log.error)):
        if not target:
            yield ("log", name), 'is empty: write a path, "-", "syslog", or "off"'
        elif is_syslog(target):
            yield from _syslog(name, target)
        elif is_path(target) and (why := no_directory(str(Path(target).parent))):
            yield ("log", name), why
    try:
        make_format(log.format, dict.fromkeys(CONSTANTS, ""))
    except FormatError as error:
        yield ("log", "format"), str(error)
    try:
        compile_query(log.only or "status > 0")
    except QueryError as error:
        yield ("log", "only"), str(error)


def _control(control: Control) -> Iterator[Finding]:
    if _MODE.fullmatch(control.mode) is None:
        problem = f'{show(control.mode)} is no permission: write three octal digits, as "0660"'
        yield ("control", "mode"), problem
    # unix(7): sun_path has 108 octets, of which a zero is the last.
    if len(os.fsencode(control.socket or "")) > 107:
        yield ("control", "socket"), "is too long: the path of a socket may have 107 octets"


def _syslog(name: str, target: str) -> Iterator[Finding]:
    try:
        parse_receiver(target)
    except ValueError as error:
        yield ("log", name), f"{show(target)} is no syslog: {error}"


def _status(config: Config) -> Iterator[Finding]:
    status = config.status
    if status.listen and (problem := wrong_address(status.listen)):
        yield ("status", "listen"), f"{show(status.listen)} {problem}"
    elif status.listen in config.server.listen:
        yield ("status", "listen"), "is one of server.listen: the page needs an address of its own"
    for name, path in (("path", status.path), ("metrics", status.metrics)):
        if not _PATH.fullmatch(path):
            yield ("status", name), f"{show(path)} is no path: write it as in a URL, /status"
    if status.path == status.metrics:
        yield ("status", "metrics"), "is where the page is already"
    yield from _networks(status.allow, ("status", "allow"))
