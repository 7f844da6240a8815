"""`edgebox reload`: the running server reads its configuration again, or says why it will not."""

from __future__ import annotations

from pathlib import Path

import click

from edgebox.cli.control import carry_out, connect, socket_option
from edgebox.cli.options import config_option

PATIENCE = 150.0  # seconds: new workers may take a minute to get ready


@click.command()
@config_option
@socket_option
def reload(config: Path | None, socket_path: str | None) -> None:
    """Have the running server go over to its configuration file as it is now.

    Waits until new workers serve. If anything is wrong with the file, all of it is told, the
    server goes on with what it had, and the exit status is 1.
    """
    with connect(socket_path, config, PATIENCE) as client:
        told = carry_out("reload", "reloaded", client)
    generation = told.get("generation")
    click.echo("reloaded" if generation is None else f"reloaded: generation {generation} serves")
