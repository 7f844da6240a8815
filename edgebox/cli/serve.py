"""`edgebox serve`: put a directory, or what edgebox.toml says, on the wire.

A file that was found once is the one that is read from then on: were it gone at a reload or an
upgrade, and the built-in defaults taken instead, all sites would be gone with it.

Exit status 78 says that the configuration is to blame, and that another try would end alike: a
service manager can leave it at that. 1 is everything else that keeps it from serving, an
address in use for example.
"""

from __future__ import annotations

import os
import resource
import sys
from dataclasses import dataclass
from pathlib import Path

import click
from msgspec.structs import replace

from edgebox.cli.options import config_option, exit_with
from edgebox.config.load import find_config, load
from edgebox.config.problems import ConfigError
from edgebox.config.schema import Config, Route
from edgebox.config.upstream_checks import wrong_origin

FILE = "EDGEBOX_CONFIG"  # tells a successor which file it is, see `ops/processes/successor`
WRONG_CONFIG = 78  # EX_CONFIG of sysexits.h


@click.command()
@config_option
@click.option(
    "--root",
    type=click.Path(file_okay=False, exists=True, path_type=Path),
    default=None,
    help="Serve this directory to every host.",
)
@click.option(
    "--upstream", default=None, metavar="URL", help="Put the cache before this app server."
)
@click.option(
    "--listen",
    multiple=True,
    default=(),
    metavar="HOST:PORT",
    help="Listen here instead of where the file says; may be repeated.",
)
@click.option(
    "--workers",
    type=click.IntRange(1, 32),
    default=None,
    metavar="N",
    help="So many processes serve, instead of what the file or the plan says.",
)
@click.option("--access-log", default=None, metavar="PATH|-|off", help="Where requests are logged.")
def serve(
    config: Path | None,
    root: Path | None,
    upstream: str | None,
    listen: tuple[str, ...],
    access_log: str | None,
    workers: int | None,
) -> None:
    """Serve until told to stop: SIGTERM at once, SIGQUIT when all are answered.

    SIGHUP takes up the file as it is then, with these same options.
    """
    flags = Flags(root and root.absolute(), upstream, listen, access_log, workers)
    if upstream is not None and (problem := wrong_origin(upstream)):
        raise click.BadParameter(problem, param_hint="--upstream")
    if upstream is not None and root is not None:
        raise click.UsageError("--root and --upstream both claim every path: use edgebox.toml")
    raise_descriptor_limit()

    def read() -> Config:
        path = find_config(config or _found_before())
        if path is None:
            return with_flags(Config(), flags)
        os.environ[FILE] = str(path)
        return with_flags(load(path), flags)

    def announce(addresses: list[str]) -> None:
        click.echo(f"edgebox: ready on {' '.join(addresses)}")

    # After the arguments are known to be good: the parts take a moment.
    from edgebox.ops.processes.succession import REASONS
    from edgebox.ops.processes.supervisor import StartError, Supervisor

    try:
        Supervisor(read, announce).run()
    except ConfigError as error:
        exit_with(error, WRONG_CONFIG)
    except (StartError, *REASONS) as problem:
        click.echo(f"edgebox: {problem}", err=True)
        sys.exit(1)


def _found_before() -> Path | None:
    name = os.environ.get(FILE)
    return Path(name) if name else None


@dataclass(frozen=True, slots=True)
class Flags:
    """What the command line says instead of the file; None and () say nothing."""

    root: Path | None = None
    upstream: str | None = None
    listen: tuple[str, ...] = ()
    access_log: str | None = None
    workers: int | None = None


def with_flags(config: Config, flags: Flags) -> Config:
    """`config` with what the command line says instead."""
    if flags.root is not None:
        site = replace(config.site[0], hosts=("*",), root=str(flags.root), error_pages={}, route=())
        config = replace(config, site=(site,))
    if flags.upstream is not None:
        site = replace(
            config.site[0],
            hosts=("*",),
            root="",
            error_pages={},
            route=(Route(upstream=flags.upstream),),
        )
        config = replace(config, site=(site,))
    if flags.listen:
        config = replace(config, server=replace(config.server, listen=flags.listen))
    if flags.workers is not None:
        config = replace(config, server=replace(config.server, workers=flags.workers))
    if flags.access_log is not None:
        config = replace(config, log=replace(config.log, access=flags.access_log))
    return config


def raise_descriptor_limit() -> None:
    """Descriptors up to the hard limit: a soft limit of 1024 is for programs that use select()."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
