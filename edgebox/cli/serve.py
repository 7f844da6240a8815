"""`edgebox serve`: put a directory, or what edgebox.toml says, on the wire."""

from __future__ import annotations

import resource
import socket
import sys
from contextlib import ExitStack
from pathlib import Path

import click
from msgspec.structs import replace

from edgebox.config.load import ConfigError, find_config, load
from edgebox.config.schema import Config
from edgebox.config.settle import look_at_machine, settle
from edgebox.listen.sockets import ListenError, address_of, bind, close_listener


@click.command()
@click.option(
    "-c",
    "--config",
    "config_path",
    type=click.Path(path_type=Path),
    default=None,
    help="Configuration file. Default: ./edgebox.toml, else /etc/edgebox/edgebox.toml.",
)
@click.option(
    "--root",
    type=click.Path(file_okay=False, path_type=Path),
    default=None,
    help="Serve this directory to every host.",
)
@click.option(
    "--listen",
    multiple=True,
    default=(),
    metavar="HOST:PORT",
    help="Listen here instead of where the file says; may be repeated.",
)
@click.option("--access-log", default=None, metavar="PATH|-|off", help="Where the access log goes.")
def serve(
    config_path: Path | None, root: Path | None, listen: tuple[str, ...], access_log: str | None
) -> None:  # fmt: skip
    """Serve until told to stop: SIGTERM at once, SIGQUIT when all are answered."""
    try:
        found = find_config(config_path)
        config = load(found) if found is not None else Config()
    except ConfigError as bad:
        for problem in bad.problems:
            click.echo(problem, err=True)
        sys.exit(1)
    raise_descriptor_limit()
    config = with_flags(config, root, listen, access_log)
    config = settle(config, look_at_machine())
    with ExitStack() as stack:
        try:
            listeners = bind_all(config, stack)
            # After the arguments are known to be good: trio and the rooms take a moment.
            from edgebox.ops.worker import run_worker

            addresses = " ".join(address_of(sock) for sock in listeners)
            run_worker(config, listeners, lambda: click.echo(f"edgebox: ready on {addresses}"))
        except (ListenError, OSError) as problem:
            click.echo(f"edgebox: {problem}", err=True)
            sys.exit(1)


def with_flags(
    config: Config, root: Path | None, listen: tuple[str, ...], access_log: str | None
) -> Config:
    """`config` with what the command line says instead."""
    if root is not None:
        if not root.is_dir():
            raise click.BadParameter(f"{root} is not a directory", param_hint="--root")
        site = replace(config.site[0], hosts=("*",), root=str(root.absolute()), error_pages={})
        config = replace(config, site=(site,))
    if listen:
        config = replace(config, server=replace(config.server, listen=listen))
    if access_log is not None:
        config = replace(config, log=replace(config.log, access=access_log))
    return config


def bind_all(config: Config, stack: ExitStack) -> list[socket.socket]:
    """The listening sockets, closed with `stack`. Raises ListenError."""
    listeners = []
    for address in config.server.listen:
        sock = bind(address, config.server.backlog or 1)
        stack.callback(close_listener, sock)
        listeners.append(sock)
    return listeners


def raise_descriptor_limit() -> None:
    """Descriptors up to the hard limit: a soft limit of 1024 is for programs that use select()."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
