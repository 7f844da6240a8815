"""`edgebox check`: tells everything that is wrong with a configuration, or that nothing is.

Reads and looks, changes nothing: safe on a running server, before a reload.
"""

from __future__ import annotations

from pathlib import Path

import click

from edgebox.cli.options import config_option, load_or_exit
from edgebox.cli.plan import facts_option, read_facts
from edgebox.config.dump import dump


@click.command()
@config_option
@click.option(
    "--dump",
    "as_toml",
    is_flag=True,
    default=False,
    help="Print what is in force: every key, with a value and its reason for each that is auto.",
)
@facts_option("With --dump: what would be in force on the machine in FILE.")
def check(config: Path | None, as_toml: bool, known: str | None) -> None:
    """Tell everything that is wrong with a configuration.

    Exits with 0, or with 1 and each problem as FILE:LINE: key: problem.
    """
    asked, name = load_or_exit(config)
    if as_toml:
        # Here, not above: to check a file, nobody needs a plan.
        from edgebox.ops.sizing.sizing import size

        sized = size(asked, None if known is None else read_facts(known))
        click.echo(dump(sized.whole, asked, sized.reasons), nl=False)
    click.echo(f"{name}: ok", err=as_toml)
