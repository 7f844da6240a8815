"""The status address of a worker: a small server of its own beside the public one.

It has its own counters, limits and log (none), so that who watches the box changes no figure
that he sees, and takes nothing of what clients have. No request of the public side comes here,
nor the other way round: they share no listener, no router and no express lane.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Sequence
from dataclasses import replace

import trio

from edgebox.config.schema import Status
from edgebox.epoch import Epoch, Moment
from edgebox.handlers.exchange import Exchange
from edgebox.handlers.status import StatusHandler
from edgebox.http.message import Response
from edgebox.listen.admission import Admission
from edgebox.observe.access_log import Combined
from edgebox.observe.counters import Counters
from edgebox.observe.error_log import ErrorLog
from edgebox.observe.pages import Pages
from edgebox.observe.recorder import Recorder
from edgebox.observe.sink import Sink
from edgebox.send.bandwidth import Bandwidth
from edgebox.send.carrier import Carrier
from edgebox.session.cycle import Rules, Service
from edgebox.session.tasks import TaskPerConnection

LATER = 0.5  # seconds
MOST = 64  # connections at once; each that watches takes one


class Onlookers:
    """Serves the status page on some listeners."""

    def __init__(
        self, pages: Pages, config: Status, epoch: Epoch, rules: Rules, errors: ErrorLog
    ) -> None:
        self._handler = StatusHandler(pages, config, epoch.moment)
        recorder = Recorder(Sink("off", 1, 0), Combined(), errors)
        # Bandwidth of its own: a full link is when one wants to look.
        rules = replace(rules, send=replace(rules.send, bandwidth=Bandwidth()))
        admission = Admission(MOST)
        carrier = Carrier(rules.send, admission)
        self._service = Service(rules, epoch, self._respond, recorder, Counters(), carrier)
        self._front = TaskPerConnection(self._service, admission)

    async def run(
        self,
        listeners: Sequence[socket.socket],
        *,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Serve until cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._look)
            await nursery.start(self._front.run, listeners)
            task_status.started()

    def drain(self) -> None:
        """Accept no more and let go of those who watch."""
        self._service.drain()
        self._front.drain()
        self._handler.end()

    async def _look(self) -> None:
        """Half a second after workers publish: near to it, curves would jump by one's figures."""
        while True:
            await trio.sleep(1 - (time.time() - LATER) % 1)
            steady = time.clock_gettime(time.CLOCK_BOOTTIME)
            self._handler.turn(Moment(int(time.time()), time.monotonic(), steady))

    async def _respond(self, exchange: Exchange) -> Response:
        return await self._handler.answer(exchange)
