"""`edgebox purge`: has the running server forget what it stored."""

from __future__ import annotations

from pathlib import Path

import click

from edgebox.cli.operate import operate, split_url
from edgebox.cli.options import config_option, load_or_exit, server_option


@click.command()
@click.argument("urls", nargs=-1, metavar="[URL]...")
@click.option("--prefix", "prefixes", multiple=True, metavar="URL", help="All that begin so.")
@click.option("--tag", "tags", multiple=True, metavar="TAG", help="All with this Surrogate-Key.")
@click.option("--all", "everything", is_flag=True, help="All there is.")
@click.option("--soft", is_flag=True, help="Stale from now on, not gone.")
@config_option
@server_option
def purge(
    urls: tuple[str, ...],
    prefixes: tuple[str, ...],
    tags: tuple[str, ...],
    everything: bool,
    soft: bool,
    config: Path | None,
    server: str | None,
) -> None:
    """Have the running server forget URLs, with all their variants, or more.

    Tells how many stored answers that concerned.
    """
    orders: list[tuple[str, dict[str, str]]] = []
    for url in urls:
        host, target = split_url(url)
        orders.append((target, {"Host": host}))
    for url in prefixes:
        host, target = split_url(url)
        orders.append((target.removesuffix("*") + "*", {"Host": host}))
    if tags:
        orders.append(("/", {"Host": "localhost", "Surrogate-Key": " ".join(tags)}))
    if everything:
        orders.append(("/", {"Host": "localhost", "Purge-Scope": "everything"}))
    if not orders:
        raise click.UsageError("say what: a URL, --prefix, --tag or --all")
    address = server or load_or_exit(config)[0].server.listen[0]
    mode = {"Purge-Mode": "soft"} if soft else {}
    count = sum(
        operate(address, "PURGE", target, fields | mode)["purged"] for target, fields in orders
    )
    click.echo(f"{count} purged")
