"""`edgebox upgrade`: the running server goes over to the code that is installed now."""

from __future__ import annotations

from pathlib import Path

import click

from edgebox.cli.control import carry_out, connect, socket_option
from edgebox.cli.options import config_option
from edgebox.cli.reload import PATIENCE


@click.command()
@config_option
@socket_option
def upgrade(config: Path | None, socket_path: str | None) -> None:
    """Have the running server replace itself by the installed version, losing no request.

    Waits until the new one serves. If it cannot, the old one goes on, and the exit status is 1.
    """
    with connect(socket_path, config, PATIENCE) as client:
        told = carry_out("upgrade", "upgraded", client)
    pid = told.get("pid")
    click.echo("upgraded" if pid is None else f"upgraded: process {pid} serves")
