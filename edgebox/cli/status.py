"""`edgebox status`: how the running server is, for one look."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from edgebox.cli.control import Told, connect, socket_option
from edgebox.cli.options import config_option


@click.command()
@click.option("--json", "as_json", is_flag=True, help="For programs: all that there is.")
@config_option
@socket_option
def status(as_json: bool, config: Path | None, socket_path: str | None) -> None:
    """Show how the running server is: its link, clients, cache, workers and upstreams."""
    with connect(socket_path, config) as client:
        told = client.ask("status")
    if as_json:
        del told["ok"]
        click.echo(json.dumps(told, indent=2))
    else:
        _show(told)


def _show(told: Told) -> None:
    # rich takes a moment that --json should not pay.
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from edgebox.cli.panels import LISTINGS, headline, lines, ordered

    # Who reads it from a pipe has no width that lines should be cut to.
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 160)
    console.print(headline(told))
    for line in lines(told, console.width):
        console.print(line)
    for listing in LISTINGS:
        rows = ordered(listing, told, listing.sort, listing.down)
        if listing.key not in ("w", "p", "e") or not rows:
            continue
        table = Table(title=listing.title, title_justify="left", box=None, padding=(0, 2, 0, 0))
        for column in listing.columns:
            table.add_column(column.title, justify="right" if column.is_number else "left")
        for row in rows[:10]:
            # Text, not str: rich would take what stands in brackets for markup.
            table.add_row(*(Text(cell) for cell in row))
        console.print()
        console.print(table)
