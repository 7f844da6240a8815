"""`edgebox log`: answers as they go out, those that a query means.

Workers write nothing down for this: lines are made only while somebody listens, and for whoever
reads slowly some are left out, and counted, rather than that clients wait.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import click

from edgebox.cli.control import ControlClient, Told, connect, socket_option
from edgebox.cli.options import config_option
from edgebox.cli.words import printable
from edgebox.observe.query import FIELDS, QueryError, compile_query

_HELP = f"Only answers like this: 'status>=500 and host=…'. Fields: {', '.join(FIELDS)}."


@click.command()
@click.option("-q", "--query", default="", metavar="QUERY", help=_HELP)
@click.option("-f", "--follow", is_flag=True, help="For as long as it runs. The default.")
@click.option("-n", "--lines", default=0, metavar="N", help="End after so many.")
@click.option("--json", "as_json", is_flag=True, help="An object a line, for programs.")
@config_option
@socket_option
def log(
    query: str,
    follow: bool,
    lines: int,
    as_json: bool,
    config: Path | None,
    socket_path: str | None,
) -> None:
    """Show what the running server answers, as it does, all workers together.

    \b
    edgebox log -q 'status>=500 and host=example.com'
    edgebox log -q 'time > 0.5 and not path ~ "^/upload"'

    Operators are = != >= <= > < and ~ for a regular expression, joined by and, or, not and
    parentheses. Times are seconds, bytes those of the body.
    """
    if query:
        try:
            compile_query(query)
        except QueryError as problem:
            raise click.BadParameter(_point_at(query, problem), param_hint="-q") from problem
    with connect(socket_path, config) as client, suppress(KeyboardInterrupt):
        _show(client, query, lines, json.dumps if as_json else line)


def _show(client: ControlClient, query: str, most: int, form: Callable[[Told], str]) -> None:
    """Print records until there are `most`; 0 is no bound."""
    told = 0
    for piece in client.stream("log", query=query):
        for record in piece.get("records", ()):
            click.echo(form(record))
            told += 1
            if told == most:
                return
        sys.stdout.flush()
        if left_out := piece.get("left_out"):
            click.echo(f"edgebox: {left_out} lines left out: too many to show", err=True)


def line(record: Told) -> str:
    """One answer for people: when, who asked, for what, and how it went."""
    stamp = time.strftime("%H:%M:%S", time.localtime(record["at"]))
    cache = " ".join(part for part in (record["cache"], record["reason"]) if part)
    parts = [
        stamp,
        record["peer"],
        str(record["status"]),
        f"{record['time'] * 1000:.1f}ms",
        f"{record['bytes']}B",
        record["method"],
        f"{record['host']}{record['path']}",
        f"[{cache}]" if cache else "",
        record["upstream"],
    ]
    return printable(" ".join(part for part in parts if part))


def _point_at(query: str, problem: QueryError) -> str:
    """The query on one line, and below it a mark at the character where it goes wrong."""
    from rich.cells import cell_len  # a moment that only a mistake should pay

    shown = "".join(" " if each.isspace() else each for each in query)
    before = cell_len(shown[: problem.position])
    return f"{problem.problem}\n  {printable(shown)}\n  {' ' * before}^"
