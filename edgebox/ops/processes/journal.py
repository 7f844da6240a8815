"""The supervisor's own lines in the error log, in the form that the workers' have.

Writes at once and never waits: a line for which a stuck pipe has no room is lost, and the
watch over the workers goes on. No trio, so not the workers' log.
"""

from __future__ import annotations

import os
import select
import time
from collections import deque

from edgebox.config.schema import Log
from edgebox.observe.syslog import (
    SyslogTarget,
    is_path,
    is_syslog,
    local_sender,
    parse_receiver,
    severity_of,
)

LEVELS = ("debug", "info", "warning", "error")
PRIORITIES = (7, 6, 4, 3)  # sd-daemon(3)
LONGEST = 4096  # octets; what PIPE_BUF promises to take whole
RECENT = 20  # lines kept for whoever asks what went wrong last, and
SHOWN = 500  # characters of each: all have room on the shared pages, however they are encoded


class Journal:
    """Lines for [log] error; standard error until `use` is told of another place."""

    def __init__(self) -> None:
        self._path = ""
        self._flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK
        self._least = 1
        self._fd = 2
        self._syslog: SyslogTarget | None = None
        self.lost = 0
        self.recent: deque[tuple[int, str, str]] = deque(maxlen=RECENT)
        self.counts = {"warning": 0, "error": 0}

    def use(self, log: Log, *, follow: bool = True) -> None:
        """Write where the configuration says, from now on. A path that will not open is told.

        Not to `follow` links is for root, where workers who are not may write beside the log.
        """
        self._flags = self._flags & ~os.O_NOFOLLOW if follow else self._flags | os.O_NOFOLLOW
        self._least = LEVELS.index(log.level)
        self._close()
        self._path = log.error if is_path(log.error) else ""
        self._fd = 2 if log.error == "-" else -1
        if self._path:
            self.reopen()
        elif is_syslog(log.error):
            receiver = parse_receiver(log.error)
            self._syslog = SyslogTarget(receiver, local_sender("error"), severity_of)

    def reopen(self) -> None:
        """Open the path again, after rotation; the old file goes on if that fails."""
        if not self._path:
            return
        try:
            fd = os.open(self._path, self._flags, 0o640)
        except OSError as problem:
            self("error", f"cannot open {self._path}: {problem.strerror}")
            return
        self._close()
        self._fd = fd

    def __call__(self, level: str, text: str) -> None:
        """Log `text`; newlines in it are folded, so that one event is one line.

        Warnings and errors are kept and counted, written or not: the status page has them, too.
        """
        place, folded = LEVELS.index(level), " | ".join(text.splitlines())
        if level in self.counts:
            self.counts[level] += 1
            self.recent.append((int(time.time()), level, folded[:SHOWN]))
        if place < self._least or (self._fd < 0 and self._syslog is None):
            return
        before = f"{time.strftime('%Y-%m-%dT%H:%M:%S%z')} {level}: "
        if self._fd == 2 and _is_journal(2):  # it has the time, and wants a priority
            before = f"<{PRIORITIES[place]}>"
        line = f"{before}{folded}".encode(errors="backslashreplace")
        if self._syslog is not None:
            self.lost += self._syslog.write_nowait(line)
            return
        try:
            # A pipe that is ready takes PIPE_BUF octets without a wait; a file is always ready.
            if not select.select((), (self._fd,), (), 0)[1]:
                self.lost += 1
                return
            os.write(self._fd, line[: LONGEST - 1] + b"\n")
        except (OSError, ValueError):
            self.lost += 1

    def _close(self) -> None:
        if self._fd > 2:
            os.close(self._fd)
            self._fd = -1
        if self._syslog is not None:
            self._syslog.close()
            self._syslog = None


def _is_journal(fd: int) -> bool:
    """Whether `fd` is what systemd connected to its journal (systemd.exec(5))."""
    try:
        status = os.fstat(fd)
    except OSError:
        return False
    return os.environ.get("JOURNAL_STREAM") == f"{status.st_dev}:{status.st_ino}"
