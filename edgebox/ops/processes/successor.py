"""An upgrade: another supervisor, of whatever code is installed now, is to take over.

It is started with the same command line and inherits the sockets, the pages and the lists of
hot paths. When its workers serve it says so and waits until we let go of the control socket;
if it cannot, it says why and ends, and nothing has happened.
"""

from __future__ import annotations

import os
import selectors
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress

from msgspec.structs import replace

from edgebox.ops.processes.inheritance import VARIABLE, Inheritance
from edgebox.ops.processes.process import told_of

PATIENCE = 90.0  # seconds until it has to serve
READY = b"ready\n"
LONGEST = 64 * 1024  # octets of what it tells


class Predecessor:
    """Who started us to take over: the other end of a Successor."""

    def __init__(self, wire: int) -> None:
        self._wire = socket.socket(fileno=wire)

    def tell_ready(self, selector: selectors.BaseSelector, let_go: Callable[[], None]) -> None:
        """Say that we serve. `let_go` is called when all is ours."""
        self._tell(READY)

        def hear(mask: int) -> None:
            selector.unregister(self._wire)
            self._wire.close()
            let_go()

        selector.register(self._wire, selectors.EVENT_READ, hear)

    def tell_failure(self, why: str) -> None:
        """Say why we do not serve; then nothing has happened."""
        self._tell(why.encode(errors="replace"))

    def _tell(self, octets: bytes) -> None:
        with suppress(OSError):
            self._wire.sendall(octets)


class Successor:
    """A supervisor that is starting. `done` is called once: with "" when it serves, or why not."""

    def __init__(
        self, selector: selectors.BaseSelector, done: Callable[[str], None], now: float
    ) -> None:
        self._selector = selector
        self._done = done
        self._overdue_at = now + PATIENCE
        self._told = b""
        self._popen: subprocess.Popen[bytes] | None = None
        self._wire: socket.socket | None = None

    def start(self, estate: Inheritance) -> None:
        """Start it with all that is ours. Raises OSError."""
        self._wire, theirs = socket.socketpair()
        with theirs:
            told = replace(estate, wire=theirs.fileno()).encode()
            self._popen = subprocess.Popen(
                [sys.executable, *sys.orig_argv[1:]],
                pass_fds=(theirs.fileno(), *estate.descriptors),
                env={**os.environ, VARIABLE: told},
            )
        self._wire.setblocking(False)
        self._selector.register(self._wire, selectors.EVENT_READ, self._hear)

    def tick(self, now: float) -> None:
        """Give up on one that takes too long."""
        if now >= self._overdue_at:
            self._conclude(f"not ready within {PATIENCE:.0f} s")

    def abandon(self, why: str) -> None:
        """It is not to take over after all."""
        self._conclude(why)

    def let_go(self) -> None:
        """All is its from now on."""
        if self._wire is not None:
            self._wire.close()

    def _hear(self, mask: int) -> None:
        assert self._wire is not None
        try:
            octets = self._wire.recv(LONGEST)
        except BlockingIOError:
            return
        except OSError:
            octets = b""
        self._told += octets
        if self._told == READY:
            self._selector.unregister(self._wire)
            self._done("")
        elif not octets or len(self._told) > LONGEST:
            self._conclude(self._told.decode(errors="replace").strip())

    def _conclude(self, why: str) -> None:
        assert self._wire is not None
        assert self._popen is not None
        self._selector.unregister(self._wire)
        self._wire.close()
        with suppress(ProcessLookupError):
            self._popen.send_signal(signal.SIGKILL)
        # Its end of the wire is closed, so that it is about to end if it has not.
        how = told_of(self._popen.wait())
        self._done(why or f"the new supervisor has ended: {how}")
