"""`edgebox ban`: what is stored now and matches a rule is not served any more."""

from __future__ import annotations

from pathlib import Path

import click

from edgebox.cache.bans import BanError, parse_ban
from edgebox.cli.control import connect, socket_option
from edgebox.cli.options import config_option


@click.command()
@click.argument("rule")
@click.option("--soft", is_flag=True, help="Stale from now on, not gone.")
@config_option
@socket_option
def ban(rule: str, soft: bool, config: Path | None, socket_path: str | None) -> None:
    """Have the running server forget all stored answers that a RULE matches.

    \b
    edgebox ban 'host = example.com and path ~ ^/news/'
    edgebox ban 'header.Content-Type ~ ^image/ and status = 404'

    Fields are url, host, path, status and header.NAME; operators are = != ~ and !~, where ~ is
    a regular expression. Answers stored after the ban are not concerned.
    """
    try:
        parse_ban(rule)
    except BanError as problem:
        raise click.BadParameter(str(problem), param_hint="RULE") from problem
    with connect(socket_path, config) as client:
        told = client.ask("ban", rule=rule, soft=soft)
    click.echo(f"{told['purged']} banned in RAM; on disk, each as it is found")
