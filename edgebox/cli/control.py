"""The control socket from an operator's side: found, connected, asked.

Blocking, and with a deadline for everything. What goes wrong is told with whose fault it is
and what to do next: no server, no permission, a server that hangs, or one that refuses.
"""

from __future__ import annotations

import os
import socket
import struct
import tomllib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

import click

from edgebox.config.load import find_config
from edgebox.ops.control.jsonlines import BadLine, LineReader, decode, encode
from edgebox.ops.control.place import is_strangers, likely_places

PATIENCE = 30.0  # seconds within which the server answers, or hangs
LONGEST = 64 * 1024 * 1024
_PIECE = 256 * 1024

Told = dict[str, Any]


class NoServer(click.ClickException):
    """Nobody listens where a server would."""


class Refusal(click.ClickException):
    """The server will not or cannot; `told` is all that it said."""

    def __init__(self, told: Told) -> None:
        problems = told.get("problems") or [told.get("error", "refused without a reason")]
        super().__init__("\n".join(str(problem) for problem in problems))
        self.told = told


class ControlClient:
    """One connection to a server's control socket, `path`."""

    def __init__(self, path: str, patience: float = PATIENCE) -> None:
        """Raises NoServer; ClickException where there is one that we may not speak with."""
        self.path = path
        self._patience = patience
        self._reader = LineReader(LONGEST)
        self._lines: Iterator[bytes] = iter(())
        self._sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        # With a timeout of Python's, connect would not wait for a server that is busy accepting.
        seconds, fraction = divmod(patience, 1)
        limit = struct.pack("ll", int(seconds), int(fraction * 1e6))
        self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)
        try:
            self._sock.connect(path)
        except OSError as problem:
            self._sock.close()
            raise why_not(path, problem) from problem
        self._sock.settimeout(patience)

    def __enter__(self) -> ControlClient:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        self.close()

    def close(self) -> None:
        self._sock.close()

    def fileno(self) -> int:
        """For whoever waits for this and something else."""
        return self._sock.fileno()

    def ask(self, verb: str, **arguments: object) -> Told:
        """What the server answers. Raises Refusal, or ClickException where it does not answer."""
        self.send({"verb": verb, **arguments})
        return self.read()

    def stream(self, verb: str, **arguments: object) -> Iterator[Told]:
        """Each piece of an answer that has many, for as long as they come."""
        self.send({"verb": verb, **arguments})
        self._sock.settimeout(None)
        while True:
            told = self.read()
            yield told
            if not told.get("more"):
                return

    def send(self, message: Mapping[str, object]) -> None:
        try:
            self._sock.sendall(encode(message))
        except UnicodeEncodeError as problem:
            raise click.ClickException(f"what is asked is no UTF-8 text: {problem}") from problem
        except OSError as problem:
            raise self._lost(problem) from problem

    def read(self) -> Told:
        """The next message. Raises as `ask`."""
        try:
            told = decode(self._line())
        except BadLine as problem:
            raise click.ClickException(f"no edgebox answers at {self.path}: {problem}") from None
        if not told.get("ok"):
            raise Refusal(told)
        return told

    def _line(self) -> bytes:
        while True:
            for line in self._lines:
                return line
            try:
                octets = self._sock.recv(_PIECE)
            except OSError as problem:
                raise self._lost(problem) from problem
            if not octets:
                raise self._lost(None)
            self._lines = self._reader.feed(octets)

    def _lost(self, problem: OSError | None) -> click.ClickException:
        if isinstance(problem, TimeoutError):
            return click.ClickException(
                f"the server at {self.path} has not answered for {self._patience:g} s: "
                "look into its error log"
            )
        why = f": {problem.strerror}" if problem is not None else ""
        return click.ClickException(f"the server at {self.path} has ended the conversation{why}")


def socket_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """--socket PATH, passed to the command as `socket_path: str | None`."""
    return click.option(
        "--socket",
        "socket_path",
        default=None,
        metavar="PATH",
        help="The server's control socket; default: what the file says, or the usual places.",
    )(command)


def connect(
    socket_path: str | None, config: Path | None, patience: float = PATIENCE
) -> ControlClient:
    """The server that runs, wherever that is. Raises NoServer, ClickException."""
    places = find_places(socket_path, config, os.environ, os.geteuid())
    if not places:
        raise NoServer("the configuration has no control socket: [control] socket is empty")
    for place in places:
        directory = os.path.dirname(place)
        try:
            if not is_strangers(directory, os.lstat(directory or ".").st_uid, os.geteuid()):
                return ControlClient(place, patience)
        except (NoServer, OSError):
            continue
    raise NoServer(
        f"no edgebox runs here: nobody listens at {' or '.join(places)}. "
        "Start one with `edgebox serve`, or say with --socket where it is"
    )


def carry_out(verb: str, done: str, client: ControlClient) -> Told:
    """Have the supervisor do something that it may refuse; ClickException says that all is as
    it was, after the reasons. `done` is what it would be then: "reloaded"."""
    try:
        return client.ask(verb)
    except Refusal as problem:
        click.echo(problem.message, err=True)
        raise click.ClickException(f"nothing was {done}: the server goes on as it was") from None


def find_places(
    socket_path: str | None, config: Path | None, environ: Mapping[str, str], user: int
) -> list[str]:
    """Where to look: only where the operator or the file says, if they do; none: nowhere."""
    if socket_path is not None:
        return [socket_path]
    setting = _setting(config)
    if setting == "":
        return []
    return likely_places(environ, user) if setting in (None, "auto") else [str(setting)]


def _setting(config: Path | None) -> str | None:
    """[control] socket of the file, even if the rest of that is wrong: who cannot reload a bad
    configuration wants to be told so by the server."""
    path = find_config(config)
    if path is None:
        return None
    try:
        table = tomllib.loads(path.read_text("utf-8-sig")).get("control", {})
    except (OSError, ValueError) as problem:
        if config is not None and isinstance(problem, OSError):
            raise click.ClickException(f"{path} cannot be read: {problem.strerror}") from problem
        return None
    setting = table.get("socket") if isinstance(table, dict) else None
    if not isinstance(setting, str):
        return None
    return setting if setting in ("", "auto") else str(path.absolute().parent / setting)


def why_not(path: str, problem: OSError) -> click.ClickException:
    """What to tell an operator who could not connect."""
    if isinstance(problem, FileNotFoundError):
        return NoServer(f"no edgebox runs here: there is no {path}")
    if isinstance(problem, ConnectionRefusedError):
        return NoServer(f"no edgebox runs here: {path} was left by one that is gone")
    if isinstance(problem, PermissionError):
        return click.ClickException(
            f"you may not speak with the server at {path}: become its user, or join the group "
            "that owns the socket"
        )
    if isinstance(problem, BlockingIOError):
        return click.ClickException(
            f"the server at {path} accepts nobody: it hangs, or is asked too much"
        )
    return click.ClickException(f"{path}: {problem.strerror or problem}")
