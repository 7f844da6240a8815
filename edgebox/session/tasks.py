"""The plain way in: a task for each connection, from accept to close.

What `server.express = false` runs, and what the express lane is held against.
"""

from __future__ import annotations

import socket
from collections.abc import Sequence
from contextlib import suppress

import trio

from edgebox.listen.acceptor import BACK_OFF, NoDescriptors, accept_ready
from edgebox.listen.admission import Admission
from edgebox.listen.connection import Connection, peer_name
from edgebox.session.connection import serve, turn_away
from edgebox.session.cycle import Service


class TaskPerConnection:
    """Accepts on some listeners and starts a session for each connection."""

    def __init__(self, service: Service, admission: Admission) -> None:
        self._service = service
        self._admission = admission
        self._accepting = trio.CancelScope()

    async def run(
        self,
        listeners: Sequence[socket.socket],
        *,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Serve until cancelled."""
        self._service.rules.send.bandwidth.pace(listeners)
        async with trio.open_nursery() as self._nursery:
            await self._nursery.start(self._service.carrier.run)
            self._nursery.start_soon(self._accept_all, listeners)
            task_status.started()
            await trio.sleep_forever()

    def drain(self) -> None:
        """Stop accepting; sessions in hand go on."""
        self._accepting.cancel()

    def statistics(self) -> dict[str, int]:
        counts = {"tasks": self._admission.tasks, "idle": len(self._service.waiting)}
        return counts | self._service.carrier.statistics()

    async def _accept_all(self, listeners: Sequence[socket.socket]) -> None:
        with self._accepting:
            async with trio.open_nursery() as nursery:
                for listener in listeners:
                    nursery.start_soon(self._accept, listener)
        with suppress(NoDescriptors):
            for listener in listeners:  # what waits in a queue that nobody else serves is lost
                while self._take(listener):
                    pass

    async def _accept(self, listener: socket.socket) -> None:
        while True:
            await trio.lowlevel.wait_readable(listener)
            try:
                self._take(listener)
            except NoDescriptors:
                self._service.counters.starved += 1
                self._service.shed_waiting()
                await trio.sleep(BACK_OFF)

    def _take(self, listener: socket.socket) -> int:
        """Take what waits to be accepted, or a part of it; how many that was."""
        taken = 0
        for sock, address in accept_ready(listener):
            self._welcome(sock, address)
            taken += 1
        return taken

    def _welcome(self, sock: socket.SocketType, address: object) -> None:
        service = self._service
        service.counters.accepted += 1
        peer = peer_name(address)
        conn = Connection(sock, peer, service.recorder.form.client(peer), service.epoch.number)
        if self._admission.full(0) and not service.shed_waiting():
            turn_away(service, conn)
        else:
            self._admission.start(self._nursery, serve, service, conn)
