"""One worker: puts the parts together and runs them until a signal says otherwise.

This is the only place that knows every room. It imports neither click nor rich.
"""

from __future__ import annotations

import gc
import os
import signal
import socket
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial

import trio

from edgebox.cache.siblings import messages as siblings
from edgebox.config.schema import Config
from edgebox.epoch import Epoch
from edgebox.express.lane import Lane
from edgebox.express.memory import Memory
from edgebox.express.recogniser import LINES
from edgebox.files.compression.client import CompressionClient
from edgebox.files.store import FileStore
from edgebox.handlers import synthetic
from edgebox.handlers.exchange import Exchange
from edgebox.handlers.relay import Relay
from edgebox.http.gate import HeadLimits
from edgebox.http.message import Request, Response
from edgebox.listen.admission import Admission
from edgebox.listen.sockets import begin
from edgebox.listen.unsent import bound_unsent
from edgebox.memory import heap
from edgebox.memory.ledger import Ledger
from edgebox.memory.workingset import WorkingSet
from edgebox.observe.counters import Counters
from edgebox.observe.error_log import ErrorLog, reaches_journal
from edgebox.observe.log_format import make_format
from edgebox.observe.pages import Pages, Slot
from edgebox.observe.query import compile_query
from edgebox.observe.recorder import Recorder
from edgebox.observe.sink import Sink
from edgebox.observe.syslog import severity_of
from edgebox.ops.control.jsonlines import Message
from edgebox.ops.control.verbs import Verbs
from edgebox.ops.control.wire import Wire
from edgebox.ops.sizing.resizing import Resizer
from edgebox.ops.worker import warm
from edgebox.ops.worker.caching import Caching
from edgebox.ops.worker.onlookers import Onlookers
from edgebox.ops.worker.publishing import Parts, Publisher
from edgebox.ops.worker.sites import make_router
from edgebox.ops.worker.sorts import Sorter
from edgebox.plan.assumptions import SEND_BUFFER
from edgebox.send.bandwidth import Bandwidth, Rates
from edgebox.send.carrier import Carrier
from edgebox.send.writer import SendLimits
from edgebox.session.cycle import Rules, Service
from edgebox.session.tasks import TaskPerConnection

MIB = 1024 * 1024
HEADS = 4 * MIB  # header blocks that the lane remembers: some 5,000 browsers'
ANSWERS = 32 * MIB  # what it renders within one second


