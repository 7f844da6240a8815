"""The error log: one line an event, with a time, a level and whose fault it was.

Floods are kept short: of lines that say the same about different clients the first few are
written, the others counted ("118 more like this in the last 10 s"). One client that knows how
to anger us must not fill the disk, nor push what matters out of sight.
"""

from __future__ import annotations

import os
import re
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass

from edgebox.observe.sink import Sink
from edgebox.observe.syslog import SEVERITIES

LEVELS: dict[str, int] = {"debug": 0, "info": 1, "warning": 2, "error": 3}

WINDOW = 10.0  # seconds for which lines of a kind are counted
BURST = 20  # lines of a kind that a window has in full
KINDS = 200  # told apart at once; all beyond are of one kind
RECENT = 20  # lines kept for whoever asks what went wrong last

_QUOTED = re.compile(r'"[^"]*"')
# Words that have a number or a path in them: addresses, targets, sizes, times.
_PARTICULAR = re.compile(r"[0-9/?]")


def kind_of(level: str, text: str) -> str:
    """What a line says once its particulars are left out; URLs of upstreams are not among these.

    Their number is the operator's doing, that of clients and targets is anybody's.
    """
    words = _QUOTED.sub("", text[:2000])
    return f"{level} " + " ".join(
        word for word in words.split() if "://" in word or _PARTICULAR.search(word) is None
    )


def reaches_journal(fd: int, environment: Mapping[str, str]) -> bool:
    """Whether `fd` is the stream that systemd connected to its journal (systemd.exec(5))."""
    try:
        status = os.fstat(fd)
    except OSError:
        return False
    return environment.get("JOURNAL_STREAM") == f"{status.st_dev}:{status.st_ino}"


@dataclass(slots=True)
class _Window:
    """Lines of one kind since `began`; `text` is the latest."""

    began: float
    level: str
    text: str
    count: int = 0


class Flood:
    """Which lines are written and which only counted. Pure, but for what it remembers."""

    def __init__(self) -> None:
        self._windows: dict[str, _Window] = {}
        self.held_back = 0

    def admits(self, level: str, text: str, now: float) -> bool:
        """Whether this line is to be written; `now` in seconds of any clock that only grows."""
        kind = kind_of(level, text)
        if kind not in self._windows and len(self._windows) >= KINDS:
            kind = level
        window = self._windows.setdefault(kind, _Window(now, level, text))
        window.text = text
        window.count += 1
        if window.count <= BURST:
            return True
        self.held_back += 1
        return False

    def end_windows(self, now: float) -> list[tuple[str, str]]:
        """Level and text of what is to be said of the windows that are over at `now`."""
        over = [kind for kind, window in self._windows.items() if now - window.began >= WINDOW]
        told = []
        for kind in over:
            window = self._windows.pop(kind)
            if window.count > BURST:
                more = f"{window.count - BURST} more like this in the last {WINDOW:g} s"
                told.append((window.level, f"{more}, such as {window.text}"))
        return told


class ErrorLog:
    """Writes lines at or above `level` into a sink."""

    def __init__(self, sink: Sink, level: str, journal: bool = False) -> None:
        """`journal`: the reader is systemd's, which has the time and wants a priority."""
        self._sink = sink
        self._least = LEVELS[level]
        self._journal = journal
        self._flood = Flood()
        self._dropped = 0
        self.recent: deque[tuple[float, str, str]] = deque(maxlen=RECENT)
        self.counts = {"warning": 0, "error": 0}  # lines, those held back too

    def __call__(self, level: str, text: str) -> None:
        """Log `text`; newlines in it are folded, so that one event is one line."""
        if level in self.counts:
            self.counts[level] += 1
        if LEVELS[level] < self._least:
            return
        if self._flood.admits(level, text, time.monotonic()):
            self._write(level, text)

    def turn(self) -> None:
        """Tell what was held back or lost; once a second or so, before the sink is flushed."""
        for level, text in self._flood.end_windows(time.monotonic()):
            self._write(level, text)
        lost, self._dropped = self._sink.dropped - self._dropped, self._sink.dropped
        if lost:
            self._write("warning", f"{lost} lines of this log were lost{_why(self._sink)}")

    def statistics(self) -> dict[str, int]:
        """Lines `held_back` as more of their kind; and what the sink tells."""
        return {"held_back": self._flood.held_back} | self._sink.statistics()

    def _write(self, level: str, text: str) -> None:
        folded = " | ".join(text.splitlines())
        if LEVELS[level] >= LEVELS["warning"]:
            self.recent.append((time.time(), level, folded))
        if not self._sink.enabled:
            return
        if self._journal:
            line = f"<{SEVERITIES[level]}>{folded}\n"  # sd-daemon(3)
        else:
            line = f"{time.strftime('%Y-%m-%dT%H:%M:%S%z')} {level}: {folded}\n"
        self._sink.add(line.encode("utf-8", "backslashreplace"))


def tell_lost(sink: Sink, before: int) -> str:
    """What to say of the lines that `sink` lost after the first `before`; "" if none."""
    lost = sink.dropped - before
    return f"{lost} lines of the {sink.name} log were lost{_why(sink)}" if lost else ""


def _why(sink: Sink) -> str:
    return f": {sink.problem}" if sink.problem else ": they are written too slowly"
