"""What systemd is told of us: one datagram a message (sd_notify(3), systemd.service(5)).

Without $NOTIFY_SOCKET nothing is sent, and nothing here ever fails: who supervises us has to
bear that we do not talk to it.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Mapping
from contextlib import suppress

VARIABLES = ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID")


class Notifier:
    """Speaks to the socket that `environ` names."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._address = _address(environ.get("NOTIFY_SOCKET", ""))
        self.watchdog = _watchdog(environ) if self._address else None
        """Seconds within which `feed` is expected; None where nobody watches."""

    def ready(self, status: str) -> None:
        """Connections are accepted. After an upgrade we are not whom systemd has started."""
        self._send(f"READY=1\nMAINPID={os.getpid()}\nSTATUS={status}")

    def reloading(self) -> None:
        """`ready` follows when it is over, well or not."""
        now = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
        self._send(f"RELOADING=1\nMONOTONIC_USEC={now}\nSTATUS=reloading")

    def stopping(self) -> None:
        self._send("STOPPING=1\nSTATUS=stopping")

    def feed(self) -> None:
        """All is well."""
        self._send("WATCHDOG=1")

    def _send(self, message: str) -> None:
        if self._address is None:
            return
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
            # A manager that does not read must not hold us up.
            sock.setblocking(False)
            sock.sendto(message.encode(), self._address)


def _address(name: str) -> str | None:
    """A path, or with "@" in front a name in the abstract namespace."""
    if name.startswith("@"):
        return "\0" + name[1:]
    return name if name.startswith("/") else None


def _watchdog(environ: Mapping[str, str]) -> float | None:
    with suppress(KeyError, ValueError):
        seconds = int(environ["WATCHDOG_USEC"]) / 1e6
        # WATCHDOG_PID is that of the process which was started, before an upgrade perhaps.
        return seconds if seconds > 0 else None
    return None
