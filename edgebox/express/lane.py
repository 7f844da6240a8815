"""The express lane: a request answered a moment ago is answered again without a task.

One epoll holds the listeners and every idle connection. One trio task waits for it and
works off what is ready in batches: receive, look the octets up, send. What cannot be
answered from memory in one go leaves the epoll and becomes a session task, with the
octets read so far; it comes back through `park` when it is idle again. A connection is
thus in the lane or in a task, never in both.

This is a declared exception to how a trio program is written, for what it saves: see "Two
lanes" in ARCHITECTURE.md. Without this room edgebox is a correct, slower server, and gives
the same answers octet for octet.
"""

from __future__ import annotations

import heapq
import select
import socket
from collections.abc import Mapping, Sequence
from time import perf_counter

import trio

from edgebox.express.answers import Answers, RespondNowait
from edgebox.express.memory import Memory
from edgebox.express.pending import Begun, Pending, Waiting
from edgebox.http.message import Response
from edgebox.listen.acceptor import BACK_OFF, NoDescriptors, accept_ready
from edgebox.listen.admission import Admission
from edgebox.listen.connection import Connection, peer_name
from edgebox.observe.hottest import url_of
from edgebox.observe.kinds import kind_of
from edgebox.observe.outcome import member_in
from edgebox.send.framing import frame, wants_keep_alive
from edgebox.session.connection import Unsent, finish, serve, turn_away
from edgebox.session.cycle import Gone, Service

NOWAIT = socket.MSG_DONTWAIT
READ_SIZE = 16 * 1024
BATCH = 64  # events a poll
ROUNDS = 16  # polls before other tasks get their turn,
TURN = 0.016  # or so many seconds, work included: other tasks hear of a file's change
LINGER = 0.001  # seconds of waiting here, a poll
GLANCE = 0.02  # seconds between two looks, while draining, whether anybody is idle still
# What becomes of a connection: idle again, closed, in a task, or with its request upstream.
STAYS, ENDS, LEAVES, WAITS = 0, 1, 2, 3


