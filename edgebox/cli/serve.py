"""`edgebox serve`: put a directory, or what edgebox.toml says, on the wire."""

from __future__ import annotations

import resource
import socket
import sys
from contextlib import ExitStack
from pathlib import Path

import click
from msgspec.structs import replace

from edgebox.cli.options import config_option, load_or_exit
from edgebox.config.schema import Config, Route
from edgebox.config.settle import look_at_machine, settle
from edgebox.config.upstream_checks import wrong_origin
from edgebox.listen.sockets import ListenError, address_of, bind, close_listener


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
@click.option("--access-log", default=None, metavar="PATH|-|off", help="Where requests are logged.")
def serve(
    config: Path | None,
    root: Path | None,
    upstream: str | None,
    listen: tuple[str, ...],
    access_log: str | None,
) -> None:
    """Serve until told to stop: SIGTERM at once, SIGQUIT when all are answered."""
    asked, _ = load_or_exit(config)
    if upstream is not None and (problem := wrong_origin(upstream)):
        raise click.BadParameter(problem, param_hint="--upstream")
    if upstream is not None and root is not None:
        raise click.UsageError("--root and --upstream both claim every path: use edgebox.toml")
    raise_descriptor_limit()
    settled = settle(with_flags(asked, root, upstream, listen, access_log), look_at_machine())
    with ExitStack() as stack:
        try:
            listeners = bind_all(settled, stack)
            # After the arguments are known to be good: trio and the rooms take a moment.
            from edgebox.ops.worker import run_worker

            addresses = " ".join(address_of(sock) for sock in listeners)
            run_worker(settled, listeners, lambda: click.echo(f"edgebox: ready on {addresses}"))
        except (ListenError, OSError, RuntimeError) as problem:
            click.echo(f"edgebox: {problem}", err=True)
            sys.exit(1)


def with_flags(
    config: Config,
    root: Path | None,
    upstream: str | None,
    listen: tuple[str, ...],
    access_log: str | None,
) -> Config:
    """`config` with what the command line says instead."""
    if root is not None:
        site = replace(
            config.site[0], hosts=("*",), root=str(root.absolute()), error_pages={}, route=()
        )
        config = replace(config, site=(site,))
    if upstream is not None:
        site = replace(
            config.site[0],
            hosts=("*",),
            root="",
            error_pages={},
            route=(Route(upstream=upstream),),
        )
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
