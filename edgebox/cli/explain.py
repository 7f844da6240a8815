"""`edgebox explain`: what the cache makes of a URL, or of an app server's answer, and why."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from edgebox.cli.control import NoServer, connect, socket_option
from edgebox.cli.operate import operate, split_url
from edgebox.cli.options import config_option, load_or_exit, server_option

_STATUS = re.compile(r"HTTP/[0-9.]+ ([0-9]{3})\b")


@click.command()
@click.argument("url")
@click.option(
    "-H",
    "--header",
    "headers",
    multiple=True,
    metavar="'NAME: VALUE'",
    help="A field of the request, as curl takes it.",
)
@click.option(
    "--response",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Ask no server: judge the head of an answer (curl -sI).",
)
@click.option("--json", "as_json", is_flag=True, help="For programs.")
@config_option
@socket_option
@server_option
def explain(
    url: str,
    headers: tuple[str, ...],
    response: Path | None,
    as_json: bool,
    config: Path | None,
    socket_path: str | None,
    server: str | None,
) -> None:
    """Show what is stored for a URL, whether it would be used, until when, and by which rule.

    With --response: whether such an answer would be stored, and for how long.
    """
    fields = [_split_field(header) for header in headers]
    if response is not None:
        told = _judge(url, fields, response, config)
        lines = _tell_answer(told)
    else:
        told = _ask(url, fields, config, socket_path, server)
        lines = _tell_stored(told)
    click.echo(json.dumps(told, indent=2) if as_json else "\n".join(lines))


def _ask(
    url: str,
    fields: list[tuple[str, str]],
    config: Path | None,
    socket_path: str | None,
    server: str | None,
) -> dict[str, Any]:
    """What the running server says: over its control socket, else by HTTP."""
    host, target = split_url(url)
    if server is None:
        try:
            with connect(socket_path, config) as client:
                told = client.ask("explain", url=f"http://{host}{target}", headers=dict(fields))
                del told["ok"]
                return told
        except NoServer:
            if socket_path is not None:
                raise
    address = server or load_or_exit(config)[0].server.listen[0]
    return operate(address, "EXPLAIN", target, {"Host": host} | dict(fields))


def _judge(
    url: str, fields: list[tuple[str, str]], response: Path, config: Path | None
) -> dict[str, Any]:
    # The cache's rooms take a moment to import; only this way of asking needs them.
    from edgebox.cache.answer import Answer, Instant
    from edgebox.cache.explain import explain_answer
    from edgebox.cache.key import primary_key
    from edgebox.config.schema import Route
    from edgebox.http.dates import parse_date
    from edgebox.http.faults import Fault
    from edgebox.http.headers import Headers
    from edgebox.http.message import Request
    from edgebox.http.target import parse_host, parse_target
    from edgebox.ops.worker.policies import cache_rules, key_rules
    from edgebox.route.paths import is_below
    from edgebox.route.router import Router

    host, target = split_url(url)
    parsed, name = parse_target(b"GET", target.encode()), parse_host(host.encode())
    if isinstance(parsed, Fault) or isinstance(name, Fault):
        raise click.BadParameter(f"{url!r} cannot be asked for")
    settings, _ = load_or_exit(config)
    site = Router([(site.hosts, site) for site in settings.site]).pick(name[0])
    routes = [r for r in (site.route if site else ()) if is_below(parsed.path, r.path.encode())]
    route = max(routes, key=lambda r: len(r.path), default=Route())
    status, answered = _read_head(response)
    asked = Headers((n.encode(), v.encode()) for n, v in [("Host", host), *fields])
    request = Request(b"GET", parsed, name[0], asked)
    headers = Headers((n.encode(), v.encode("latin-1")) for n, v in answered)
    # As if it had just come in, however long ago it was kept.
    now = time.time()
    dates = headers.all(b"date")
    date = parse_date(dates[0], int(now)) if dates else None
    moment = Instant(now if date is None else float(date), 0.0)
    answer = Answer(status, headers, moment, moment)
    told = explain_answer(request, answer, cache_rules(settings.cache, route))
    key = primary_key(request, key_rules(route)).decode("latin-1")
    who = route.upstream or "files"
    return {"route": route.path, "answered_by": who, "key": key, "caches": route.cache, **told}


def _read_head(response: Path) -> tuple[int, list[tuple[str, str]]]:
    """Status and fields of the first final response in a file."""
    for block in re.split(r"\r?\n\r?\n", response.read_text("latin-1").lstrip()):
        lines = block.splitlines()
        found = _STATUS.match(lines[0]) if lines else None
        if found is None:
            break
        if int(found[1]) >= 200:
            return int(found[1]), [_split_field(line) for line in lines[1:]]
    raise click.BadParameter(f"{response}: no head of an HTTP response")


def _split_field(line: str) -> tuple[str, str]:
    name, colon, value = line.partition(":")
    if not colon or not name.strip():
        raise click.BadParameter(f"want NAME: VALUE, not {line!r}")
    return name.strip(), value.strip()


def _tell_answer(told: dict[str, Any]) -> Iterator[str]:
    stores = told["stores"] and told["caches"]
    why = f"{told['text']} ({told['source']})" if told["caches"] else "this route is set not to"
    yield f"route     {told['route']}, answered by {told['answered_by']}"
    yield f"key       {told['key']}"
    yield f"stored    {'yes' if stores else 'no'}: {why}"
    yield f"fresh     {_freshness(told, told['fresh_for'])}"
    if told["fresh_for"]:
        yield f"until     {told['fresh_until']}"
    yield from _details(told, "", 10)
    if told["vary"]:
        yield f"varies    {', '.join(told['vary'])}"


def _tell_stored(told: dict[str, Any]) -> Iterator[str]:
    yield f"route     {told['route'] or '/'}, answered by {told['answered_by']}"
    if "key" not in told:
        return
    decision = told["decision"]
    yield f"key       {told['key']}"
    yield f"now       {decision['serve']}: {decision['text']} ({decision['source']})"
    yield f"stored    {told['stored']} variant{'s' * (told['stored'] != 1)}"
    if len(workers := told.get("stored_by_worker", {})) > 1:
        others = ", ".join(f"worker {slot} {count}" for slot, count in workers.items())
        yield f"workers   this is worker {told['worker']}; stored: {others}"
    for number, variant in enumerate(told["variants"], 1):
        yield ""
        mark = "  fits" if variant["chosen"] else ""
        also = "".join(f", {size} as {coding}" for coding, size in variant["coded"].items())
        where = variant["place"]
        yield f"  {number}.  {variant['status']}, {variant['size']} octets in {where}{also}{mark}"
        for name, value in variant["selected_by"].items():
            yield f"      for   {name}: {'(none)' if value is None else value}"
        yield f"      age   {variant['age']} s"
        yield f"      fresh {_freshness(variant, variant['remaining'])}"
        if variant["remaining"] > 0:
            yield f"      until {variant['fresh_until']}"
        yield from _details(variant, "      ", 6)


def _freshness(told: dict[str, Any], remaining: int) -> str:
    lifetime = f"{told['lifetime']} s by {told['lifetime_from']}"
    if told.get("invalidated"):
        return f"no, invalidated ({lifetime})"
    if told["asks_always"]:
        return f"never without asking ({lifetime})"
    return f"{remaining} s ({lifetime})" if remaining > 0 else f"no ({lifetime})"


def _details(told: dict[str, Any], indent: str, width: int) -> Iterator[str]:
    stale = indent + "stale".ljust(width)
    if told["never_stale"]:
        yield f"{stale}never"
    for key, words in (
        ("stale_while_revalidate", "while it is asked for anew"),
        ("stale_if_error", "if the upstream fails"),
        ("stale_if_unreachable", "if the upstream cannot be reached"),
    ):
        if told[key]:
            yield f"{stale}{told[key]} s {words}"
    for key in ("tags", "groups"):
        if told[key]:
            yield f"{indent}{key:{width}}{' '.join(told[key])}"
