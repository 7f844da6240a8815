"""`edgebox plan`: how the server sizes itself for this machine, and why.

Looks, reckons and prints; nothing is changed. The machine is only looked at where no saved
facts are given, and pyroute2 and rich are only imported where they are needed, so that a
plan is there in under a second. On a terminal it is a table; into a pipe it is plain text.
"""

from __future__ import annotations

import datetime
import functools
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from edgebox.cli.options import config_option, load_or_exit
from edgebox.config.schema import Config
from edgebox.plan import report
from edgebox.plan.assumptions import Costs, Overrides
from edgebox.plan.facts import Facts, FactsError, decode, encode
from edgebox.plan.figures import Plan
from edgebox.plan.planner import plan as plan_for
from edgebox.plan.whatif import (
    WhatIfError,
    change,
    parse_memory,
    parse_object_size,
    parse_round_trip,
    parse_speed,
)

if TYPE_CHECKING:
    from rich.console import Console


def quantity(read: Callable[[str], Any]) -> Callable[[click.Context, click.Parameter, Any], Any]:
    """A callback that reads an option's text; the ValueError of `read` is the message."""

    def convert(ctx: click.Context, param: click.Parameter, text: str | None) -> Any:
        try:
            return None if text is None else read(text)
        except ValueError as problem:
            raise click.BadParameter(str(problem)) from problem

    return convert


FILE = click.Path(allow_dash=True, dir_okay=False)


