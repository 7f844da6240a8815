"""How the box is doing, as the control socket tells it: `status` and `stats`.

Read from the shared pages, so that no worker is asked: a box whose workers all hang can still
tell that they do.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping

import msgspec

from edgebox.observe.pages import GAUGES, Pages
from edgebox.observe.status.history import History
from edgebox.observe.status.snapshot import take
from edgebox.ops.control.control import Control, Reply
from edgebox.ops.control.jsonlines import Message

Facts = Callable[[], Mapping[str, object]]


class Reports:
    """Registers its verbs with `control`; `turn` is to be called once a second."""

    def __init__(self, control: Control, pages: Pages, facts: Facts) -> None:
        """`facts`: what only the supervisor knows, as {"config": "/etc/…", "pid": 1}."""
        self._control = control
        self._pages = pages
        self._facts = facts
        self._history = History()
        control.verbs |= {"status": self.status, "stats": self.stats}

    def turn(self) -> None:
        self._history.add(self._control.now, self._pages.totals())

    def status(self, message: Message, reply: Reply) -> None:
        """All that there is to look at."""
        snapshot = take(self._pages, self._history, int(time.time()), os.uname().nodename)
        told = msgspec.to_builtins(snapshot, str_keys=True)
        starting = self._control.starting  # who has not begun to serve has no pulse yet
        silent = {
            str(slot): round(max(0.0, self._control.now - reading.beat), 1)
            for slot, reading in self._pages.readings()
            if slot not in starting
        }
        reply({"ok": True, **told, "silent": silent, "supervisor": self._supervisor()})

    def stats(self, message: Message, reply: Reply) -> None:
        """Plain numbers: `counters` only grow, `gauges` are of now, `rates` a second."""
        totals = self._pages.totals()
        numbers, gauges = dict(totals.numbers), {}
        for name in GAUGES:
            gauges[name] = numbers.pop(name)
        latency = {name: histogram.statistics() for name, histogram in totals.histograms.items()}
        reply(
            {
                "ok": True,
                "time": int(time.time()),
                "counters": numbers,
                "gauges": gauges,
                "rates": self._history.rates(),
                "latency": latency,
                "supervisor": self._supervisor(),
            }
        )

    def _supervisor(self) -> dict[str, object]:
        return {**self._facts(), "control": self._control.statistics()}
