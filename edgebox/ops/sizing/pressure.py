"""Tells when processes wait for memory: a trigger of the kernel's pressure stall information.

The kernel's accounting/psi document: who writes a threshold into the file is woken when it is
passed, by POLLPRI. Selectors know no POLLPRI, so that the file lies in an epoll of its own, and
that in the selector. Where a trigger is refused, averages are looked at instead; where there is
no such file (CONFIG_PSI), pressure is never told.
"""

from __future__ import annotations

import os
import select
import selectors
from collections.abc import Callable
from pathlib import Path

# Some process waits for 150 ms of two seconds. Two: who has no privilege may ask for no less.
TRIGGER = b"some 150000 2000000\0"
AVERAGE = 7.5  # percent of the last ten seconds: the same share


class Pressure:
    """Calls `on_pressure` at most once in two seconds, from the selector or from `turn`."""

    def __init__(
        self, selector: selectors.BaseSelector, path: Path, on_pressure: Callable[[], None]
    ) -> None:
        self._selector = selector
        self._path = path
        self._on_pressure = on_pressure
        self._told = 0
        self._epoll: select.epoll | None = None
        self._file = -1
        try:
            self._file = os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
            os.write(self._file, TRIGGER)
            self._epoll = select.epoll()
            self._epoll.register(self._file, select.EPOLLPRI)
        except OSError:  # no such file, or no trigger for this kernel or for who we are
            self._end()
        else:
            selector.register(self._epoll, selectors.EVENT_READ, self._woken)

    def turn(self) -> None:
        """Look, where there is no trigger; to be called every second or so."""
        if self._epoll is None and average(self._path) > AVERAGE:
            self._tell()

    def close(self) -> None:
        if self._epoll is not None:
            self._selector.unregister(self._epoll)
            self._end()

    def statistics(self) -> dict[str, int]:
        return {"trigger": int(self._epoll is not None), "told": self._told}

    def _woken(self, mask: int) -> None:
        # That we were woken is all there is to know: each poll of the file takes the event
        # away, and the selector's own was one. Only an error stays.
        assert self._epoll is not None
        if any(events & select.EPOLLERR for _, events in self._epoll.poll(0)):
            self.close()  # the control group is gone
        else:
            self._tell()

    def _end(self) -> None:
        if self._epoll is not None:
            self._epoll.close()
            self._epoll = None
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _tell(self) -> None:
        self._told += 1
        self._on_pressure()


def average(path: Path) -> float:
    """Percent of the last ten seconds in which some process waited; 0 where nobody tells."""
    try:
        some = path.read_text().partition("\n")[0]
        return float(some.partition("avg10=")[2].partition(" ")[0] or 0)
    except (OSError, ValueError):
        return 0.0
