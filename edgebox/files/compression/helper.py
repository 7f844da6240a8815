"""The process that compresses: `python -m edgebox.files.compression.helper DIRECTORY LIMIT br=9 …`.

Takes one job a line from standard input and answers each with a report on standard output,
after one report on the directory itself. It gives way to everyone in processor and disk
time, and may be killed at any instant: what it makes gets its name last. Imports neither
trio nor click, so that it starts fast and stays small.

It dies with its parent because it sees the pipe hang up, between jobs and between pieces
of a file. PR_SET_PDEATHSIG would not do: it fires when the *thread* that forked ends
(prctl(2)), and trio forks in a worker thread that ends after ten idle seconds.
"""

from __future__ import annotations

import ctypes
import os
import platform
import pwd
import select
import sys
from collections.abc import Callable
from contextlib import suppress

from edgebox.files.compression.builder import Builder
from edgebox.files.compression.jobs import (
    Outcome,
    Report,
    outcome_of,
    read_job,
    read_settings,
    write_line,
)

# ioprio_set(2) has no wrapper in libc or os; its number differs by architecture.
IOPRIO_SET = {"x86_64": 251, "aarch64": 30, "riscv64": 30, "ppc64le": 273, "s390x": 282}
IOPRIO_WHO_PROCESS = 1
IOPRIO_IDLE = 3 << 13


class Abandoned(Exception):
    """Nobody holds the other end of standard input any more."""


def give_way() -> None:
    """Nice 19 and, where the kernel has it, idle I/O; both are only manners."""
    with suppress(OSError):
        os.nice(19)
    if (number := IOPRIO_SET.get(platform.machine())) is not None:
        # -1 and errno where a sandbox forbids it: then nice alone must do.
        ctypes.CDLL(None).syscall(number, IOPRIO_WHO_PROCESS, 0, IOPRIO_IDLE)


def become_owner(directory: bytes) -> None:
    """As root, become whoever owns the directory, if it is there.

    `sudo edgebox precompress` thus leaves nothing that the server cannot renew, and root
    never writes where another user could plant symlinks. OSError if root may not change.
    """
    if os.geteuid() != 0:
        return
    try:
        facts = os.stat(directory)
    except FileNotFoundError:
        return
    if facts.st_uid == 0:
        return
    try:
        groups = os.getgrouplist(pwd.getpwuid(facts.st_uid).pw_name, facts.st_gid)
    except KeyError:
        groups = [facts.st_gid]
    os.setgroups(groups)
    os.setresgid(facts.st_gid, facts.st_gid, facts.st_gid)
    os.setresuid(facts.st_uid, facts.st_uid, facts.st_uid)


def watch_hangup(fd: int) -> Callable[[float], None]:
    """A `breathe` that sleeps, and raises Abandoned as soon as the writers of `fd` are gone."""
    poll = select.poll()
    poll.register(fd, 0)  # only POLLHUP and POLLERR: unread jobs do not wake it

    def breathe(seconds: float) -> None:
        if poll.poll(seconds * 1000):
            raise Abandoned

    return breathe


def main(arguments: list[str]) -> int:
    settings = read_settings([os.fsencode(argument) for argument in arguments])
    give_way()
    builder = Builder(settings, watch_hangup(sys.stdin.fileno()))
    try:
        become_owner(settings.directory)
        builder.prepare()
    except OSError as error:
        send(Report(outcome=outcome_of(error), text=str(error)))
        return 1
    try:
        send(Report(outcome=Outcome.READY))
        for line in sys.stdin.buffer:
            send(builder.build(read_job(line)))
    except (Abandoned, BrokenPipeError):
        pass
    return 0


def send(message: Report) -> None:
    # Not through sys.stdout's buffer, which would be flushed again at exit into a broken pipe.
    os.write(sys.stdout.fileno(), write_line(message))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
