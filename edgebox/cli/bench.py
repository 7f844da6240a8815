"""`edgebox bench URL`: how fast a server answers, asked as ApacheBench asks.

A self-test for a box with nothing else installed. It takes CPU of the machine it runs on: ask
from another machine, or read the rates as what both together can do.
"""

from __future__ import annotations

import resource
import sys
import time
from pathlib import Path

import click
import msgspec

from edgebox.bench import report
from edgebox.bench.figures import make_figures
from edgebox.bench.load import (
    BadLoad,
    Load,
    basic_credentials,
    parse_field,
    parse_target,
    render_request,
)
from edgebox.bench.runner import Runner, Unreachable, find_address

FILE = click.Path(dir_okay=False, path_type=Path)
INPUT = click.Path(dir_okay=False, exists=True, path_type=Path)


@click.command()
@click.argument("url")
@click.option("-n", "requests", type=click.IntRange(min=1), default=None, help="Requests: 1.")
@click.option(
    "-c", "concurrency", type=click.IntRange(min=1), default=1, help="Requests at a time: 1."
)
@click.option(
    "-t",
    "seconds",
    type=click.FloatRange(min=0, min_open=True),
    default=None,
    help="End after so many seconds; without -n, however many requests that are.",
)
@click.option("-k", "keep_alive", is_flag=True, default=False, help="Keep connections.")
@click.option(
    "-H", "fields", multiple=True, default=(), metavar="NAME: VALUE", help="A header field."
)
@click.option("-C", "cookies", multiple=True, default=(), metavar="NAME=VALUE", help="A cookie.")
@click.option("-A", "login", default=None, metavar="USER:PASSWORD", help="Basic authentication.")
@click.option("-p", "post", type=INPUT, default=None, help="POST what this file holds.")
@click.option("-u", "put", type=INPUT, default=None, help="PUT what this file holds.")
@click.option("-T", "content_type", default=None, metavar="TYPE", help="Its type: text/plain.")
@click.option("-s", "timeout", type=click.FloatRange(min=0, min_open=True), default=30.0,
              metavar="SECONDS", help="For one request: 30.")  # fmt: skip
@click.option("-l", "any_length", is_flag=True, default=False, help="Lengths may differ.")
@click.option("-e", "csv", type=FILE, default=None, help="Write the percentages here, as CSV.")
@click.option("-g", "gnuplot", type=FILE, default=None, help="Write each request here, as TSV.")
@click.option("--json", "as_json", is_flag=True, default=False, help="Figures, not a report.")
def bench(
    url: str,
    requests: int | None,
    concurrency: int,
    seconds: float | None,
    keep_alive: bool,
    fields: tuple[str, ...],
    cookies: tuple[str, ...],
    login: str | None,
    post: Path | None,
    put: Path | None,
    content_type: str | None,
    timeout: float,
    any_length: bool,
    csv: Path | None,
    gnuplot: Path | None,
    as_json: bool,
) -> None:
    """Measure how fast URL is answered; options and report are ApacheBench's.

    Exits with 1 if nobody answers there.
    """
    if post is not None and put is not None:
        raise click.UsageError("-p and -u are two different requests")
    if requests is None and seconds is None:
        requests = 1
    if requests is not None and concurrency > requests:
        raise click.UsageError("-c is more than -n: so many are never under way at once")
    body = post or put
    method = "POST" if post else "PUT" if put else "GET"
    content = body.read_bytes() if body is not None else b""
    try:
        target = parse_target(url)
        octets = render_request(
            target, method, _fields(fields, cookies, login, content_type, body), content, keep_alive
        )
    except BadLoad as problem:
        raise click.UsageError(str(problem)) from problem
    load = Load(
        target=target,
        octets=octets,
        requests=requests,
        concurrency=concurrency,
        seconds=seconds,
        keep_alive=keep_alive,
        timeout=timeout,
        same_length=not any_length,
        body_length=len(content),
    )
    _run(load, csv, gnuplot, as_json)


def _fields(
    lines: tuple[str, ...],
    cookies: tuple[str, ...],
    login: str | None,
    content_type: str | None,
    body: Path | None,
) -> list[tuple[str, str]]:
    """The header fields that the options ask for. Raises BadLoad."""
    found = [parse_field(line) for line in lines]
    if cookies:
        found.append(("Cookie", "; ".join(cookies)))
    if login is not None:
        found.append(("Authorization", basic_credentials(login)))
    if body is not None or content_type is not None:
        found.append(("Content-Type", content_type or "text/plain"))
    return found


def _run(load: Load, csv: Path | None, gnuplot: Path | None, as_json: bool) -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    if not as_json:
        click.echo(f"Benchmarking {load.target.host} (be patient)...", nl=False)
    began = time.time()
    finished = 0

    def show(ended: int) -> None:
        nonlocal finished
        finished = ended
        if sys.stderr.isatty():
            click.echo(f"\r{ended} requests ", err=True, nl=False)

    try:
        runner = Runner(load, find_address(load.target), show)
        runner.run()
    except Unreachable as problem:
        click.echo("" if as_json else "\n", nl=False)
        raise click.ClickException(f"{problem} ({finished} requests had ended)") from problem
    figures = make_figures(load, runner.samples)
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(figures), indent=2))
    else:
        click.echo("interrupted" if figures.interrupted else "done")
        click.echo(report.text(load, figures), nl=False)
    if csv is not None:
        csv.write_text(report.percentages_csv(runner.samples))
    if gnuplot is not None:
        gnuplot.write_text(report.gnuplot(runner.samples, began))
