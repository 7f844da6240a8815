"""Options that several verbs share, and what they do when the configuration is wrong."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import click

from edgebox.config.load import find_config, load
from edgebox.config.problems import ConfigError
from edgebox.config.schema import Config


def config_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """-c FILE, passed to the command as `config: Path | None`."""
    return click.option(
        "-c",
        "--config",
        type=click.Path(path_type=Path),
        default=None,
        metavar="FILE",
        help="Default: ./edgebox.toml, else /etc/edgebox/edgebox.toml, else what is built in.",
    )(command)


def server_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """--server ADDRESS, passed to the command as `server: str | None`."""
    return click.option(
        "--server",
        default=None,
        metavar="HOST:PORT",
        help="Where the server listens; default: the first address in the file.",
    )(command)


def load_or_exit(explicit: Path | None) -> tuple[Config, str]:
    """The configuration, and what to call where it came from.

    Exits with 1, all problems on standard error, if it cannot be used.
    """
    path = find_config(explicit)
    if path is None:
        return Config(), "built-in defaults"
    try:
        return load(path), str(path)
    except ConfigError as error:
        exit_with(error)


def exit_with(error: ConfigError, status: int = 1) -> NoReturn:
    """Every problem on standard error, a line each, and an end with `status`."""
    for problem in error.problems:
        click.echo(problem, err=True)
    raise SystemExit(status)
