"""Where the control socket is: how its path is chosen, bound with its mode, and found again.

One socket a box and user is the rule, so that `edgebox status` needs no argument. A path that
a living server has is not taken from it; one that a dead server left is.
"""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Mapping
from contextlib import suppress

NAME = "control.sock"
BACKLOG = 64


class ControlError(Exception):
    """No control socket there; the message says why and what to do."""


def choose_place(setting: str | None, environ: Mapping[str, str], user: int) -> str:
    """The path a server binds. `setting` is [control] socket: None is auto, "" none."""
    if setting is not None:
        return setting
    return likely_places(environ, user)[0]


def likely_places(environ: Mapping[str, str], user: int) -> list[str]:
    """Where a client looks for the server that runs, the likeliest first.

    A server under systemd is where its RuntimeDirectory is, which the operator's shell is not
    told of: so a user looks in his own places first, then in the machine's.
    """
    directories = []
    if given := environ.get("RUNTIME_DIRECTORY"):
        directories.append(given.split(":")[0])
    if user:
        runtime = environ.get("XDG_RUNTIME_DIR")
        directories.append(f"{runtime}/edgebox" if runtime else f"/tmp/edgebox-{user}")
    directories.append("/run/edgebox")
    return [f"{directory}/{NAME}" for directory in dict.fromkeys(directories)]


def is_strangers(directory: str, owner: int, user: int) -> bool:
    """Whether it is not to be believed: in /tmp anybody may have made what is ours by name."""
    return directory.startswith("/tmp/edgebox-") and owner not in (user, 0)


def bind_control(path: str, mode: int, group: int = -1) -> socket.socket:
    """A listening Unix socket with that mode. Raises ControlError."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        _prepare_directory(os.path.dirname(path))
        _clear_place(path)
        # No moment at which others could get in: the mode is there from the bind on.
        before = os.umask(0o777 & ~mode)
        try:
            sock.bind(path)
        finally:
            os.umask(before)
        if group >= 0:
            os.chown(path, -1, group)
        sock.listen(BACKLOG)
        sock.setblocking(False)
    except ControlError:
        sock.close()
        raise
    except OSError as problem:
        sock.close()
        raise ControlError(
            f"no control socket at {path}: {problem.strerror or problem}; set [control] socket"
        ) from problem
    return sock


def remove_control(listener: socket.socket) -> None:
    """Close, and remove the path unless somebody still answers there, as after an upgrade."""
    path = listener.getsockname()
    listener.close()
    if path and not _someone_listens(path):
        with suppress(OSError):
            os.unlink(path)


def _prepare_directory(directory: str) -> None:
    """Make it, if it is not there, for us alone; what others may write to is no place for it."""
    if not directory:
        return
    with suppress(FileExistsError):
        os.makedirs(directory, 0o755 if os.geteuid() == 0 else 0o700)
    if is_strangers(directory, os.lstat(directory).st_uid, os.geteuid()):
        raise ControlError(f"{directory} belongs to somebody else; set [control] socket")


def _clear_place(path: str) -> None:
    try:
        seen = os.lstat(path)
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(seen.st_mode):
        raise ControlError(f"{path} is there and no socket; move it away or set [control] socket")
    if _someone_listens(path):
        raise ControlError(f"another server has {path}; set [control] socket to tell them apart")
    os.unlink(path)


def _someone_listens(path: str) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1)
        try:
            probe.connect(path)
        except (ConnectionRefusedError, FileNotFoundError):
            return False
        except OSError:
            return True  # busy, or not ours to ask
    return True
