"""Where an app server is: its URL taken apart. Pure; resolves no name."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

from edgebox.http.faults import Fault
from edgebox.http.target import parse_host

SOCKET_PATH = 107  # octets of sun_path without its NUL, unix(7)

_URL = re.compile(r"(https?)://([^/?#@\\]*)(.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Origin:
    """A server's address: `host` and `port`, or the `path` of a Unix socket.

    `host` is in lower case and has no brackets; it is "" where there is a path. `tls`:
    spoken to over TLS.
    """

    host: str = ""
    port: int = 0
    path: str = ""
    tls: bool = False

    @property
    def authority(self) -> str:
        """What a Host field says (RFC 9110 §7.2): no port where it is the scheme's own."""
        if self.path:
            return "localhost"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == (443 if self.tls else 80) else f"{host}:{self.port}"

    def __str__(self) -> str:
        if self.path:
            return f"unix:{self.path}"
        return f"{'https' if self.tls else 'http'}://{self.authority}"


def parse_origin(url: str) -> Origin:
    """Take "http://host[:port]", "https://host[:port]" or "unix:/path" apart.

    ValueError says what is wrong, as the rest of a sentence that begins with the URL.
    """
    if url.startswith("unix:"):
        return Origin(path=_socket_path(url.removeprefix("unix:")))
    parts = _URL.fullmatch(url)
    if parts is None:
        raise ValueError('is no address: write "http://HOST:PORT", "https://HOST" or "unix:/path"')
    scheme, authority, rest = parts.groups()
    if rest not in ("", "/"):
        raise ValueError("must end after the port: requests go there under their own path")
    host = parse_host(authority.encode())
    if isinstance(host, Fault):
        raise ValueError(f'has no valid host: "{authority}"')
    name, port = host
    if port == 0:
        raise ValueError("has port 0, where nobody listens")
    tls = scheme == "https"
    return Origin(name.decode().strip("[]"), port or (443 if tls else 80), tls=tls)


def _socket_path(path: str) -> str:
    if not path.startswith("/") or "\0" in path:
        raise ValueError('must name an absolute path, as "unix:/run/app.sock"')
    if len(os.fsencode(path)) > SOCKET_PATH:
        raise ValueError(f"is too long: a socket's path has at most {SOCKET_PATH} octets")
    return path
