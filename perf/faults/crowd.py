"""Clients that ask, pause and ask again on kept connections, and check every octet they get.

One thread with one epoll for all of them, so that a crowd of hundreds takes little of the
processor that the server is on. A client behaves: it opens another connection after
"Connection: close", and one that is closed while nothing was asked on it is no loss.
"""

from __future__ import annotations

import errno
import heapq
import itertools
import random
import selectors
import socket
import threading
import time
from dataclasses import dataclass, field

from perf.faults.answer import Garbage, Target, Verdict, judge, read, request
from perf.faults.tally import Mishap, Tally

PATIENCE = 90.0  # seconds for one answer; beyond, it is lost
TURN = 0.25  # seconds between two looks for who waits too long
AGAIN = 0.05  # after a refused connection


@dataclass(eq=False)
class _Client:
    sock: socket.socket | None = None
    port: int = 0
    target: Target | None = None  # None: nothing is asked for
    connected: bool = False
    asked_at: float = 0.0
    answered_at: float = 0.0  # the answer before; 0: this is the connection's first request
    octets: bytearray = field(default_factory=bytearray)


class Crowd:
    """`clients` at work on `targets`, which may grow meanwhile, until the block ends.

    Each pauses for `pause` seconds on average; after an answer it leaves for another connection
    with the probability `turnover`. `coding`: what half of the requests accept.
    """

    def __init__(
        self,
        port: int,
        targets: list[Target],
        clients: int,
        pause: float,
        turnover: float = 0.0,
        coding: str = "gzip",
    ) -> None:
        self._port = port
        self.targets = targets
        self._pause = pause
        self._turnover = turnover
        self._coding = coding
        self._random = random.Random(1)
        self._selector = selectors.EpollSelector()
        self._clients = [_Client() for _ in range(clients)]
        self._order = itertools.count()
        self._due: list[tuple[float, int, _Client]] = []
        self._over = threading.Event()
        self.tally = Tally()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Crowd:
        now = time.monotonic()
        for client in self._clients:
            self._plan(client, now + self._random.random() * self._pause)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        self._selector.close()

    def ports(self) -> frozenset[int]:
        """The clients' ends of all connections, as of now."""
        return frozenset(client.port for client in self._clients if client.sock is not None)

    def _plan(self, client: _Client, at: float) -> None:
        heapq.heappush(self._due, (at, next(self._order), client))

    def _run(self) -> None:
        looked_at = time.monotonic()
        ending = 0.0
        while True:
            now = time.monotonic()
            if self._over.is_set():
                ending = ending or now + PATIENCE
                if not any(client.target for client in self._clients):
                    break
            while not ending and self._due and self._due[0][0] <= now:
                self._ask(heapq.heappop(self._due)[2], now)
            wait = min(TURN, self._due[0][0] - now) if self._due and not ending else 0.02
            for key, _ in self._selector.select(max(0.0, wait)):
                self._step(key.data)
            if now - looked_at > TURN:
                looked_at = now
                for client in self._clients:
                    if client.target and now - client.asked_at > PATIENCE:
                        self._lose(client, f"no answer within {PATIENCE:.0f} s")
        for client in self._clients:
            self._close(client)

    def _ask(self, client: _Client, now: float) -> None:
        client.target, client.asked_at = self._random.choice(self.targets), now
        if client.sock is not None and _has_ended(client.sock):
            self._close(client)  # as any client looks before it uses a connection again
        if client.sock is not None:
            self._send(client)
            return
        sock = socket.socket()
        sock.setblocking(False)
        client.sock, client.connected = sock, False
        problem = sock.connect_ex(("127.0.0.1", self._port))
        if problem not in (0, errno.EINPROGRESS):
            sock.close()
            client.sock = None
            self._refuse(client, now)
            return
        client.port = sock.getsockname()[1]
        self._selector.register(sock, selectors.EVENT_WRITE, client)

    def _step(self, client: _Client) -> None:
        if client.sock is None:
            return  # closed by an earlier event of this turn
        if not client.connected:
            if client.sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
                self._close(client)
                self._refuse(client, time.monotonic())
                return
            client.connected = True
            self._selector.modify(client.sock, selectors.EVENT_READ, client)
            self._send(client)
            return
        try:
            piece = client.sock.recv(1 << 20)
        except BlockingIOError:
            return
        except OSError as problem:
            self._ended(client, problem.strerror or str(problem))
            return
        if not piece:
            self._ended(client, "closed")
            return
        client.octets += piece
        self._hear(client)

    def _send(self, client: _Client) -> None:
        assert client.sock is not None
        assert client.target is not None
        coding = self._coding if self._random.random() < 0.5 else ""
        self.tally.sent += 1
        try:
            client.sock.sendall(request(client.target, coding))
        except OSError as problem:
            self._lose(client, problem.strerror or str(problem))

    def _hear(self, client: _Client) -> None:
        if client.target is None:
            self._note_wrong(client, "octets that nobody asked for")
            self._close(client)
            return
        try:
            found = read(client.octets)
        except Garbage as problem:
            self._note_wrong(client, str(problem))
            self._close(client)
            self._rest(client, keep=False)
            return
        if found is None:
            return
        answer, length = found
        verdict, why = judge(answer, client.target)
        if verdict is Verdict.RIGHT:
            self.tally.right += 1
        elif verdict is Verdict.NAMED:
            self.tally.named[answer.status] += 1
        else:
            self._note_wrong(client, why)
        client.answered_at = time.monotonic()
        self.tally.answers.append((client.asked_at, client.answered_at - client.asked_at))
        del client.octets[:length]
        keep = answer.keep and self._random.random() >= self._turnover
        self._rest(client, keep)

    def _rest(self, client: _Client, keep: bool) -> None:
        """Nothing is asked for until the pause is over."""
        client.target = None
        if not keep:
            self._close(client)
        self._plan(client, time.monotonic() + self._pause * 2 * self._random.random())

    def _ended(self, client: _Client, why: str) -> None:
        if client.target is None:
            self._close(client)
        else:
            octets = len(client.octets)
            self._lose(client, f"{why} after {octets:,} octets" if octets else why)

    def _lose(self, client: _Client, why: str) -> None:
        assert client.target is not None
        now = time.monotonic()
        first = "first of its connection"
        if client.answered_at:
            first = f"{client.asked_at - client.answered_at:.2f} s after the answer before"
        why = f"{why}, {now - client.asked_at:.2f} s after it was sent, {first}"
        is_first = not client.answered_at
        self.tally.lost.append(Mishap(now, client.port, client.target.path, why, is_first))
        self._rest(client, keep=False)

    def _note_wrong(self, client: _Client, why: str) -> None:
        path = client.target.path if client.target is not None else ""
        self.tally.wrong.append(Mishap(time.monotonic(), client.port, path, why))

    def _refuse(self, client: _Client, now: float) -> None:
        self.tally.refused += 1
        client.target = None
        self._plan(client, now + AGAIN)

    def _close(self, client: _Client) -> None:
        if client.sock is not None:
            self._selector.unregister(client.sock)
            client.sock.close()
        client.sock, client.octets, client.answered_at = None, bytearray(), 0.0


def _has_ended(sock: socket.socket) -> bool:
    """Whether the other side has closed, or worse."""
    try:
        return not sock.recv(1, socket.MSG_PEEK)
    except BlockingIOError:
        return False
    except OSError:
        return True
