"""The express lane: a request answered a moment ago is answered again without a task.

One epoll holds the listeners and every idle connection. One trio task waits for it and
works off what is ready in batches: receive, look the octets up, send. What cannot be
answered from memory in one go leaves the epoll and becomes a session task, with the
octets read so far; it comes back through `park` when it is idle again. A connection is
thus in the lane or in a task, never in both.

This is a declared exception to how a trio program is written, for what it saves:
7 µs a request instead of 20 in a task (TARGETS in ARCHITECTURE.md). Without this room
edgebox is a correct, slower server, and gives the same answers octet for octet.
"""

from __future__ import annotations

import heapq
import select
import socket
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

import trio

from edgebox.express.memory import Answer, Deciding, Memory
from edgebox.express.recogniser import Recogniser, match_line, strip_cookie
from edgebox.http.faults import Fault
from edgebox.http.message import Request, Response
from edgebox.http.target import parse_target
from edgebox.listen.acceptor import BACK_OFF, NoDescriptors, accept_ready
from edgebox.listen.admission import Admission
from edgebox.listen.connection import Connection, peer_name
from edgebox.send.framing import frame, wants_keep_alive
from edgebox.session.connection import Unsent, finish, serve, turn_away
from edgebox.session.cycle import Service

NOWAIT = socket.MSG_DONTWAIT
READ_SIZE = 16 * 1024
BATCH = 256  # events a poll
ROUNDS = 16  # polls before other tasks get their turn
LINGER = 0.001  # seconds; times ROUNDS, how late a file's change may be heard of
GLANCE = 0.02  # seconds between two looks, while draining, whether anybody is idle still
MOST_DECIDING = 40  # fields, those of Vary included: an upstream may name what it likes
TOGETHER = 64 * 1024  # up to here head and body are kept, and sent, as one piece

# What can change an answer, besides what some Vary names; all else in a head is only logged.
DECIDING = frozenset(
    (
        b"accept-encoding", b"cache-control", b"connection", b"host", b"if-match",
        b"if-modified-since", b"if-none-match", b"if-range", b"if-unmodified-since", b"pragma",
        b"range", b"via",
    )
)  # fmt: skip

STAYS, ENDS, LEAVES = 0, 1, 2  # what becomes of a connection: idle again, closed, in a task


