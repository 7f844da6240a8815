"""From edgebox.toml to a Config, or to everything that is wrong with it.

Read, parsed, converted, made absolute, checked: a step each, and the first that cannot
go on ends it. Relative paths count from the directory of the file, so that it means
the same wherever edgebox is started. Nobody past this room sees TOML.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from edgebox.config.checks import check, check_hosts, check_upstreams_named
from edgebox.config.convert import convert
from edgebox.config.lines import key_lines, line_of
from edgebox.config.problems import ConfigError, Finding, Problem
from edgebox.config.schema import Config, Route, Site
from edgebox.config.toml import write_path
from edgebox.config.upstreams import Upstream
from edgebox.observe.syslog import is_path

__all__ = ["ConfigError", "Problem", "find_config", "load", "load_text"]

PLACES = (Path("edgebox.toml"), Path("/etc/edgebox/edgebox.toml"))

_POSITION = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)$")


def find_config(explicit: Path | None, places: tuple[Path, ...] = PLACES) -> Path | None:
    """The file to load: `explicit`, else the first of `places` that is there.

    None: there is no file, and the built-in defaults hold.
    """
    if explicit is not None:
        return explicit
    return next((place for place in places if _is_there(place)), None)


def _is_there(place: Path) -> bool:
    try:
        return place.exists()
    except PermissionError:  # better told by `load` than passed over for the defaults
        return True


def load(path: Path) -> Config:
    """The configuration in `path`; raises ConfigError with all its problems."""
    try:
        octets = path.read_bytes()
    except OSError as error:
        raise _failure(str(path), None, f"cannot be read: {error.strerror}") from error
    try:
        text = octets.decode("utf-8-sig")  # some editors start a file with a mark
    except UnicodeDecodeError as error:
        line = octets.count(b"\n", 0, error.start) + 1
        raise _failure(str(path), line, "is not UTF-8 text") from error
    return load_text(text, str(path))


def load_text(text: str, name: str) -> Config:
    """The configuration in `text`, which is the content of the file `name`.

    Raises ConfigError with all its problems.
    """
    tree = _parse(text, name)
    config, findings = convert(tree)
    config = _absolute(config, Path(name).absolute().parent)
    findings.extend(check(config))
    findings.extend(check_upstreams_named(config.site, _names(tree.get("upstream"))))
    if not any(path[:1] == ("site",) for path, _ in findings):
        findings.extend(check_hosts(config.site))  # not told of hosts that are wrong anyway
    if findings:
        raise ConfigError(_located(findings, text, name))
    return config


def _parse(text: str, name: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except ValueError as error:
        message = str(error)
        position = _POSITION.search(message)
        line = int(position[1]) if position and position[1] else text.count("\n") + 1
        what = _POSITION.sub("", message)
        if what.startswith(("Cannot overwrite", "Cannot declare")):
            what = "this key or table is there twice"
        column = f" (column {position[2]})" if position and position[2] else ""
        raise _failure(name, line, f"not TOML: {what}{column}") from error


def _names(table: object) -> list[str]:
    """As the file has them: an upstream that is wrong is left out, yet may be referred to."""
    return list(table) if isinstance(table, dict) else []


def _failure(file: str, line: int | None, text: str) -> ConfigError:
    return ConfigError((Problem(file, line, "", text),))


def _located(findings: list[Finding], text: str, name: str) -> tuple[Problem, ...]:
    lines = key_lines(text)
    problems = [Problem(name, line_of(lines, path), write_path(path), t) for path, t in findings]
    return tuple(sorted(problems, key=lambda problem: problem.line or 0))


def _absolute(config: Config, base: Path) -> Config:
    """`config` with its paths counted from `base`, and host names in lower case."""

    def path(text: str) -> str:
        return str(base / text)  # ".." stays: it may lie behind a symbolic link

    def log(target: str) -> str:
        return path(target) if is_path(target) else target

    def route(route: Route) -> Route:
        return replace(route, accel=route.accel and path(route.accel))

    def site(site: Site) -> Site:
        return replace(
            site,
            root=site.root and path(site.root),
            hosts=tuple(host.lower() for host in site.hosts),
            route=tuple(map(route, site.route)),
        )

    def upstream(upstream: Upstream) -> Upstream:
        tls = upstream.tls
        return replace(upstream, tls=replace(tls, ca=tls.ca and path(tls.ca)))

    variants, answers = config.compression.dir, config.cache.dir
    chroot, socket = config.server.chroot, config.control.socket
    return replace(
        config,
        server=replace(config.server, chroot=chroot and path(chroot)),
        compression=replace(config.compression, dir=variants and path(variants)),
        cache=replace(config.cache, dir=answers and path(answers)),
        control=replace(config.control, socket=socket and path(socket)),
        upstream={name: upstream(record) for name, record in config.upstream.items()},
        log=replace(config.log, access=log(config.log.access), error=log(config.log.error)),
        site=tuple(map(site, config.site)),
    )
