"""`edgebox upstream list|drain|up`: the app servers, and who of them is asked."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click

from edgebox.cli.control import Told, connect, socket_option
from edgebox.cli.options import config_option
from edgebox.cli.words import count, seconds

_COLUMNS = ("active", "idle", "answered", "failed", "ejected", "reused", "connections")


@click.group()
def upstream() -> None:
    """Show the app servers of the running server, take one out, put it back."""


def _connection_options(command: Callable[..., Any]) -> Callable[..., Any]:
    return config_option(socket_option(command))


@upstream.command("list")
@click.option("--json", "as_json", is_flag=True, help="For programs.")
@_connection_options
def list_servers(as_json: bool, config: Path | None, socket_path: str | None) -> None:
    """Each server: how it stands with how many workers, and what it has done."""
    with connect(socket_path, config) as client:
        told = client.ask("upstream", action="list")
    if as_json:
        click.echo(json.dumps(told["servers"], indent=2))
    elif not told["servers"]:
        click.echo("no route of the configuration has an upstream")
    else:
        click.echo("\n".join(_table(told["servers"])))


@upstream.command()
@click.argument("server", metavar="URL")
@click.option("--pool", default=None, metavar="NAME", help="Only in [upstream.NAME].")
@_connection_options
def drain(server: str, pool: str | None, config: Path | None, socket_path: str | None) -> None:
    """Send nothing new to a server; what it has in hand goes on. Holds until `up`."""
    _change("drain", server, pool, config, socket_path)
    click.echo(f"{server} gets nothing new")


@upstream.command()
@click.argument("server", metavar="URL")
@click.option("--pool", default=None, metavar="NAME", help="Only in [upstream.NAME].")
@_connection_options
def up(server: str, pool: str | None, config: Path | None, socket_path: str | None) -> None:
    """Ask a server again that was drained, is down or was left out."""
    _change("up", server, pool, config, socket_path)
    click.echo(f"{server} is asked again")


def _change(
    action: str, server: str, pool: str | None, config: Path | None, socket_path: str | None
) -> None:
    arguments = {"server": server} if pool is None else {"server": server, "pool": pool}
    with connect(socket_path, config) as client:
        client.ask("upstream", action=action, **arguments)


def _table(servers: list[Told]) -> Iterator[str]:
    rows = [("pool", "server", "standing", *_COLUMNS, "head after")]
    for server in servers:
        numbers = [count(server.get(name, 0)) for name in _COLUMNS]
        numbers.append(seconds(server.get("head_us", 0) / 1e6))
        rows.append((server["pool"], server["server"], _standing(server["standings"]), *numbers))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        texts = [text.ljust(width) for text, width in zip(row[:3], widths[:3], strict=True)]
        numbers = [text.rjust(width) for text, width in zip(row[3:], widths[3:], strict=True)]
        yield "  ".join([*texts, *numbers])


def _standing(standings: dict[str, int]) -> str:
    """One word where all workers agree."""
    if len(standings) == 1:
        return next(iter(standings))
    return ", ".join(f"{name} ({workers})" for name, workers in sorted(standings.items()))
