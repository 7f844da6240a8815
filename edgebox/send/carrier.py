"""Carries files to clients that read them slowly, without a task for each.

A download is a few facts: which file, how far it is, how much may go at once. A task that
waits for its client costs a stack, and a turn of trio's each time that a little was read. So once
the head is out, a transfer stands in an epoll of its own, and every few milliseconds whoever
has room in his socket is pushed on by sendfile, many at a time: that is what makes it cheap.

How much waits in the kernel is the other half of what a client costs: left to itself, TCP
queues all that it may for each. TCP_NOTSENT_LOWAT (tcp(7)) bounds
what waits unsent without bounding what is on its way, so a far client stays as fast as it was.
Who takes a bite every period gets larger ones.

Bandwidth limits are kept by whom is pushed when. Knows nothing of requests. What cannot be done
without waiting (files that are not in the page cache) it leaves to a thread.
"""

from __future__ import annotations

import fcntl
import heapq
import itertools
import select
import socket
import sys
import termios
from collections.abc import Awaitable, Callable
from contextlib import suppress
from os import sendfile

import trio

from edgebox.files.residency import is_resident, load_window
from edgebox.http.message import FileSlice
from edgebox.listen.admission import Admission
from edgebox.listen.connection import Connection
from edgebox.send import bandwidth
from edgebox.send.writer import SendLimits, Sent

LEFT = select.EPOLLERR | select.EPOLLHUP  # by the client: reported whether or not asked for
LONG = 256 * 1024  # octets: no socket's buffer takes a file of this size whole
PERIOD = 0.003  # seconds between two rounds of pushes, for a single transfer
EACH = 0.00005  # and this more for every one: the more there are, the less each is in a hurry,
SLOWEST = 0.008  # up to here: a round costs as much again as some ten of its pushes
HELD_SLOWEST = 0.006  # where the whole is limited: what a round sends at once is a queue
PACED = 0.001  # and this where the whole is limited and small answers have gone in the last
BRISK = 200  # rounds: what is sent at once is a queue that the next one waits in, for long if
BRISK_CATCH_UP = 0.004  # the link is hardly faster than the limit
HELD_CATCH_UP = 0.012  # and so much where nothing small waits behind it
LATE = 2  # times as much as we come late by on average, on a machine that has no time for us
SLICE = 16  # pushes before requests get their turn: each is a call into the kernel
BITE = 18 * 1024  # octets a push: less takes more calls, more is more memory for each socket
HELD_BITE = 32 * 1024  # where the whole is limited: no queue adds to what a client costs, so that
BRISK_BITE = 12 * 1024  # it may have more at a time; and less where small answers go between
LARGEST_BITE = 1024 * 1024
FIRST_BITES = 4 * 1024 * 1024  # octets of all: who is alone need not begin with a small one
LARGEST_FIRST = 256 * 1024
UNSENT = 4  # a fourth of a bite may wait unsent when the next is pushed
HURRY = 1.5  # rounds a bite: who takes it so fast waits for us, and gets twice as much at a
LEISURE = 6  # time; who takes so long for it gets half of it
ROUNDS = 1.5  # so many rounds' octets wait unsent at least, so that no socket runs dry,
ROUNDS_OF_FEW = 6  # and four times that where it would leave a part of the link idle
FEW = 32
TCP_NOTSENT_LOWAT = 25  # linux/tcp.h; socket has no name for it before Python 3.12

# How a transfer went, and how many octets of the file it sent: its connection is given back.
OnEnd = Callable[[Sent, int], None]


class Transfer:
    """A piece of a file on its way to one client, the head being out already."""

    __slots__ = (
        "bite", "budgets", "conn", "deadline", "end", "file", "fitted", "loaded", "offset",
        "on_end", "read", "start", "unsent", "waits", "window",
    )  # fmt: skip

    def __init__(self, conn: Connection, piece: FileSlice, on_end: OnEnd) -> None:
        self.conn = conn
        self.on_end = on_end
        self.file = piece.file.fileno()
        self.start = self.offset = piece.offset
        self.end = piece.offset + piece.length
        self.loaded = self.offset  # up to here the page cache was seen to hold the file
        self.read = self.offset  # up to here the client had it when `deadline` was set
        self.deadline = 0.0
        self.waits = 0  # the number of its wait for a thread that reads, or for a limit
        self.bite = BITE
        self.unsent = 0
        self.window = self.offset  # where the bite was last fitted, and in which round
        self.fitted = 0
        self.budgets: tuple[bandwidth.Budget, ...] = ()