@dataclass(frozen=True, slots=True)
class Post:
    """What ties a worker to its supervisor: the wire and what came over it already, the pages
    and which slot in them is its own, the file where it leaves its hot paths, where the
    status page is asked for, and what it and the other workers of its generation are called."""

    wire: socket.socket
    early: bytes
    pages: Pages
    slot: int
    warm: int
    status: Sequence[socket.socket] = ()
    family: bytes = b""


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
            Sink(log.error, 2, log.backlog, "error", severity_of),
        ]
        for sink in self._sinks:
            stack.callback(sink.close)
        journal = log.error == "-" and reaches_journal(2, os.environ)
        self.errors = ErrorLog(self._sinks[1], log.level, journal)
        recorder = Recorder(
            self._sinks[0],
            make_format(log.format, {"hostname": socket.gethostname(), "pid": str(os.getpid())}),
            self.errors,
            compile_query(log.only) if log.only else None,
            log.sample,
        )
        self.epoch = Epoch(config.server.name.encode())
        self.ledger = Ledger(_budget(config))
        self._working_set = WorkingSet(
            config.files.working_set or 0, self.ledger, sort=Sorter(config)
        )
        self.store = FileStore(config.files, self._working_set, self.epoch.forget, self.errors)
        stack.callback(self.store.close)
        self._compression = self._make_compression(config)
        self.caching = Caching(config, self._working_set, self.epoch, self.errors)
        stack.callback(self.caching.close)
        self._router = make_router(config, self.store, self._compression, self.caching)
        readers = trio.CapacityLimiter(config.files.read_threads)
        rules = _rules(config, readers)
        self.counters = Counters()
        self.admission = Admission(config.limits.connections or 1)
        carrier = Carrier(rules.send, self.admission)
        self.service = Service(rules, self.epoch, self._respond, recorder, self.counters, carrier)
        self.front = self._make_front(config)
        self._tide = heap.Tide()
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

    def _respond_nowait(
        self, request: Request, block: bytes, peer: bytes
    ) -> Response | Relay | None:
        site = self._router.pick(request.host)
        if site is None:
            return synthetic.error(404)
        return site.answer_nowait(request, self.epoch.moment, block, peer)

    def _turn(self) -> None:
        self._working_set.yield_room()
        self.counters.turn()
        self.service.recorder.turn(self.epoch.now)
        self._sinks[1].flush()
        idle = 0 if isinstance(self.front, TaskPerConnection) else len(self.front.idle)
        if self._tide.turn(idle + self.admission.tasks) is heap.Level.GONE:
            heap.settle()

    async def run(self, listeners: Sequence[socket.socket], post: Post) -> None:
        """Serve until SIGTERM or SIGINT (at once) or SIGQUIT (when all are answered).

        Without the supervisor, who is at the other end of the wire, it is as after SIGQUIT:
        nobody would notice if this worker hung, or tell it of a purge.
        """
        wire = Wire(post.wire, self.errors, post.early)
        self.epoch.on_turn(self.publisher(post.pages.slot(post.slot)).turn)
        onlookers = self._make_onlookers(post) if post.status else None

        async def keep_warm(_: Message) -> Message:
            warm.leave(post.warm, self.store.hottest(warm.COUNT))
            return {}

        wire.verbs["keep_warm"] = keep_warm
        wire.verbs["resize"] = Resizer(self.admission, self._working_set, listeners).resize
        self.verbs().register(wire)
        async with trio.open_nursery() as nursery:

            def drain() -> None:
                if not self.service.draining:
                    if onlookers is not None:
                        onlookers.drain()
                    warm.leave(post.warm, self.store.hottest(warm.COUNT))
                    self._accept_no_more()
                    # Now: the supervisor may have the sockets refuse who comes later.
                    wire.send_nowait({"event": "draining"})
                    nursery.start_soon(self._end_when_answered, nursery.cancel_scope)

            def drain_alone() -> None:
                drain()
                for sock in (*listeners, *post.status):
                    sock.close()  # so that another server can have the addresses at once

            wire.when_gone = drain_alone
            self._join_siblings(nursery, post)
            await nursery.start(self._watch_signals, nursery.cancel_scope, drain)
            await nursery.start(self.serve, listeners, post.warm)
            if onlookers is not None:
                await nursery.start(onlookers.run, post.status)
            await nursery.start(wire.run)
            wire.send_nowait({"event": "ready"})

    def _join_siblings(self, nursery: trio.Nursery, post: Post) -> None:
        """What is asked of upstreams is asked once for all workers."""
        if not self.caching.groups or (self._config.server.workers or 1) == 1:
            return
        telling = self.caching.join(post.pages.fd, post.family)
        try:
            listener = siblings.listen()
        except OSError as problem:
            self.errors("warning", f"other workers cannot ask this one: {problem}")
        else:
            nursery.start_soon(telling.run, listener, self.admission.start)

    def _make_onlookers(self, post: Post) -> Onlookers:
        rules, errors = self.service.rules, self.errors
        return Onlookers(post.pages, self._config.status, self.epoch, rules, errors)

    def publisher(self, slot: Slot) -> Publisher:
        """What tells of this worker in `slot`, if it is called once a second; it beats, too."""
        return Publisher(
            slot,
            Parts(
                epoch=self.epoch,
                counters=self.counters,
                service=self.service,
                admission=self.admission,
                front=self.front,
                working_set=self._working_set,
                store=self.store,
                caching=self.caching,
                errors=self.errors,
                sinks=self._sinks,
                what_if=self._working_set.what_if,
            ),
        )

    def verbs(self) -> Verbs:
        """What operators may ask of this worker."""
        caching = self.caching
        return Verbs(self._router, caching.operator, caching.groups, self.service.recorder)

    async def serve(
        self,
        listeners: Sequence[socket.socket],
        left: int | None = None,
        *,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Serve until cancelled; started once connections are accepted.

        `left`: the file with the hot paths of who was here before; see `ops/worker/warm`.
        """
        for listener in listeners:
            bound_unsent(listener, self._config.limits.send_buffer or SEND_BUFFER)
        async with trio.open_nursery() as nursery:
            for sink in self._sinks:
                nursery.start_soon(sink.run)
            nursery.start_soon(self.epoch.run)
            await nursery.start(self.store.run)
            await nursery.start(self.caching.run)
            if self._compression is not None:
                await nursery.start(self._compression.run)
            if left is not None:
                await warm.warm_up(self.store, warm.find(left, self._config))
            for listener in listeners:
                begin(listener, self._config.server.backlog or 1)
            await nursery.start(self.front.run, listeners)
            task_status.started()

    async def _watch_signals(
        self,
        scope: trio.CancelScope,
        drain: Callable[[], None],
        *,
        task_status: trio.TaskStatus[None],
    ) -> None:
        wanted = (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT, signal.SIGUSR1)
        with trio.open_signal_receiver(*wanted) as signals:
            task_status.started()
            async for number in signals:
                if number == signal.SIGUSR1:
                    for sink in self._sinks:
                        if why := sink.reopen():
                            text = f"{sink.name} log cannot be opened again, the old one goes on"
                            self.errors("error", f"{text}: {why}")
                elif number == signal.SIGQUIT:
                    drain()
                else:
                    scope.cancel()

    def _accept_no_more(self) -> None:
        self.errors("info", f"draining: {self.admission.tasks} connections in hand")
        self.service.drain()
        self.front.drain()

    async def _end_when_answered(self, scope: trio.CancelScope) -> None:
        """End when nothing is in hand, or after `server.drain`."""
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
    rates = Rates(limits.server_rate, limits.connection_rate, limits.client_rate)
    return Rules(
        head=HeadLimits(limits.head_size, limits.head_fields, limits.target_length),
        head_timeout=limits.head_timeout,
        idle=limits.keep_alive_idle,
        drain_idle=config.server.drain_idle,
        requests=limits.keep_alive_requests,
        body_rate=limits.body_rate,
        body_window=limits.body_timeout,
        linger=limits.linger,
        send=SendLimits(
            rates.least(limits.send_rate),
            limits.send_timeout,
            config.files.sendfile_chunk,
            readers,
            Bandwidth(rates),
        ),
    )


def run_worker(config: Config, listeners: Sequence[socket.socket], post: Post) -> None:
    """Run a worker to its end. Raises OSError for logs that cannot be opened."""
    with ExitStack() as stack:
        worker = Worker(config, stack)
        # What is here by now stays: the collector need not go through it again and again.
        gc.collect()
        gc.freeze()
        gc.enable()
        trio.run(worker.run, listeners, post)
