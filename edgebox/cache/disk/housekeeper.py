"""The process that keeps house: `python -m edgebox.cache.disk.housekeeper DIRECTORY LIMIT`.

One for each cache directory, whoever starts it first: a lock tells. It looks at what workers
send notes about, evicts the longest unused before the room runs out, carries out purges, goes
through all directories now and then, and reads bodies that may be damaged. It may be killed at
any instant; until the next one comes, everything is found as before and what is stored is
limited by the room there is. Imports neither trio nor click.
"""

from __future__ import annotations

import os
import sqlite3
import sys
import time
from collections.abc import Iterable
from contextlib import ExitStack, suppress

from edgebox.cache.disk.caretaker import Caretaker
from edgebox.cache.disk.index import is_damaged
from edgebox.cache.disk.layout import LOCK
from edgebox.cache.disk.lock import try_lock
from edgebox.cache.disk.manners import Abandoned, Ears, give_way
from edgebox.cache.disk.notes import Kind, Note, NoteReceiver
from edgebox.cache.disk.outcome import Busy
from edgebox.cache.disk.reports import Report, write_line
from edgebox.cache.disk.ring import RECORDS

TAKEN = 3  # exit status: another one is at work here
LOOKS = 128 * 1024  # names to look at; beyond, a survey finds them
IDLE = 1.0  # seconds between glances at the room and the purges
COMMIT = 1.0
SURVEY_EVERY = 3600.0
PURGE_SURVEY_EVERY = 30.0
CHECK_EVERY = 24 * 3600.0
CHECK_FIRST = 600.0
CHECK_RATE = 16 * 1024 * 1024  # octets a second of bodies nobody asked about
TROUBLE = 5.0  # seconds until a failed job is tried again
REPORT = 1.0
COUNTED_OFTEN = 50_000  # keys; counting more takes milliseconds


