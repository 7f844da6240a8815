"""`edgebox check`: tells everything that is wrong with a configuration, or that nothing is.

Reads and looks, changes nothing: safe on a running server, before a reload.
"""

from __future__ import annotations

from pathlib import Path

import click

from edgebox.cli.options import config_option, load_or_exit
from edgebox.config.dump import dump
from edgebox.config.settle import look_at_machine, settle


@click.command()
@config_option
@click.option(
    "--dump",
    "as_toml",
    is_flag=True,
    default=False,
    help="Print what is in force: every key, with a value for each that is auto.",
)
def check(config: Path | None, as_toml: bool) -> None:
    """Tell everything that is wrong with a configuration.

    Exits with 0, or with 1 and each problem as FILE:LINE: key: problem.
    """
    asked, name = load_or_exit(config)
    if as_toml:
        click.echo(dump(settle(asked, look_at_machine()), asked), nl=False)
    click.echo(f"{name}: ok", err=as_toml)