def facts_option(about: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """--facts FILE, passed to the command as `known: str | None`."""
    return click.option("--facts", "known", type=FILE, default=None, metavar="FILE", help=about)


OVERRIDES = (
    click.option(
        "--nic",
        "speed",
        callback=quantity(parse_speed),
        default=None,
        metavar="SPEED",
        help='The link\'s speed, as "1G", where the card is silent.',
    ),
    click.option(
        "--memory",
        callback=quantity(parse_memory),
        default=None,
        metavar="SIZE",
        help="Memory that edgebox may use at most.",
    ),
    click.option(
        "--workers",
        type=click.IntRange(1),
        default=None,
        metavar="N",
        help="Processes that answer.",
    ),
    click.option(
        "--object-size",
        callback=quantity(parse_object_size),
        default=None,
        metavar="SIZE",
        help="Mean size of an answer. Default: that of the files below the roots.",
    ),
    click.option(
        "--round-trip",
        callback=quantity(parse_round_trip),
        default=None,
        metavar="TIME",
        help="To a far client and back. Default: 100ms.",
    ),
)


def override_options(command: Callable[..., None]) -> Callable[..., None]:
    """What the operator says instead of the machine, passed on as `overrides`."""

    @functools.wraps(command)
    def with_overrides(**options: Any) -> None:
        said = {key: options.pop(key) for key in Overrides.__struct_fields__ if key in options}
        command(**options, overrides=Overrides(**said))

    for option in reversed(OVERRIDES):
        with_overrides = option(with_overrides)
    return with_overrides


@click.command()
@config_option
@click.option("--json", "as_json", is_flag=True, default=False, help="Print the plan as JSON.")
@click.option("--explain", metavar="KEY", default=None, help="Print one number's arithmetic.")
@facts_option("Plan for the machine in FILE, as --save-facts wrote it, and not for this one.")
@click.option(
    "--save-facts",
    "save",
    type=FILE,
    default=None,
    metavar="FILE",
    help='Write what is known of the machine; "-" prints that alone.',
)
@click.option(
    "--what-if",
    metavar="KEY=VALUE,...",
    default=None,
    help="What nic=10G,ram=64G would change; also cores, limit, descriptors, disk, rtt and object.",
)
@click.option(
    "--calibrate",
    "measured",
    is_flag=True,
    default=False,
    help="Measure what a request costs on this machine; takes a second.",
)
@click.option("--interface", metavar="NAME", default=None, help="Plan for this interface.")
@click.option(
    "--running",
    is_flag=True,
    default=False,
    help="Show too what other amounts of RAM would bring, as the running server has seen.",
)
@override_options
def plan(
    *,
    config: Path | None,
    as_json: bool,
    explain: str | None,
    known: str | None,
    save: str | None,
    what_if: str | None,
    measured: bool,
    interface: str | None,
    running: bool,
    overrides: Overrides,
) -> None:  # fmt: skip
    """Show how the server is sized for this machine, with the sum behind each number.

    Nothing is changed. Exits with 1 if the configuration or FILE cannot be used.
    """
    if known is not None and (measured or interface is not None):
        raise click.UsageError("--facts tells of another machine, so this one is not looked at")
    asked, _ = load_or_exit(config)
    facts = _look(asked, interface) if known is None else read_facts(known)
    if save is not None:
        with click.open_file(save, "wb") as file:
            file.write(encode(facts))
        if save == "-":
            return
    if measured:
        overrides = msgspec.structs.replace(overrides, costs=_measure())
    now = plan_for(facts, asked, overrides)
    if running:
        now = msgspec.structs.replace(now, what_if=_ask_running(config))
    if what_if is None:
        _tell(now, explain, as_json)
        return
    try:
        other = change(what_if, facts, overrides)
    except WhatIfError as problem:
        raise click.BadParameter(str(problem), param_hint="--what-if") from problem
    then = plan_for(other[0], asked, other[1])
    if as_json:
        _print_json({"now": now, "then": then})
    else:
        click.echo(report.comparison(now, then, what_if), nl=False)


def _look(config: Config, interface: str | None) -> Facts:
    # Here, not above: with --facts nothing of this is needed.
    from edgebox.ops.sizing.sizing import subject
    from edgebox.plan.gather import gather
    from edgebox.plan.gathering import gather_in_child

    wanted = subject(config)
    wanted = msgspec.structs.replace(wanted, interface=interface or wanted.interface)
    try:  # the child loads of pyroute2 only what it needs, which here would be in others' way
        return gather_in_child(wanted)
    except (OSError, subprocess.SubprocessError, FactsError):
        return gather(wanted, netlink=False)


def read_facts(name: str) -> Facts:
    """The facts in a file, "-" for standard input. Exits with 1 if there are none."""
    try:
        with click.open_file(name, "rb") as file:
            return decode(file.read())
    except (OSError, FactsError) as problem:
        reason = problem.strerror if isinstance(problem, OSError) else problem
        click.echo(f"{name}: {reason}", err=True)
        raise SystemExit(1) from problem


def _ask_running(config: Path | None) -> tuple[tuple[int, float], ...]:
    from edgebox.cli.control import connect

    with connect(None, config) as client:
        told = client.ask("status")
    return tuple((int(octets), float(ratio)) for octets, ratio in told["sheet"]["what_if"])


def _measure() -> Costs:
    from edgebox.plan.calibrate import CalibrationError, calibrate

    try:
        return calibrate(datetime.date.today())
    except CalibrationError as problem:
        raise click.ClickException(str(problem)) from problem


def _tell(found: Plan, explain: str | None, as_json: bool) -> None:
    if explain is not None:
        try:
            lines = report.explain(found, explain)
        except KeyError as problem:
            raise click.BadParameter(problem.args[0], param_hint="--explain") from problem
        if as_json:
            _print_json(found.number(explain))
        else:
            click.echo("\n".join(lines))
    elif as_json:
        _print_json(found)
    elif sys.stdout.isatty():
        from rich.console import Console

        show(found, Console())
    else:
        click.echo(report.text(found), nl=False)


def show(found: Plan, console: Console) -> None:
    """The plan as a table on a terminal."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    table.add_column("number", no_wrap=True)
    table.add_column("value", justify="right", no_wrap=True, style="bold")
    table.add_column("why")
    for number in found.numbers:
        # Text, not str: rich would take what stands in brackets for markup.
        why = Text(number.reason)
        if number.sum:
            why.append(f"\n{number.sum}", style="dim")
        table.add_row(Text(number.key), Text(report.number_text(number)), why)
    console.print(Text("\n".join(report.verdict(found)), style="bold"))
    console.print()
    console.print(table)
    console.print()
    for line in report.advice(found):
        console.print(Text(line), soft_wrap=True)
    for line in report.other_memory(found) if found.what_if else ():
        console.print(Text(line), soft_wrap=True)


def _print_json(value: object) -> None:
    click.echo(msgspec.json.format(msgspec.json.encode(value), indent=2))
