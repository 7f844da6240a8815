"""Listening sockets: bound from an address as the configuration writes it, or adopted.

Options set here are inherited by what is accepted, which saves two system calls a
connection: TCP_NODELAY, and TCP_DEFER_ACCEPT (Linux's form of an accept filter, so
that the request is there when accept returns).

An address is taken by a first socket that shares it with nobody, so that a second server
on the same port is an error as ever; then it admits others of ours (SO_REUSEPORT), one for
each worker, among which the kernel spreads connections.
"""

from __future__ import annotations

import contextlib
import os
import socket
import stat
from ipaddress import ip_address
from pathlib import Path

DEFER_SECONDS = 3  # a client that sends nothing is accepted after this all the same


class ListenError(Exception):
    """An address that cannot be listened on; the message says which and why."""


def bind(address: str, backlog: int) -> socket.socket:
    """A non-blocking listening socket for "HOST:PORT", "[IPV6]:PORT" or "unix:/PATH".

    Port 0 lets the kernel choose. Raises ListenError.
    """
    try:
        if address.startswith("unix:"):
            return _bind_unix(address.removeprefix("unix:"), backlog)
        host, port = split_address(address)
        return _bind_tcp(host, port, backlog)
    except (OSError, ValueError) as problem:
        reason = getattr(problem, "strerror", None) or problem
        raise ListenError(f"cannot listen on {address}: {reason}") from problem


def bind_beside(first: socket.socket) -> socket.socket:
    """Another socket on the TCP address of `first`, from `bind`, that can take a part of its load.

    It does once somebody is there to accept from it and calls `begin`: whoever the kernel led
    to it before would wait. Raises ListenError.
    """
    sock = socket.socket(first.family, socket.SOCK_STREAM)
    try:
        _set_options(sock)
        if first.family == socket.AF_INET6:
            dual = first.getsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY)
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, dual)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        sock.bind(first.getsockname())
    except OSError as problem:
        sock.close()
        raise ListenError(
            f"cannot listen on {address_of(first)} once more: {problem.strerror}"
        ) from problem
    return sock


def begin(sock: socket.socket, backlog: int) -> None:
    """Have connections come to `sock`, if they do not yet."""
    if not sock.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
        sock.listen(backlog)


def adopt(fd: int) -> socket.socket:
    """The listening socket that was inherited as `fd`. Raises ListenError if it is none."""
    try:
        sock = socket.socket(fileno=fd)
    except OSError as problem:
        raise ListenError(f"cannot listen on descriptor {fd}: {problem.strerror}") from problem
    try:
        if not sock.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
            raise ListenError(f"cannot listen on descriptor {fd}: not a listening socket")
        if sock.family != socket.AF_UNIX:
            _set_options(sock)
        sock.setblocking(False)
        sock.set_inheritable(False)
    except BaseException:
        sock.close()
        raise
    return sock


def split_address(address: str) -> tuple[str, int]:
    """("HOST", PORT) from "HOST:PORT" or "[IPV6]:PORT"; an empty host is every address."""
    host, colon, port = address.rpartition(":")
    if not colon or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise ValueError("want HOST:PORT")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif "[" in host or ":" in host:
        raise ValueError("an IPv6 address goes in brackets: [::1]:8080")
    return host, int(port)


def _bind_tcp(host: str, port: int, backlog: int) -> socket.socket:
    if host in ("", "*"):
        family, host = (socket.AF_INET6, "::") if socket.has_dualstack_ipv6() else (2, "0.0.0.0")
    elif host == "localhost":
        family, host = socket.AF_INET, "127.0.0.1"
    else:
        family = socket.AF_INET6 if ip_address(host).version == 6 else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        _set_options(sock)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, int(host != "::"))
        sock.bind((host, port))  # alone: nobody else may listen here ...
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)  # ... but `bind_beside`
        sock.listen(backlog)
    except BaseException:
        sock.close()
        raise
    return sock


def _set_options(sock: socket.socket) -> None:
    sock.setblocking(False)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_DEFER_ACCEPT, DEFER_SECONDS)


def _bind_unix(path: str, backlog: int) -> socket.socket:
    if not path.startswith("/"):  # of none at all, the kernel would make up a name (unix(7))
        raise ValueError("want an absolute path, as unix:/run/edgebox/http.sock")
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with contextlib.suppress(FileNotFoundError):
            if stat.S_ISSOCK(os.lstat(path).st_mode) and not _someone_listens(path):
                os.unlink(path)  # left by a process that is gone
        sock.bind(path)
        sock.listen(backlog)
        sock.setblocking(False)
    except BaseException:
        sock.close()
        raise
    return sock


def _someone_listens(path: str) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1)
        try:
            probe.connect(path)
        except ConnectionRefusedError:
            return False
    return True


def address_of(sock: socket.socket) -> str:
    """Where `sock` listens, as a URL for people: http://127.0.0.1:8080/ or unix:/path."""
    name = sock.getsockname()
    if sock.family == socket.AF_UNIX:
        return f"unix:{name}"
    host = f"[{name[0]}]" if sock.family == socket.AF_INET6 else name[0]
    return f"http://{host}:{name[1]}/"


def close_listener(sock: socket.socket) -> None:
    """Close, and remove the path of a Unix socket."""
    name = sock.getsockname() if sock.family == socket.AF_UNIX else ""
    sock.close()
    if name:
        with contextlib.suppress(FileNotFoundError):
            Path(name).unlink()
