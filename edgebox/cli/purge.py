"""`edgebox purge`: has the running server forget what it stored.

Over the control socket, where there is one; else, or where --server says so, by HTTP.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from edgebox.cli.control import NoServer, connect, socket_option
from edgebox.cli.operate import operate, split_url
from edgebox.cli.options import config_option, load_or_exit, server_option

PART = 32 * 1024  # characters in a request; the control socket takes lines of twice that


@click.command()
@click.argument("urls", nargs=-1, metavar="[URL]...")
@click.option("--prefix", "prefixes", multiple=True, metavar="URL", help="All that begin so.")
@click.option("--tag", "tags", multiple=True, metavar="TAG", help="All with this Surrogate-Key.")
@click.option("--all", "everything", is_flag=True, help="All there is.")
@click.option("--soft", is_flag=True, help="Stale from now on, not gone.")
@config_option
@socket_option
@server_option
def purge(
    urls: tuple[str, ...],
    prefixes: tuple[str, ...],
    tags: tuple[str, ...],
    everything: bool,
    soft: bool,
    config: Path | None,
    socket_path: str | None,
    server: str | None,
) -> None:
    """Have the running server forget URLs, with all their variants, or more.

    A URL that ends in * is a prefix, as it is for PURGE.
    Tells how many stored answers that concerned, in the RAM of all workers.
    """
    if not (urls or prefixes or tags or everything):
        raise click.UsageError("say what: a URL, --prefix, --tag or --all")
    starred = (url.removesuffix("*") for url in urls if url.endswith("*"))
    order: dict[str, object] = {
        "urls": [_whole(url) for url in urls if not url.endswith("*")],
        "prefixes": [_whole(url) for url in (*prefixes, *starred)],
        "tags": tags,
        "everything": everything,
        "soft": soft,
    }
    if server is None:
        try:
            with connect(socket_path, config) as client:
                count = sum(client.ask("purge", **part)["purged"] for part in _parts(order))
        except NoServer:
            if socket_path is not None:
                raise
            count = _purge_by_http(load_or_exit(config)[0].server.listen[0], order)
    else:
        count = _purge_by_http(server, order)
    click.echo(f"{count} purged")


def _parts(order: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """`order` in pieces that the control socket takes: of many URLs, some in each."""
    soft = order["soft"]
    for name in ("urls", "prefixes", "tags"):
        part: list[str] = []
        for word in order[name]:
            if sum(map(len, part)) + len(word) > PART:
                yield {name: part, "soft": soft}
                part = []
            part.append(word)
        if part:
            yield {name: part, "soft": soft}
    if order["everything"]:
        yield {"everything": True, "soft": soft}


def _whole(url: str) -> str:
    """A URL as clients send it."""
    host, target = split_url(url)
    return f"http://{host}{target}"


def _purge_by_http(address: str, order: Mapping[str, Any]) -> int:
    orders: list[tuple[str, dict[str, str]]] = []
    for url in order["urls"]:
        host, target = split_url(url)
        orders.append((target, {"Host": host}))
    for url in order["prefixes"]:
        host, target = split_url(url)
        orders.append((target.removesuffix("*") + "*", {"Host": host}))
    if order["tags"]:
        orders.append(("/", {"Host": "localhost", "Surrogate-Key": " ".join(order["tags"])}))
    if order["everything"]:
        orders.append(("/", {"Host": "localhost", "Purge-Scope": "everything"}))
    mode = {"Purge-Mode": "soft"} if order["soft"] else {}
    return sum(
        operate(address, "PURGE", target, fields | mode)["purged"] for target, fields in orders
    )
