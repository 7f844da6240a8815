"""Log lines as syslog messages: RFC 5424, in datagrams, to this machine's or another's syslog.

"syslog" in edgebox.toml is /dev/log, "syslog:/path" another socket of this machine,
"syslog:ADDRESS:PORT" is UDP (RFC 5426). `SyslogTarget` is written to by the thread of a
`Sink`: it may wait a moment for a busy receiver, the server never does. What makes a message
of a line is pure. No trio: the supervisor uses it too.
"""

from __future__ import annotations

import os
import re
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from ipaddress import ip_address

PREFIX = "syslog"
LOCAL = "/dev/log"
PORT = 514  # RFC 5426 §3.3
MOST = 8192  # octets of a message; receivers take 2048 at least (RFC 5424 §6.1), rsyslog 8192
PATIENCE = 1.0  # seconds for a receiver that takes nothing; then what is left is given up

DAEMON = 3 << 3  # the facility (RFC 5424 §6.2.1)
ERROR, WARNING, INFO, DEBUG = 3, 4, 6, 7

Severity = Callable[[bytes], int]

# How a line of the error log begins, and what that is in syslog and to systemd (sd-daemon(3)).
SEVERITIES = {"debug": DEBUG, "info": INFO, "warning": WARNING, "error": ERROR}
_LEVEL = re.compile(rb"\S+ (debug|info|warning|error): ")

_UNPRINTABLE = re.compile(r"[^\x21-\x7e]")


@dataclass(frozen=True, slots=True)
class Receiver:
    """Where messages go: a socket's path, or else an IP address and port."""

    path: str = ""
    host: str = ""
    port: int = PORT


@dataclass(frozen=True, slots=True)
class Sender:
    """Who we are in a message: HOSTNAME, PROCID and MSGID of RFC 5424; "access" or "error"."""

    hostname: str
    process: int
    message: str


def is_syslog(target: str) -> bool:
    """Whether a log's target in edgebox.toml means syslog; a path has a slash before a colon."""
    return target == PREFIX or target.startswith(f"{PREFIX}:")


def is_path(target: str) -> bool:
    """Whether a log's target in edgebox.toml is the path of a file."""
    return target not in ("", "-", "off") and not is_syslog(target)


def parse_receiver(target: str) -> Receiver:
    """Where a target of edgebox.toml sends to. ValueError: it says nothing of the kind."""
    where = target.removeprefix(PREFIX).removeprefix(":")
    if target == PREFIX:
        return Receiver(path=LOCAL)
    if where.startswith("/"):
        return Receiver(path=where)
    host, colon, port = where.rpartition(":")
    if not colon or (where.startswith("[") and where.endswith("]")):
        host, port = where, str(PORT)
    host = host.removeprefix("[").removesuffix("]")
    try:
        ip_address(host)
    except ValueError:
        text = 'write "syslog", "syslog:/path/of/socket" or "syslog:ADDRESS:PORT"'
        raise ValueError(f"{text}, with an IP address: a log does not wait for DNS") from None
    if not re.fullmatch("[0-9]{1,5}", port) or not 0 < int(port) < 65536:
        raise ValueError(f"{port!r} is no port")
    return Receiver(host=host, port=int(port))


def severity_of(line: bytes) -> int:
    """The severity of a line of the error log."""
    level = _LEVEL.match(line)
    return SEVERITIES[level[1].decode()] if level else INFO


def local_sender(message: str) -> Sender:
    """This process on this machine."""
    return Sender(_UNPRINTABLE.sub("", socket.gethostname())[:255] or "-", os.getpid(), message)


def render(line: bytes, severity: int, sender: Sender, now: int) -> bytes:
    """The message of a line, which has no line end; `now` is in seconds since 1970."""
    stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now))
    head = f"<{DAEMON | severity}>1 {stamp} {sender.hostname} edgebox {sender.process}"
    return (f"{head} {sender.message} - ".encode() + line)[:MOST]


class SyslogTarget:
    """Sends batches of lines. `problem` is why the last one was not all sent, "" if it was."""

    def __init__(self, receiver: Receiver, sender: Sender, severity: Severity) -> None:
        """A receiver that is not there yet is looked for again at each batch."""
        self._receiver = receiver
        self._sender = sender
        self._severity = severity
        self._patience = PATIENCE
        self._sock: socket.socket | None = None
        self.problem = ""
        try:
            self._sock = self._connect()  # now, since later a chroot may be in the way
        except OSError as error:
            self.problem = error.strerror or str(error)

    def write(self, batch: bytes) -> int:
        """Send the lines of `batch`; returns how many could not be."""
        lines = batch.splitlines()
        now = int(time.time())
        for sent, line in enumerate(lines):
            message = render(line, self._severity(line), self._sender, now)
            try:
                self._send(message)
            except OSError as error:
                self.problem = error.strerror or str(error)
                return len(lines) - sent
        self.problem = ""
        return 0

    def write_nowait(self, batch: bytes) -> int:
        """The same, but what the receiver does not take at once is lost; so it stays."""
        self._patience = 0.0
        if self._sock is not None:
            self._sock.settimeout(0)
        return self.write(batch)

    def reopen(self) -> str:
        """There is no file that could have been moved away."""
        return ""

    def close(self) -> None:
        if self._sock is not None:
            self._sock.close()
            self._sock = None

    def _send(self, message: bytes) -> None:
        if self._sock is not None:
            try:
                self._sock.send(message)
                return
            except (TimeoutError, BlockingIOError):
                raise
            except OSError:  # its receiver went away, and another may be there now
                self.close()
        self._sock = self._connect()
        self._sock.send(message)

    def _connect(self) -> socket.socket:
        receiver = self._receiver
        if receiver.path:
            family: int = socket.AF_UNIX
            address: str | tuple[str, int] = receiver.path
        else:
            family = socket.AF_INET6 if ":" in receiver.host else socket.AF_INET
            address = (receiver.host, receiver.port)
        sock = socket.socket(family, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
        try:
            sock.settimeout(self._patience)
            sock.connect(address)
        except BaseException:
            sock.close()
            raise
        return sock