class Lane:
    """Holds idle connections and answers what it remembers."""

    def __init__(
        self,
        service: Service,
        memory: Memory,
        admission: Admission,
        respond_nowait: Callable[[Request], Response | None],
    ) -> None:
        self._service = service
        self._memory = memory
        self._admission = admission
        self._respond_nowait = respond_nowait
        self._deciding = DECIDING
        # One field less than a head may have: a cookie may have been taken out before.
        self._most_fields = service.rules.head.fields - 1
        self._recogniser = Recogniser(DECIDING, self._most_fields)
        self._cookies_are_noise = True
        self._epoll = select.epoll()
        self._listeners: dict[int, socket.socket] = {}
        self.idle: dict[int, Connection] = {}
        self._paused = False
        # Looked up for every request; none of these is ever replaced.
        self._hits = memory.hits
        self._counters = service.counters
        self._requests = service.rules.requests
        self._logging = service.recorder.sink.enabled
        self._log = service.recorder.sink.pieces.extend
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
        try:
            async with trio.open_nursery() as self._nursery:
                self._listen()
                task_status.started()
                poll, admission = self._epoll.poll, self._admission
                while True:
                    await trio.lowlevel.wait_readable(self._epoll.fileno())
                    for _ in range(ROUNDS):
                        # Without sessions nothing else is in a hurry, and waiting a moment
                        # here is cheaper than a turn of trio's (some 50 µs) per batch.
                        ready = poll(0 if admission.tasks else LINGER, BATCH)
                        if not ready:
                            break
                        self._work(ready)
        finally:
            self._close_idle()
            self._epoll.close()

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
        self._call_last(self.idle)

    def _call_last(self, conns: Mapping[int, Connection]) -> None:
        """Counted as one more in hand, until these idle connections are gone."""
        self._admission.start(self._nursery, self._wait_last, dict(conns))

    async def _wait_last(self, conns: dict[int, Connection]) -> None:
        with trio.move_on_after(self._service.rules.drain_idle):
            # Asked now and then: the hot path should not have to tell of each that ends.
            while any(self.idle.get(fd) is conn for fd, conn in conns.items()):  # noqa: ASYNC110
                await trio.sleep(GLANCE)
        for fd, conn in conns.items():
            if self.idle.get(fd) is conn:
                self.idle.pop(fd).close()

    def sees(self, name: bytes) -> bool:
        """Whether requests that the lane makes out have the field `name`; the next ones will."""
        if name in self._deciding:
            return True
        if len(self._deciding) < MOST_DECIDING:
            with suppress(ValueError):  # a field that the lane leaves to the tasks
                recogniser = Recogniser(self._deciding | {name}, self._most_fields)
                self._deciding, self._recogniser = self._deciding | {name}, recogniser
                self._cookies_are_noise = b"cookie" not in self._deciding
                self._memory.forget_heads()
        return False

    def statistics(self) -> dict[str, int]:
        return {"idle": len(self.idle), "tasks": self._admission.tasks} | self._memory.statistics()

    # --- the hot path -----------------------------------------------------------------

    def _work(self, ready: list[tuple[int, int]]) -> None:
        idle, answer = self.idle, self._answer
        for fd, _events in ready:
            conn = idle.get(fd)
            if conn is None:
                self._accept(fd)
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
            else:
                del idle[fd]
            conn.close()

    def _answer(self, conn: Connection, data: bytes) -> int:
        """Answer what was received, from memory or by a task; says what becomes of `conn`."""
        hit = self._hits.get(data) or self._recall(data)
        requests = conn.requests + 1
        if hit is None or requests >= self._requests:
            self._admission.start(self._nursery, serve, self._service, conn, data, self.park)
            return LEAVES
        (wire, size, keep_alive, status, log), tail = hit
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
            unsent = Unsent(data, parts, sent, status, keep_alive)
            self._admission.start(self._nursery, finish, self._service, conn, unsent, self.park)
            return LEAVES
        counters = self._counters
        counters.express += 1
        counters.octets += size
        counters.by_class[status // 100] += 1
        if self._logging:
            self._log((conn.log_peer, log, tail))
        return STAYS if keep_alive else ENDS

    def _recall(self, data: bytes) -> tuple[Answer, bytes] | None:
        """The answer to a head that was not seen in this epoch; None: a task must see to it."""
        line, _, block = data.partition(b"\r\n")
        known = self._memory.heads.get(block)
        again = known is not None
        if known is None:
            known = self._learn(block)
            if known is None:
                return None
        deciding, tail = known
        answer = deciding.answers.get(line) or self._build(line, deciding)
        if answer is None:
            return None
        # Only what may be repeated, and only heads whose block came before: one that never
        # repeats is not kept twice.
        if again and line in deciding.answers:
            self._memory.hit(data, answer, tail)
        return answer, tail

    # --- what is seen for the first time ------------------------------------------------

    def _learn(self, block: bytes) -> tuple[Deciding, bytes] | None:
        """What decides in a block that is not remembered; None: a task must see to it."""
        memory = self._memory
        rest = strip_cookie(block) if self._cookies_are_noise else block
        known = memory.heads.get(rest)
        if known is not None:
            memory.meet(block, known)
            return known
        facts = self._recogniser.match_block(rest)
        if facts is None:
            return None
        tail = self._service.recorder.form.agent(facts.referer, facts.user_agent)
        return memory.learn(rest, facts.fields, facts.host, tail)

    def _build(self, line: bytes, deciding: Deciding) -> Answer | None:
        seen = match_line(line)
        if seen is None or len(seen.target) > self._service.rules.head.target_length:
            return None
        if deciding.host is None and seen.minor == 1:
            return None
        target = parse_target(seen.method, seen.target)
        if isinstance(target, Fault):
            return None
        request = Request(seen.method, target, deciding.host or b"", deciding.headers, seen.minor)
        response = self._respond_nowait(request)
        if response is None:
            return None
        if not isinstance(response.body, bytes):
            response.release()
            return None
        answer = self._render(line, request, response)
        if response.remember:
            self._memory.keep(deciding, line, answer)
        return answer

    def _render(self, line: bytes, request: Request, response: Response) -> Answer:
        service = self._service
        keep_alive = wants_keep_alive(request.minor, request.headers.tokens(b"connection"))
        framed = frame(response, request.method, request.minor, keep_alive, service.epoch.stamp)
        assert isinstance(response.body, bytes)
        body = response.body if framed.body else b""
        size = len(framed.head) + len(body)
        wire = framed.head + body if size <= TOGETHER else (framed.head, body)
        recorder = service.recorder
        log = recorder.form.answer(line, response.status, len(body), recorder.stamp)
        return wire, size, framed.keep_alive, response.status, log

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
        elif self._admission.full(len(self.idle)) and not self._shed():
            turn_away(self._service, conn)
        elif data is None:
            self._watch(conn)
        else:
            outcome = self._answer(conn, data)
            if outcome is STAYS:
                self._watch(conn)
            elif outcome is ENDS:
                conn.close()

    def _shed(self) -> bool:
        """Close the connections that were idle longest; False where none is idle."""
        victims = heapq.nsmallest(
            max(1, len(self.idle) // 64), self.idle.items(), key=lambda item: item[1].active
        )
        for fd, conn in victims:
            del self.idle[fd]
            conn.close()
        self._counters.shed += len(victims)
        return bool(victims)

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
            self._epoll.register(fd, select.EPOLLIN)

    def _age(self) -> None:
        """Close what has been idle too long. Runs once an epoch: 10,000 take half a ms."""
        oldest = self._service.epoch.number - self._service.rules.idle
        stale = [fd for fd, conn in self.idle.items() if conn.active < oldest]
        for fd in stale:
            self.idle.pop(fd).close()

    def _close_idle(self) -> None:
        for conn in self.idle.values():
            conn.close()
        self.idle.clear()
