"""One worker: puts the parts together and runs them until a signal says otherwise.

This is the only place that knows every room. It imports neither click nor rich.
"""

from __future__ import annotations

import signal
import socket
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial

import trio

from edgebox.config.schema import Config
from edgebox.epoch import Epoch
from edgebox.express.lane import Lane
from edgebox.express.memory import Memory
from edgebox.express.recogniser import LINES
from edgebox.files.compression.client import CompressionClient
from edgebox.files.store import FileStore
from edgebox.handlers import synthetic
from edgebox.handlers.exchange import Exchange
from edgebox.http.gate import HeadLimits
from edgebox.http.message import Request, Response
from edgebox.listen.admission import Admission
from edgebox.memory.ledger import Ledger
from edgebox.memory.workingset import WorkingSet
from edgebox.observe.access_log import FORMATS
from edgebox.observe.counters import Counters
from edgebox.observe.error_log import ErrorLog
from edgebox.observe.recorder import Recorder
from edgebox.observe.sink import Sink
from edgebox.ops.caching import Caching
from edgebox.ops.sites import make_router
from edgebox.send.writer import SendLimits
from edgebox.session.cycle import Rules, Service
from edgebox.session.tasks import TaskPerConnection

MIB = 1024 * 1024
HEADS = 4 * MIB  # header blocks that the lane remembers: some 5,000 browsers'
ANSWERS = 32 * MIB  # what it renders within one second


class Worker:
    """A whole server on given listening sockets."""

    def __init__(self, config: Config, stack: ExitStack) -> None:
        """Everything of `config` must be settled. `stack` closes what is opened here.

        Raises OSError for a log that cannot be opened.
        """
        log = config.log
        self._config = config
        self._sinks = [
            Sink(log.access, 1, log.backlog),
            Sink(log.error, 2, log.backlog),
        ]
        for sink in self._sinks:
            stack.callback(sink.close)
        self.errors = ErrorLog(self._sinks[1], log.level)
        recorder = Recorder(self._sinks[0], FORMATS[log.format](), self.errors)
        self.epoch = Epoch(config.server.name.encode())
        self.ledger = Ledger(_budget(config))
        self._working_set = WorkingSet(config.files.working_set or 0, self.ledger)
        self.store = FileStore(config.files, self._working_set, self.epoch.forget, self.errors)
        stack.callback(self.store.close)
        self._compression = self._make_compression(config)
        self.caching = Caching(config, self._working_set, self.epoch, self.errors)
        stack.callback(self.caching.close)
        self._router = make_router(config, self.store, self._compression, self.caching)
        readers = trio.CapacityLimiter(config.files.read_threads)
        rules = _rules(config, readers)
        self.counters = Counters()
        self.service = Service(rules, self.epoch, self._respond, recorder, self.counters)
        self.admission = Admission(config.limits.connections or 1)
        self.front = self._make_front(config)
        self.epoch.on_turn(self._turn)
        self._turn()

    def _make_compression(self, config: Config) -> CompressionClient | None:
        if not config.compression.enabled or not config.compression.dir:
            return None
        return CompressionClient(
            config.compression, config.compression.dir, partial(self.errors, "warning")
        )

    def _make_front(self, config: Config) -> Lane | TaskPerConnection:
        if not config.server.express:
            return TaskPerConnection(self.service, self.admission)
        memory = Memory(self.ledger, HEADS, ANSWERS)
        self.ledger.account("header lines").charge(LINES)  # held for them from the start
        lane = Lane(self.service, memory, self.admission, self._respond_nowait)
        self.caching.engine.sees = lane.sees
        return lane

    async def _respond(self, exchange: Exchange) -> Response:
        site = self._router.pick(exchange.request.host)
        if site is None:
            return synthetic.error(404)
        return await site.answer(exchange, self.epoch.moment)

    def _respond_nowait(self, request: Request) -> Response | None:
        site = self._router.pick(request.host)
        if site is None:
            return synthetic.error(404)
        return site.answer_nowait(request, self.epoch.moment)

    def _turn(self) -> None:
        self._working_set.yield_room()
        self.service.recorder.turn(self.epoch.now)
        self._sinks[1].flush()

    async def run(self, listeners: Sequence[socket.socket], ready: Callable[[], None]) -> None:
        """Serve until SIGTERM or SIGINT (at once) or SIGQUIT (when all are answered).

        `ready` is called once connections are accepted.
        """
        async with trio.open_nursery() as nursery:
            await nursery.start(self._watch_signals, nursery)
            await nursery.start(self.serve, listeners)
            ready()

    async def serve(
        self,
        listeners: Sequence[socket.socket],
        *,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Serve until cancelled; started once connections are accepted."""
        async with trio.open_nursery() as nursery:
            for sink in self._sinks:
                nursery.start_soon(sink.run)
            nursery.start_soon(self.epoch.run)
            await nursery.start(self.store.run)
            await nursery.start(self.caching.run)
            if self._compression is not None:
                await nursery.start(self._compression.run)
            await nursery.start(self.front.run, listeners)
            task_status.started()

    async def _watch_signals(
        self, nursery: trio.Nursery, *, task_status: trio.TaskStatus[None]
    ) -> None:
        wanted = (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT, signal.SIGUSR1)
        with trio.open_signal_receiver(*wanted) as signals:
            task_status.started()
            async for number in signals:
                if number == signal.SIGUSR1:
                    for sink in self._sinks:
                        sink.reopen()
                elif number == signal.SIGQUIT and not self.service.draining:
                    nursery.start_soon(self._drain, nursery.cancel_scope)
                else:
                    nursery.cancel_scope.cancel()

    async def _drain(self, scope: trio.CancelScope) -> None:
        """Answer what is in hand, for as long as `server.drain` allows, then end."""
        self.errors("info", f"draining: {self.admission.tasks} connections in hand")
        self.service.drain()
        self.front.drain()
        with trio.move_on_after(self._config.server.drain) as waited:
            await self.admission.wait_none()
        if waited.cancelled_caught:
            self.errors("warning", f"drain time over: {self.admission.tasks} connections cut off")
        scope.cancel()


def _budget(config: Config) -> int:
    """Octets that may be held on purpose."""
    return (config.files.working_set or 0) + HEADS + ANSWERS + LINES


def _rules(config: Config, readers: trio.CapacityLimiter) -> Rules:
    limits = config.limits
    return Rules(
        head=HeadLimits(limits.head_size, limits.head_fields, limits.target_length),
        head_timeout=limits.head_timeout,
        idle=limits.keep_alive_idle,
        drain_idle=config.server.drain_idle,
        requests=limits.keep_alive_requests,
        body_rate=limits.body_rate,
        body_window=limits.body_timeout,
        linger=limits.linger,
        send=SendLimits(limits.send_rate, limits.send_timeout, config.files.sendfile_chunk, readers),
    )


def run_worker(
    config: Config, listeners: Sequence[socket.socket], ready: Callable[[], None]
) -> None:
    """Run a worker to its end. Raises OSError for logs that cannot be opened."""
    with ExitStack() as stack:
        worker = Worker(config, stack)
        trio.run(worker.run, listeners, ready)
