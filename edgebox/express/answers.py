"""What the express lane answers with: memory asked from its cheapest level to the dearest.

A head that was not seen in this second is found by its header block, and a block that was
never seen is read by the recogniser; then whoever knows sites is asked for what can be had
without waiting. All else is a task's to see to. Knows no sockets.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from edgebox.express.memory import Answer, Deciding, Memory
from edgebox.express.pending import Begun, Relay
from edgebox.express.recogniser import Recogniser, match_line, strip_cookie
from edgebox.http.faults import Fault
from edgebox.http.message import Request, Response
from edgebox.http.target import parse_target
from edgebox.listen.connection import Connection
from edgebox.observe.access_log import Entry
from edgebox.observe.counters import Tally
from edgebox.observe.hottest import url_of
from edgebox.observe.kinds import kind_of
from edgebox.observe.outcome import member_in
from edgebox.send.framing import frame, wants_keep_alive
from edgebox.session.cycle import Service

MOST_DECIDING = 40  # fields, those of Vary included: an upstream may name what it likes
TOGETHER = 64 * 1024  # up to here head and body are kept, and sent, as one piece

# What can change an answer, besides what some Vary names; all else in a head is only logged.
DECIDING = frozenset(
    (
        b"accept-encoding", b"cache-control", b"cdn-loop", b"connection", b"host", b"if-match",
        b"if-modified-since", b"if-none-match", b"if-range", b"if-unmodified-since", b"pragma",
        b"range", b"via",
    )
)  # fmt: skip


# A request, its header block and the client's address; no block: nobody may be asked who
# would answer later.
RespondNowait = Callable[[Request, bytes, bytes], Response | Relay | None]


class Answers:
    """Finds or makes them.

    `begun`: the request that was last made out and, not being answered here, is on its way to
    somebody who will; to be taken by whoever called `recall`. `logging`: the access log wants
    its pieces, which are kept with answers and blocks, and with `logging_begun` for what was
    `begun`, too; `telling`: it wants to be told of each.
    """

    def __init__(
        self,
        service: Service,
        memory: Memory,
        respond_nowait: RespondNowait,
    ) -> None:
        self._service = service
        self._memory = memory
        self._respond_nowait = respond_nowait
        self._deciding = DECIDING
        # One field less than a head may have: a cookie may have been taken out before.
        self._most_fields = service.rules.head.fields - 1
        self._recogniser = Recogniser(DECIDING, self._most_fields)
        self._cookies_are_noise = True
        self.begun: Begun | None = None
        self.logging = self.logging_begun = self.telling = False
        self._follow_log()
        service.recorder.on_change(self._follow_log)

    def recall(self, data: bytes, peer: bytes | None) -> tuple[Answer, bytes] | None:
        """The answer to a head that was not seen in this epoch; None: it takes longer.

        Then a task must see to it, if it is not `begun`: where `peer` is given, the client's
        address, somebody may have been asked who answers later.
        """
        if len(data) > self._service.rules.head.size:
            return None
        line, _, block = data.partition(b"\r\n")
        known = self._memory.heads.get(block)
        again = known is not None
        if known is None:
            known = self._learn(block)
            if known is None:
                return None
        deciding, tail = known
        answer = deciding.answers.get(line) or self._build(line, known, block, peer)
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
        tail = b""
        if self.logging:
            tail = self._service.recorder.form.agent(facts.referer, facts.user_agent, rest)
        return memory.learn(rest, facts.fields, facts.host, tail)

    def _build(
        self, line: bytes, known: tuple[Deciding, bytes], block: bytes, peer: bytes | None
    ) -> Answer | None:
        deciding, tail = known
        seen = match_line(line)
        if seen is None or len(seen.target) > self._service.rules.head.target_length:
            return None
        if deciding.host is None and seen.minor == 1:
            return None
        target = parse_target(seen.method, seen.target)
        if isinstance(target, Fault):
            return None
        request = Request(seen.method, target, deciding.host or b"", deciding.headers, seen.minor)
        if peer is None or seen.method != b"GET" or not seen.minor:
            block = b""
        response = self._respond_nowait(request, block, peer or b"")
        if not isinstance(response, Response):
            if response is not None:
                self.begun = Begun(response, request, line, tail)
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
        log, member = b"", member_in(response.fields)
        if self.logging:
            log = self.piece(line, response.status, len(body), size, request, member)
        tally = Tally(kind_of(response), url_of(request), response.status, size)
        service.counters.open_tally(tally)
        return wire, size, framed.keep_alive, response.status, log, member, tally

    def piece(
        self, line: bytes, status: int, size: int, octets: int, request: Request, member: bytes
    ) -> bytes:
        """The access log's piece of an answer: `octets` in all, `size` of them body."""
        recorder = self._service.recorder
        entry = Entry(
            line=line, status=status, size=size, octets=octets, host=request.host, member=member
        )
        return recorder.form.answer(entry, recorder.stamp)

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

    def tell(self, conn: Connection, head: bytes, answer: Answer) -> None:
        """Log an answer that was sent, where the log is not in pieces."""
        wire, size, _, status, _, member, _ = answer
        line, _, block = head.partition(b"\r\n")
        before = len(wire[0]) if isinstance(wire, tuple) else wire.index(b"\r\n\r\n") + 4
        self._service.recorder.record(
            Entry(
                line=line, status=status, size=size - before, octets=size, block=block,
                peer=conn.peer, member=member, requests=conn.requests,
            )
        )  # fmt: skip

    def _follow_log(self) -> None:
        """How answers are logged has changed: what is remembered has other pieces, or none."""
        recorder = self._service.recorder
        self.logging, self.telling = recorder.in_pieces, recorder.wants_entries
        self.logging_begun = self.logging and not recorder.form.tells_asking
        self._memory.forget_heads()
