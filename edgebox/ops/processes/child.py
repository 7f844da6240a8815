"""A worker process, from exec to its end: `python -m edgebox.ops.processes.child DESCRIPTOR`.

The descriptor is its wire to the supervisor, whose first line says what to do. What cannot be
done is told there too, as the event "failed", since it is the supervisor who speaks with the
operator; a traceback on standard error is a bug.
"""

from __future__ import annotations

import encodings.idna  # noqa: F401  Python wants it for each host's name, where no import is
import faulthandler
import gc
import os
import signal
import socket
import sys
from contextlib import suppress

import msgspec

from edgebox.observe.pages import Pages
from edgebox.ops.control.jsonlines import encode
from edgebox.ops.processes.assignment import Assignment, receive
from edgebox.ops.processes.privileges import (
    PrivilegeError,
    become,
    confine,
    enter_chroot,
    forbid_new_privileges,
    need_proc,
)
from edgebox.ops.processes.reach import inside, readable, writable


def main() -> int:
    """Exit status: 0 after an end as told, 1 where nothing could be served."""
    # All that modules make as they load stays. To look for garbage in it 86 times was 8 % of a
    # worker's imports (2026-11-30); `run_worker` looks once, and has it looked for from then on.
    gc.disable()
    from edgebox.ops.worker.worker import Post, run_worker

    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    # Where do you hang? Answered on standard error, whatever the loop is doing.
    faulthandler.register(signal.SIGUSR2, all_threads=True)
    wire = socket.socket(fileno=int(sys.argv[1]))
    try:
        assignment, early, pages = _understand(wire)
        listeners = _sockets(assignment.listeners)
        post = Post(
            wire=wire,
            early=early,
            pages=pages,
            slot=assignment.slot,
            warm=assignment.warm,
            status=_sockets(assignment.status),
            family=b"%d/%d" % (os.getppid(), assignment.generation),
        )
        _give_up_privileges(assignment)
        run_worker(inside(assignment.config), listeners, post)
    except EOFError:
        return 0  # the supervisor has changed its mind
    except (Outdated, PrivilegeError, OSError, RuntimeError, ValueError) as problem:
        event = {"event": "failed", "error": str(problem)}
        with suppress(OSError):
            wire.sendall(encode({**event, "outdated": isinstance(problem, Outdated)}))
        return 1
    return 0


class Outdated(Exception):
    """The supervisor runs other code than is installed now."""


def _understand(wire: socket.socket) -> tuple[Assignment, bytes, Pages]:
    """What we are told to do, and what came after it. Raises Outdated, or EOFError."""
    try:
        assignment, early = receive(wire)
        return assignment, early, Pages.attach(assignment.pages)
    except (msgspec.MsgspecError, ValueError) as problem:
        raise Outdated(
            f"edgebox upgrade is needed, other code is installed: {problem}"
        ) from problem


def _sockets(descriptors: tuple[int, ...]) -> list[socket.socket]:
    """Those that we inherited, as the supervisor made them."""
    sockets = [socket.socket(fileno=fd) for fd in descriptors]
    for sock in sockets:
        sock.setblocking(False)  # Python has this twice, once in its own object
        sock.set_inheritable(False)
    return sockets


def _give_up_privileges(assignment: Assignment) -> None:
    server, identity = assignment.config.server, assignment.identity
    if server.chroot:
        enter_chroot(server.chroot)
        need_proc(server.chroot)
    if identity is not None:
        become(identity)
    forbid_new_privileges()
    if server.landlock == "always" or (
        server.landlock == "with-user" and (server.user or server.chroot)
    ):
        config = inside(assignment.config)
        confine(readable(config), writable(config))


if __name__ == "__main__":
    sys.exit(main())
