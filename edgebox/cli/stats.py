"""`edgebox stats`: every number there is, a line each, as varnishstat has it."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import click

from edgebox.cli.control import ControlClient, Told, connect, socket_option
from edgebox.cli.options import config_option


@click.command()
@click.option("-1", "once", is_flag=True, help="Once, then end. The default where no terminal is.")
@click.option("--json", "as_json", is_flag=True, help="For programs; once.")
@click.option("-i", "--interval", default=1.0, type=click.FloatRange(0.1), help="Seconds.")
@config_option
@socket_option
def stats(
    once: bool, as_json: bool, interval: float, config: Path | None, socket_path: str | None
) -> None:
    """Print the running server's numbers: name, value, and what it is a second.

    Counters only grow; gauges have no rate.
    """
    with connect(socket_path, config) as client:
        if as_json:
            told = client.ask("stats")
            del told["ok"]
            click.echo(json.dumps(told, indent=2))
        elif once or not sys.stdout.isatty():
            click.echo("\n".join(lines(client.ask("stats"))))
        else:
            with suppress(KeyboardInterrupt):
                _watch(client, interval)


def lines(told: Told) -> Iterator[str]:
    """name value rate, aligned."""
    rates = told["rates"]
    width = max(len(name) for group in ("counters", "gauges") for name in told[group]) + 1
    for name, value in told["counters"].items():
        per_second = f"{rates[name]:.2f}" if name in rates else "."
        yield f"{name:{width}} {value:>16} {per_second:>14}"
    for name, value in told["gauges"].items():
        yield f"{name:{width}} {value:>16} {'.':>14}"
    for name, latency in told["latency"].items():
        if latency["count"]:
            for key in ("p50", "p95", "p99"):
                yield f"{name + '_' + key:{width}} {latency[key]:>16.6f} {'.':>14}"


def _watch(client: ControlClient, interval: float) -> None:
    while True:
        told = client.ask("stats")
        click.clear()
        click.echo("\n".join(lines(told)))
        time.sleep(interval)