class Carrier:
    """Transfers by descriptor, in an epoll of their own."""

    def __init__(self, limits: SendLimits, admission: Admission) -> None:
        self._epoll = select.epoll()
        self._limits = limits
        self._bandwidth = limits.bandwidth
        self._admission = admission
        self._due = 0.0
        self._late = 0.0  # seconds that a round begins after it was due, on average
        self._round = 0
        self._brisk = 0  # rounds that are yet to be short
        self._pushed = 0  # in this round, if it is not over
        # A heap: when a limit allows the next piece, its descriptor, the number of the wait.
        self._waiting: list[tuple[float, int, int]] = []
        self._waits = itertools.count(1)
        self._rouse: Callable[[], None] = lambda: None
        self.transfers: dict[int, Transfer] = {}
        self.loading = 0

    # --- for who has transfers ------------------------------------------------------------

    def take(self, conn: Connection, piece: FileSlice, on_end: OnEnd) -> None:
        """Own `conn` and its file until `on_end` is called, which gives both back."""
        sock, now = conn.sock, trio.current_time()
        transfer = Transfer(conn, piece, on_end)
        sock.setblocking(False)  # sendfile knows no MSG_DONTWAIT
        transfer.fitted = self._round
        transfer.bite = min(LARGEST_FIRST, max(BITE, FIRST_BITES // (1 + len(self.transfers))))
        transfer.deadline = now + self._limits.window
        transfer.budgets = self._bandwidth.budgets(conn)
        if not self.transfers:
            self._due = max(self._due, now)  # nobody was kept waiting until now
        self.transfers[sock.fileno()] = transfer
        self._epoll.register(sock.fileno(), select.EPOLLOUT)
        self._admission.carry()
        self._rouse()

    def start(self, run: Callable[..., Awaitable[None]], *arguments: object) -> None:
        """Start a task that owns a connection."""
        self._admission.start(self._nursery, run, *arguments)

    # --- for who drives it ----------------------------------------------------------------

    @property
    def period(self) -> float:
        """Seconds between two rounds."""
        if self._brisk:
            return PACED
        slowest = SLOWEST if self._bandwidth.server is None else HELD_SLOWEST
        return min(slowest, PERIOD + EACH * len(self.transfers))

    async def run(
        self,
        rouse: Callable[[], None] | None = None,
        *,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Carry until cancelled.

        `rouse`: is called when a transfer begins by whoever calls `push` himself from then on.
        """
        try:
            async with trio.open_nursery() as self._nursery:
                self._nursery.start_soon(self._age_all)
                if rouse is not None:
                    self._rouse = rouse
                else:
                    self._nursery.start_soon(self._drive)
                task_status.started()
                await trio.sleep_forever()
        finally:
            for fd, transfer in list(self.transfers.items()):
                self._end(fd, transfer, Sent.GONE)
            self._epoll.close()

    async def _drive(self) -> None:
        begun = trio.Event()

        def rouse() -> None:
            begun.set()

        self._rouse = rouse
        while True:
            if not self.transfers:
                begun = trio.Event()
                await begun.wait()
            await trio.sleep(self.push())

    def push(self) -> float:
        """Once a period, send the next bite to each whose socket has room, some at a time.

        To be called again in so many seconds; 0 if there are more, and requests go before them.
        """
        now = trio.current_time()
        if now < self._due:
            return self._due - now
        if not self._pushed:
            self._begin_round(now)
        number = self._push_some(now)
        self._pushed += number
        if number == SLICE and self._pushed < len(self.transfers):
            return 0
        self._pushed = 0
        period = self.period
        self._due = now + period
        return period

    def _begin_round(self, now: float) -> None:
        self._round += 1
        self._late += (now - self._due - self._late) / 8
        if self._bandwidth.passing:
            self._bandwidth.passing, self._brisk = False, BRISK
        elif self._brisk:
            self._brisk -= 1
        while self._waiting and self._waiting[0][0] <= now:
            _, fd, number = heapq.heappop(self._waiting)
            transfer = self.transfers.get(fd)
            if transfer is not None and transfer.waits == number:  # else it has ended
                transfer.waits = 0
                self._epoll.modify(fd, select.EPOLLOUT)

    def _push_some(self, now: float) -> int:
        """Push at most SLICE on, within what the server may send; how many that was."""
        server = self._bandwidth.server
        if server is None:
            ready = self._epoll.poll(0, SLICE)
            self._push_ready(ready, LARGEST_BITE, now)
            return len(ready)
        room = int(server.room(now, catch_up(self._late, self._brisk > 0)))
        if room > 0 and self.transfers:
            # Even parts, but pieces that are worth a call.
            count = len(self.transfers)
            bite = max(min(self._held_bite(), server.piece), room // count)
            ready = self._epoll.poll(0, min(SLICE, 1 + room // bite))
            server.spend(self._push_ready(ready, bite, now))
            return len(ready)
        return 0

    def _push_ready(self, ready: list[tuple[int, int]], most: int, now: float) -> int:
        """Push each on by `most` octets or less; octets sent.

        As short as it can be: 7,000 turns of this loop a second fill a gigabit.
        """
        transfers, total = self.transfers, 0
        for fd, event in ready:
            transfer = transfers[fd]
            offset = transfer.offset
            left = transfer.loaded - offset
            if left <= 0 or event != select.EPOLLOUT or transfer.budgets:
                if not self._may_push(fd, transfer, event, now):
                    continue
                left = transfer.loaded - offset
            size = transfer.bite
            if size > most:
                size = most
            try:
                sent = sendfile(fd, transfer.file, offset, size if size < left else left)
            except BlockingIOError:
                continue
            except OSError:
                self._end(fd, transfer, Sent.GONE)
                continue
            transfer.offset = offset + sent
            total += sent
            if transfer.budgets:
                bandwidth.spend(transfer.budgets, sent)
            if sent == left:
                if transfer.offset == transfer.end:
                    self._end(fd, transfer, Sent.WHOLE)
            elif not sent:
                self._end(fd, transfer, Sent.SHRUNK)
        return total

    def _may_push(self, fd: int, transfer: Transfer, event: int, now: float) -> bool:
        """Whether the next piece may go at once; if not, it is seen to that it will."""
        if event & LEFT:
            self._end(fd, transfer, Sent.GONE)
            return False
        if transfer.budgets:
            due = bandwidth.due(transfer.budgets, now)
            if due > now:
                transfer.waits = next(self._waits)
                self._epoll.modify(fd, 0)  # to be told if the client leaves
                heapq.heappush(self._waiting, (due, fd, transfer.waits))
                return False
        offset = transfer.offset
        if offset < transfer.loaded:
            return True
        self._fit(transfer)
        window = min(self._limits.chunk, transfer.end - offset)
        try:
            if is_resident(transfer.file, offset, window):
                transfer.loaded = offset + window
                return True
        except OSError:  # the disk's fault; the answer must be visibly cut off
            self._end(fd, transfer, Sent.SHRUNK)
            return False
        # Nobody may end it meanwhile: the thread reads from its descriptor.
        transfer.waits = next(self._waits)
        self._epoll.unregister(fd)
        self.loading += 1
        self._nursery.start_soon(self._load, fd, transfer, window)
        return False

    def _fit(self, transfer: Transfer) -> None:
        """Fit the bite to how fast the client took the last window."""
        taken, rounds = transfer.offset - transfer.window, self._round - transfer.fitted
        transfer.window, transfer.fitted = transfer.offset, self._round
        server, bite, each = self._bandwidth.server, transfer.bite, 0
        if taken:
            each = taken // max(1, rounds)  # octets a round
            if each * HURRY >= bite:
                bite = min(LARGEST_BITE, 2 * bite)
            elif each * LEISURE <= bite:
                bite = max(BITE, bite // 2)
        unsent = bite // UNSENT
        if transfer.budgets:
            bite = min(bite, bandwidth.piece(transfer.budgets))
        count = len(self.transfers)
        if server is not None:  # the budget decides how much it gets a round
            each, unsent = int(server.rate * self.period) // count, self._held_bite() // UNSENT
        unsent = max(unsent, int(each * (ROUNDS_OF_FEW if count <= FEW else ROUNDS)))
        transfer.bite = bite
        if unsent != transfer.unsent:
            transfer.unsent = unsent
            _bound_unsent(transfer.conn.sock, unsent)

    async def _load(self, fd: int, transfer: Transfer, window: int) -> None:
        """Read a window into the page cache, then go on."""
        offset = transfer.offset
        try:
            await trio.to_thread.run_sync(
                load_window, transfer.file, offset, window, limiter=self._limits.readers
            )
        except OSError:  # the disk's fault; the answer must be visibly cut off
            self._end(fd, transfer, Sent.SHRUNK)
            return
        finally:
            self.loading -= 1
        transfer.loaded = offset + window
        transfer.waits = 0
        self._epoll.register(fd, select.EPOLLOUT)

    async def _age_all(self) -> None:
        while True:
            await trio.sleep(min(1.0, self._limits.window / 4))
            now = trio.current_time()
            self._age(now)
            self._bandwidth.turn(now)

    def _age(self, now: float) -> None:
        """Cut off who reads below the minimum rate. Once a second: 10,000 take some ms."""
        limits = self._limits
        for fd, transfer in list(self.transfers.items()):
            if now <= transfer.deadline:
                continue
            # What was sent long ago may still be being read, from the socket.
            read, before = transfer.offset - _queued(fd), transfer.read
            transfer.read, transfer.deadline = read, now + limits.window
            # Who waits for us, be it for a disk, a limit or his turn, is not to blame.
            if read - before < max(1, limits.rate * limits.window) and not (
                transfer.waits or _has_room(fd)
            ):
                self._end(fd, transfer, Sent.SLOW)

    def _end(self, fd: int, transfer: Transfer, outcome: Sent) -> None:
        del self.transfers[fd]
        with suppress(FileNotFoundError):
            self._epoll.unregister(fd)
        if outcome is Sent.WHOLE:
            _bound_unsent(transfer.conn.sock, 0)  # small answers go in one piece again
        self._admission.set_down()
        transfer.on_end(outcome, transfer.offset - transfer.start)

    def _held_bite(self) -> int:
        """Octets a push where the whole is limited."""
        return BRISK_BITE if self._brisk else HELD_BITE

    def statistics(self) -> dict[str, int]:
        return {"transfers": len(self.transfers)} | self._bandwidth.statistics()


def catch_up(late: float, brisk: bool) -> float:
    """Seconds of the server's rate that may go at once, for who is late by so many on average.

    Little, since it becomes a queue; but who is often late would send less than he may.
    """
    least = BRISK_CATCH_UP if brisk else HELD_CATCH_UP
    return min(bandwidth.OWED, max(least, LATE * late))


def _bound_unsent(sock: socket.SocketType, octets: int) -> None:
    """Octets that may wait unsent; 0 is the system's own bound."""
    if sock.family != socket.AF_UNIX:
        sock.setsockopt(socket.IPPROTO_TCP, TCP_NOTSENT_LOWAT, octets)


def _queued(fd: int) -> int:
    """Octets in the socket that the client has not acknowledged: tcp(7), SIOCOUTQ."""
    answer = fcntl.ioctl(fd, termios.TIOCOUTQ, bytes(4))
    return int.from_bytes(answer, sys.byteorder)


def _has_room(fd: int) -> bool:
    """Whether the socket takes more at this moment."""
    poll = select.poll()
    poll.register(fd, select.POLLOUT)
    return bool(poll.poll(0))