class Housekeeper:
    """Decides what is to be done next."""

    def __init__(self, directory: bytes, limit: int, receiver: NoteReceiver, ears: Ears) -> None:
        self._limit = limit
        self._headroom = limit // 20
        self._receiver = receiver
        self._ears = ears
        self._care = Caretaker(directory, limit, self._breathe)
        self._looks: dict[bytes, None] = {}
        self._used: set[bytes] = set()
        self._wanted = 0
        self._full = False
        now = time.monotonic()
        self._survey_at = now
        self._surveyed_at = -PURGE_SURVEY_EVERY
        self._survey_took = 0.0
        self._surveys = 0
        self._surveying = False
        self._check_at = now + CHECK_FIRST
        self._check_after: int | None = None  # number of the row that was checked last
        self._trouble = ""  # what was told of last, until all went well again
        self._reported: Report | None = None
        self._report_at = self._commit_at = 0.0
        self._keys = 0

    def run(self) -> None:
        """Until nobody holds the other end of standard input, or the directory was emptied."""
        self._care.sweep()
        while not self._care.lost:
            try:
                self._breathe()
                busy = self._work()
                self._commit()
                self._ears.wait(0 if busy else IDLE)
            except sqlite3.Error as error:
                self._care.index.rollback()
                if is_damaged(error):
                    self._report(f"the index of the disk cache is made anew: {error}")
                    self._care.index.renew()
                    self._survey_at = time.monotonic()
                else:
                    self._suffer(error)
            except (OSError, Busy) as error:
                self._suffer(error)

    def _work(self) -> bool:
        """Do one job; False if there is none."""
        now = time.monotonic()
        care = self._care
        care.conclude_purges()
        if self._looks:
            for name in list(self._looks)[:256]:
                del self._looks[name]
                care.look(name, int(time.time()))
            return True
        if care.purges_wait:
            care.carry_out()
            self._survey_at = min(self._survey_at, self._surveyed_at + self._purge_survey_after())
            return True
        if now >= self._survey_at:
            self._survey(now)
            return True
        if care.to_check:
            care.check(care.to_check.popleft())
            return True
        return now >= self._check_at and self._check_next(now)

    def _purge_survey_after(self) -> float:
        """Purges that come close together are finished together, unless they get too many."""
        if len(self._care.purges.pending()) > RECORDS // 4:
            return 0.0
        return max(PURGE_SURVEY_EVERY, 4 * self._survey_took)

    def _survey(self, now: float) -> None:
        # Purges up to here are known to every writer that a directory's lock lets in after us.
        number = min(max(self._care.purges.pending(), default=0), self._care.carried)
        self._survey_at = now + TROUBLE  # should it fail
        self._surveying = True
        try:
            self._care.survey()
        finally:
            self._surveying = False
        if number:
            self._care.finish_purges(number)
        self._care.sweep()
        self._surveys += 1
        self._surveyed_at = time.monotonic()
        self._survey_took = self._surveyed_at - now
        self._survey_at = self._surveyed_at + SURVEY_EVERY
        self._keys = self._care.index.count()
        self._trouble = ""
        self._report_at = 0.0

    def _check_next(self, now: float) -> bool:
        """One step of the round in which every body is read once."""
        rows = self._care.index.page(self._check_after or 0, 1)
        if not rows:
            self._check_after = None
            self._check_at = now + CHECK_EVERY
            return False
        self._check_after, name = rows[0]
        self._check_at = now + self._care.check(name) / CHECK_RATE
        return True

    def _breathe(self) -> None:
        """Between steps: hear what there is to hear, keep the room, go on or end."""
        self._ears.wait(0)
        for note in self._receiver.receive(64):
            self._take(note)
        if self._used:
            self._care.index.use(self._used, int(time.time()))
            self._used.clear()
        self._keep_room()
        if time.monotonic() >= self._report_at:
            if self._keys < COUNTED_OFTEN:
                self._keys = self._care.index.count()
            self._report()
            self._commit()

    def _take(self, note: Note) -> None:
        match note.kind:
            case Kind.LOOK:
                self._looks.update(dict.fromkeys(note.names))
                if len(self._looks) > LOOKS:
                    self._looks.clear()
                    self._survey_at = time.monotonic()
            case Kind.USED:
                self._used.update(note.names)
            case Kind.ROOM:
                self._wanted = max(self._wanted, min(note.size, self._limit // 2))
            case Kind.FULL:
                self._full = True
            case Kind.PURGED:
                pass  # it has woken us

    def _keep_room(self) -> None:
        taken = sum(self._care.space.taken())
        most = self._limit - self._headroom
        if self._full:
            target = taken * 9 // 10
        elif self._wanted:
            target = min(most, self._limit - self._wanted - self._headroom // 2)
        elif taken > most:
            target = most - self._headroom
        else:
            return
        self._full, self._wanted = False, 0
        if not self._care.make_room(target):
            # What takes the room is not in the index.
            self._survey_at = min(self._survey_at, time.monotonic() + TROUBLE)

    def _commit(self) -> None:
        now = time.monotonic()
        if now >= self._commit_at:
            self._care.index.commit()
            self._commit_at = now + COMMIT

    def _suffer(self, error: Exception) -> None:
        """The disk is full, read-only or broken, or somebody holds a lock: in a while, again."""
        text = f"disk cache housekeeping: {error or type(error).__name__}"
        if text != self._trouble:
            self._trouble = text
            self._report(text)
        self._care.index.rollback()
        deadline = time.monotonic() + TROUBLE
        while (left := deadline - time.monotonic()) > 0:
            self._ears.wait(min(left, IDLE))
            for _ in self._receiver.receive(64):
                pass  # the next survey makes up for it
        self._survey_at = min(self._survey_at, time.monotonic() + TROUBLE)

    def _report(self, text: str = "") -> None:
        care = self._care
        self._report_at = time.monotonic() + REPORT
        report = Report(
            text=text,
            keys=self._keys,
            surveys=self._surveys,
            surveying=self._surveying,
            looked=care.looked,
            evicted=care.evicted,
            purges=len(care.purges.pending()),
            purged=care.purged,
            checked=care.checked,
            damaged=care.damaged,
            orphans=care.orphans,
            memory=_resident(),
        )
        if report != self._reported:
            self._reported = report
            with suppress(OSError):  # the pipe is full, or nobody is there any more
                os.write(sys.stdout.fileno(), write_line(report))


def _resident() -> int:
    """Octets (proc(5), statm). ru_maxrss would be that of the process that forked us."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")


def main(arguments: Iterable[str]) -> int:
    directory, limit = arguments
    give_way()
    os.set_blocking(sys.stdout.fileno(), False)
    try:
        with ExitStack() as stack:
            return _serve(os.fsencode(directory), int(limit), stack)
    except Abandoned:
        return 0
    except (OSError, Busy, sqlite3.Error) as error:
        with suppress(OSError):
            os.write(sys.stdout.fileno(), write_line(Report(text=f"disk cache: {error}")))
        return 1


def _serve(directory: bytes, limit: int, stack: ExitStack) -> int:
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    stack.callback(os.close, fd)
    lock = os.open(LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=fd)
    stack.callback(os.close, lock)
    if not try_lock(lock):
        return TAKEN
    receiver = NoteReceiver(fd)
    ears = Ears(receiver.fileno(), sys.stdin.fileno())
    Housekeeper(directory, limit, receiver, ears).run()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
