"""The `edgebox` command: a table of verbs, each imported only when it is asked for.

A server should not pay for the progress bars of another verb, nor `--help` for the
server: a verb's line of help stands here, so that listing them imports none.
"""

from __future__ import annotations

import errno
import os
import platform
import sys
from importlib import import_module
from typing import Any, NamedTuple

import click

from edgebox import __version__


class Verb(NamedTuple):
    """Where the command of a verb is, and what it does in a few words."""

    target: str  # "module:attribute"
    about: str


VERBS = {
    "serve": Verb("edgebox.cli.serve:serve", "Serve sites until told to stop."),
    "check": Verb("edgebox.cli.check:check", "Tell everything that is wrong with a configuration."),
    "plan": Verb("edgebox.cli.plan:plan", "Show how the server is sized for this machine."),
    "status": Verb("edgebox.cli.status:status", "Show how the running server is."),
    "top": Verb("edgebox.cli.top:top", "Watch the running server, full-screen."),
    "stats": Verb("edgebox.cli.stats:stats", "Print every number of the running server."),
    "log": Verb("edgebox.cli.log:log", "Show answers of the running server as they go out."),
    "reload": Verb("edgebox.cli.reload:reload", "Have the server take up its changed file."),
    "upgrade": Verb("edgebox.cli.upgrade:upgrade", "Have the server take up the installed code."),
    "upstream": Verb("edgebox.cli.upstream:upstream", "Show app servers, drain one, bring it up."),
    "purge": Verb("edgebox.cli.purge:purge", "Have the running cache forget something."),
    "ban": Verb("edgebox.cli.ban:ban", "Have the cache forget what a rule matches."),
    "explain": Verb("edgebox.cli.explain:explain", "Show what the cache makes of a URL, and why."),
    "precompress": Verb(
        "edgebox.cli.precompress:precompress", "Fill the compression cache ahead of time."
    ),
    "bench": Verb("edgebox.cli.bench:bench", "Measure how fast a server answers, as ab does."),
    "config-schema": Verb(
        "edgebox.cli.config_schema:config_schema", "Print the JSON Schema of edgebox.toml."
    ),
    "version": Verb("edgebox.cli.main:version", "Print the versions that a bug report needs."),
}


class LazyGroup(click.Group):
    """A group whose commands are imported on first use."""

    def main(self, *args: Any, **extra: Any) -> Any:
        """Run a verb. What cannot be written down is a problem, not a bug."""
        try:
            return super().main(*args, **extra)
        except OSError as problem:
            if problem.errno != errno.ENOSPC:
                raise
            # What is left in the buffer would be tried once more at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            click.echo(f"Error: cannot write: {problem.strerror}", err=True)
            sys.exit(1)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in VERBS:
            return None
        module, _, attribute = VERBS[cmd_name].target.partition(":")
        command = getattr(import_module(module), attribute)
        assert isinstance(command, click.Command), cmd_name
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Verbs"):
            formatter.write_dl([(name, verb.about) for name, verb in VERBS.items()])


@click.group(
    cls=LazyGroup,
    subcommand_metavar="VERB [ARGS]...",
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(__version__, message="edgebox %(version)s")
def main() -> None:
    """An edge node for one Linux box: hot files from RAM, the rest by sendfile."""


@click.command()
def version() -> None:
    """Print the versions that a bug report needs."""
    from importlib import metadata  # 0.1 s that no other verb should pay

    click.echo(f"edgebox {__version__}")
    click.echo(f"Python {platform.python_version()}, {platform.system()} {platform.release()}")
    click.echo(", ".join(f"{name} {metadata.version(name)}" for name in ("trio", "h11", "msgspec")))
