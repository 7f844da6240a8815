"""How verbs reach the server that runs: one request to where the configuration says it listens."""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import Mapping
from typing import Any
from urllib.parse import SplitResult, quote, urlsplit

import click

from edgebox.listen.sockets import split_address

TIMEOUT = 10.0  # seconds


class _Unix(http.client.HTTPConnection):
    """HTTP over a Unix socket."""

    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=TIMEOUT)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(TIMEOUT)
        self.sock.connect(self._path)


def operate(address: str, method: str, target: str, fields: Mapping[str, str]) -> dict[str, Any]:
    """The answer of the server at a listen `address`; ClickException where it is none."""
    connection = _connect(address)
    try:
        connection.putrequest(method, target, skip_host=True, skip_accept_encoding=True)
        for name, value in fields.items():
            connection.putheader(name, value)
        connection.endheaders()
        response = connection.getresponse()
        body = response.read()
    except (OSError, http.client.HTTPException) as problem:
        raise click.ClickException(f"no answer from {address}: {problem}") from problem
    finally:
        connection.close()
    if response.status != 200 or response.getheader("Content-Type") != "application/json":
        raise click.ClickException(f"{address} answered {response.status} {response.reason}")
    told: dict[str, Any] = json.loads(body)
    return told


def split_url(url: str) -> tuple[str, str]:
    """Host and target of a URL; BadParameter where it names no host."""
    parts: SplitResult = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise click.BadParameter(f"want http://HOST/PATH, not {url!r}")
    # What a person pastes may hold letters that HTTP does not.
    target = quote(parts.path or "/", safe="/%:@!$&'()*+,;=~-._")
    if parts.query:
        target += "?" + quote(parts.query, safe="/?%:@!$&'()*+,;=~-._")
    return parts.netloc, target


def _connect(address: str) -> http.client.HTTPConnection:
    if address.startswith("unix:"):
        return _Unix(address.removeprefix("unix:"))
    host, port = split_address(address)
    anywhere = {"": "127.0.0.1", "*": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}
    return http.client.HTTPConnection(anywhere.get(host, host), port, timeout=TIMEOUT)