class Lane:
    """Holds idle connections and answers what it remembers."""

    def __init__(
        self,
        service: Service,
        memory: Memory,
        admission: Admission,
        respond_nowait: RespondNowait,
    ) -> None:
        self._service = service
        self._memory = memory
        self._admission = admission
        self._answers = Answers(service, memory, respond_nowait)
        self._epoll = select.epoll()
        self._waiting = Waiting(self._epoll)
        self._listeners: dict[int, socket.socket] = {}
        self.idle: dict[int, Connection] = {}
        self._paused = False
        # Looked up for every request; none of these is ever replaced.
        self._hits = memory.hits
        self._recall = self._answers.recall
        self._counters = service.counters
        self._requests = service.rules.requests
        self._log = service.recorder.sink.pieces.extend
        self.sees = self._answers.sees
        self._carrier = service.carrier
        self._resting = trio.CancelScope()
        self._bandwidth = service.rules.send.bandwidth
        # None where the whole server's bandwidth has no limit.
        self._spend = self._bandwidth.spend if self._bandwidth.server is not None else None
        epoch = service.epoch
        epoch.on_forget(memory.forget_answers)
        epoch.on_turn(self._age)

    async def run(
        self,
        listeners: Sequence[socket.socket],
        *,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Accept and serve until cancelled; sessions that the lane starts are its children."""
        self._listeners = {sock.fileno(): sock for sock in listeners}
        if not self._bandwidth.pace(listeners):
            self._requests = 0  # every answer comes from a task, which keeps all limits
        try:
            async with trio.open_nursery() as self._nursery:
                await self._nursery.start(self._carrier.run, self._rouse)
                self._listen()
                task_status.started()
                poll, carrier = self._epoll.poll, self._carrier
                while True:
                    await self._wait_ready()
                    work = self._work_timed
                    until = perf_counter() + TURN
                    for _ in range(ROUNDS):
                        wait = self._carry_on()
                        ready = poll(wait, BATCH)
                        if ready:
                            work(ready)
                            work = self._work
                        elif not carrier.transfers or self._in_hurry():
                            break
                        if perf_counter() > until:
                            break
        finally:
            for pending, _ in self._waiting.pop_all():
                pending.begun.relay.abandon()
                pending.conn.close()
            self._close_idle()
            self._epoll.close()

    def _in_hurry(self) -> bool:
        """Whether others than the lane and what it carries have something to do."""
        admission = self._admission
        return admission.tasks > admission.carried or self._carrier.loading > 0

    def _carry_on(self) -> float:
        """Push on what is carried, if it is time; seconds to wait in the lane's own epoll.

        While nobody is in a hurry, waiting a moment there is cheaper than a turn of trio's per
        batch.
        """
        wait = self._carrier.push() if self._carrier.transfers else LINGER
        return 0 if self._in_hurry() else wait

    async def _wait_ready(self) -> None:
        """Until a connection has something for us, or it is time to carry on."""
        await self._bandwidth.wait_solvent()
        if not self._carrier.transfers:
            with trio.CancelScope() as self._resting:
                await trio.lowlevel.wait_readable(self._epoll.fileno())
        elif self._in_hurry():
            with trio.move_on_after(self._carrier.period):
                await trio.lowlevel.wait_readable(self._epoll.fileno())
        else:
            await trio.lowlevel.checkpoint()

    def _rouse(self) -> None:
        """There is something to carry."""
        self._resting.cancel()

    def park(self, conn: Connection) -> None:
        """Take back a connection that is idle again."""
        conn.active = self._service.epoch.number
        self._watch(conn)
        if self._service.draining:
            self._call_last({conn.sock.fileno(): conn})

    def drain(self) -> None:
        """Stop accepting; sessions in hand go on, and who is idle may ask once more.

        What waits to be accepted is taken in first: a queue that nobody else serves is lost.
        """
        for fd in self._listeners:
            before = -1
            while before != self._counters.accepted:
                before = self._counters.accepted
                self._accept(fd)
            if not self._paused:
                self._epoll.unregister(fd)
        self._listeners = {}
        self._requests = 0  # every answer comes from a task, which says that it is the last
        for pending, is_watched in self._waiting.pop_all():
            self._hand_over(pending, is_watched)
        self._call_last(self.idle)

    def _call_last(self, conns: Mapping[int, Connection]) -> None:
        """Counted as one more in hand, until these idle connections are gone."""
        self._admission.start(self._nursery, self._wait_last, dict(conns))

    async def _wait_last(self, conns: dict[int, Connection]) -> None:
        until = trio.current_time() + self._service.rules.drain_idle
        # Asked now and then: the hot path should not have to tell of each that ends.
        while left := [fd for fd, conn in conns.items() if self.idle.get(fd) is conn]:
            if trio.current_time() >= until:
                self._let_go(left)
            await trio.sleep(GLANCE)

    def statistics(self) -> dict[str, int]:
        counts = {
            "idle": len(self.idle),
            "tasks": self._admission.tasks,
            "waiting": len(self._waiting),
        }
        return counts | self._carrier.statistics() | self._memory.statistics()

    # --- the hot path -----------------------------------------------------------------

    def _work_timed(self, ready: list[tuple[int, int]]) -> None:
        """The first batch of a turn: a sample, by which the times of all are told."""
        began = perf_counter()
        self._work(ready)
        self._counters.batches.record(perf_counter() - began, len(ready))

    def _work(self, ready: list[tuple[int, int]]) -> None:
        idle, answer = self.idle, self._answer
        for fd, _events in ready:
            conn = idle.get(fd)
            if conn is None:
                self._see_to(fd)
                continue
            try:
                data = conn.recv(READ_SIZE, NOWAIT)
            except BlockingIOError:
                continue
            except OSError:
                data = b""
            if data:
                outcome = answer(conn, data)
                if outcome is STAYS:
                    continue
                del idle[fd]
                if outcome is LEAVES:
                    self._epoll.unregister(fd)
                    continue
                if outcome is WAITS:
                    continue
            else:
                del idle[fd]
            conn.close()

    def _answer(self, conn: Connection, data: bytes, is_watched: bool = True) -> int:
        """Answer what was received, from memory or by a task; says what becomes of `conn`.

        `is_watched`: the epoll has it.
        """
        answers = self._answers
        requests = conn.requests + 1
        may_wait = requests < self._requests
        hit = self._hits.get(data) or self._recall(data, conn.peer if may_wait else None)
        if hit is None or not may_wait:
            if answers.begun is not None:
                self._wait(conn, data, answers.begun, is_watched)
                return WAITS
            self._admission.start(self._nursery, serve, self._service, conn, data, self.park)
            return LEAVES
        (wire, size, keep_alive, status, log, member, tally), tail = hit
        try:
            if isinstance(wire, bytes):
                sent = conn.send(wire, NOWAIT)
            else:
                sent = conn.sock.sendmsg(wire, (), NOWAIT)
        except BlockingIOError:
            sent = 0
        except OSError:
            return ENDS
        conn.requests = requests
        conn.active = self._service.epoch.number
        if sent != size:
            parts = (wire,) if isinstance(wire, bytes) else wire
            unsent = Unsent(data, parts, sent, status, keep_alive, member)
            self._counters.handed_on(tally)
            self._admission.start(self._nursery, finish, self._service, conn, unsent, self.park)
            return LEAVES
        if self._spend is not None:
            self._spend(size)
        tally.count += 1
        if answers.logging:
            self._log((conn.log_peer, log, tail))
        elif answers.telling:
            answers.tell(conn, data, hit[0])
        return STAYS if keep_alive else ENDS

    # --- answers that come from upstream ---------------------------------------------------

    def _see_to(self, fd: int) -> None:
        """Something happened to a descriptor that is no idle connection."""
        found = self._waiting.pop(fd)
        if found is not None:
            self._advance(*found)
        elif not self._waiting.hush(fd):
            self._accept(fd)

    def _wait(self, conn: Connection, data: bytes, begun: Begun, is_watched: bool) -> None:
        """Have `conn` wait for an upstream, which takes no task."""
        self._answers.begun = None
        self._waiting.add(Pending(begun, conn, data), is_watched)

    def _advance(self, pending: Pending, is_watched: bool) -> None:
        response = pending.begun.relay.advance()
        if response is None:
            self._hand_over(pending, is_watched)
            return
        conn = pending.conn
        outcome = self._deliver(pending, response)
        if outcome is ENDS:
            conn.close()
        elif outcome is LEAVES:
            if is_watched:
                self._epoll.unregister(conn.sock.fileno())
        elif is_watched:
            self.idle[conn.sock.fileno()] = conn
        else:
            self._watch(conn)

    def _hand_over(self, pending: Pending, is_watched: bool) -> None:
        """Have a task see to it."""
        (relay, *_), conn, head = pending
        relay.carry_on()
        if is_watched:
            self._epoll.unregister(conn.sock.fileno())
        conn.began = relay.began
        self._admission.start(
            self._nursery, serve, self._service, conn, head, self.park, relay.finish
        )

    def _deliver(self, pending: Pending, response: Response) -> int:
        """Send what came from upstream; says what becomes of the connection."""
        (relay, request, line, tail), conn, head = pending
        service = self._service
        conn.requests += 1
        conn.active = service.epoch.number
        keep_alive = wants_keep_alive(request.minor, request.headers.tokens(b"connection"))
        keep_alive = keep_alive and conn.requests < self._requests
        framed = frame(response, request.method, request.minor, keep_alive, service.epoch.stamp)
        assert isinstance(response.body, bytes)
        wire = framed.head + response.body if framed.body else framed.head
        member = member_in(response.fields)
        try:
            sent = conn.send(wire, NOWAIT)
        except BlockingIOError:
            sent = 0
        except OSError:
            return ENDS
        if sent < len(wire):
            unsent = Unsent(head, (wire,), sent, response.status, framed.keep_alive, member)
            self._admission.start(self._nursery, finish, service, conn, unsent, self.park)
            return LEAVES
        if self._spend is not None:
            self._spend(sent)
        size = len(wire) - len(framed.head)
        if self._answers.logging_begun:
            self._counters.answered(response.status, sent)
            piece = self._answers.piece(line, response.status, size, sent, request, member)
            self._log((conn.log_peer, piece, tail))
        else:
            conn.began = relay.began
            gone = Gone(response.status, size, sent, member, request.host, relay.asked)
            service.note(conn, head, gone)
        elapsed = trio.current_time() - relay.began
        self._counters.served(kind_of(response), sent, elapsed, elapsed)
        self._counters.hottest.note(url_of(request), 1, sent)
        return STAYS if framed.keep_alive else ENDS

    # --- connections come and go ----------------------------------------------------------

    def _watch(self, conn: Connection) -> None:
        fd = conn.sock.fileno()
        self.idle[fd] = conn
        self._epoll.register(fd, select.EPOLLIN)

    def _accept(self, fd: int) -> None:
        listener = self._listeners.get(fd)
        if listener is None:  # an event of a connection that this batch closed already
            return
        form = self._service.recorder.form
        try:
            for sock, address in accept_ready(listener):
                self._counters.accepted += 1
                peer = peer_name(address)
                number = self._service.epoch.number
                self._welcome(Connection(sock, peer, form.client(peer), number))
        except NoDescriptors:
            self._pause()

    def _welcome(self, conn: Connection) -> None:
        """A new connection: with TCP_DEFER_ACCEPT its request is most often there."""
        try:
            data = conn.recv(READ_SIZE, NOWAIT)
        except BlockingIOError:
            data = None
        except OSError:
            data = b""
        if data == b"":
            conn.close()
        elif self._admission.full(len(self.idle) + len(self._waiting)) and not self._shed():
            turn_away(self._service, conn)
        elif data is None:
            self._watch(conn)
        else:
            outcome = self._answer(conn, data, is_watched=False)
            if outcome is STAYS:
                self._watch(conn)
            elif outcome is ENDS:
                conn.close()

    def _shed(self) -> bool:
        """Close the connections that were idle longest; False where none is idle."""
        victims = heapq.nsmallest(
            max(1, len(self.idle) // 64), self.idle, key=lambda fd: self.idle[fd].active
        )
        gone = self._let_go(victims)
        self._counters.shed += gone
        return gone > 0

    def _let_go(self, fds: Sequence[int]) -> int:
        """Close those who are silent; how many that were.

        A loop that is late has requests that it has not seen: closed with these, a connection is
        reset, and the request lost. Such a one is answered, or closed, with its next event.
        """
        silent = [fd for fd in fds if self.idle[fd].is_silent()]
        for fd in silent:
            self.idle.pop(fd).close()
        return len(silent)

    def _pause(self) -> None:
        """No descriptors left: stop asking for connections, make room, ask again shortly.

        A listener left in the epoll would be ready for ever and spin the loop.
        """
        self._counters.starved += 1
        self._shed()
        if self._paused:
            return
        self._paused = True
        for fd in self._listeners:
            self._epoll.unregister(fd)
        self._service.recorder.errors("warning", "no descriptors left to accept with: backing off")
        self._nursery.start_soon(self._resume)

    async def _resume(self) -> None:
        await trio.sleep(BACK_OFF)
        self._paused = False
        self._listen()

    def _listen(self) -> None:
        for fd in self._listeners:
            # Of several workers that share a socket one is woken, not all (epoll_ctl(2)).
            self._epoll.register(fd, select.EPOLLIN | select.EPOLLEXCLUSIVE)

    def _age(self) -> None:
        """Close what has been idle too long. Runs once an epoch."""
        oldest = self._service.epoch.number - self._service.rules.idle
        self._let_go([fd for fd, conn in self.idle.items() if conn.active < oldest])

    def _close_idle(self) -> None:
        for conn in self.idle.values():
            conn.close()
        self.idle.clear()
