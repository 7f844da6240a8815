"""Makes one variant: opens the source, codes it, and gives the result its name.

The source is opened under the site's own symlink policy and must be, before and after it
was read, exactly the file that the job speaks of; a file that changes meanwhile gives no
variant. Every failure comes back as a Report. Runs in the helper's process: it blocks,
and knows no trio and no pipes; `breathe` is where its process may stop or sleep.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Iterator
from zlib import crc32

from edgebox.files import seal
from edgebox.files.compression.coders import open_coder
from edgebox.files.compression.jobs import Job, Outcome, Report, Settings, outcome_of
from edgebox.files.compression.newfile import (
    NewFile,
    can_be_unnamed,
    open_new,
    remove_leftovers,
)
from edgebox.files.compression.sweep import Room, TooLargeForRoom
from edgebox.files.compression.variants import Kept, judge, settled_at, variant_name
from edgebox.files.entry import Identity, Missing
from edgebox.files.opener import Opened, open_file

PIECE = 128 * 1024
LONGEST_SETTLING = 2.0  # seconds; a ctime further ahead comes from a clock set back
FANOUT = 256

# Called between pieces with seconds to sleep (0: just look whether to go on).
Breathe = Callable[[float], None]


class SourceError(Exception):
    """The source gave an error while it was read; the cache directory is not to blame."""


class SourceShrank(Exception):
    """The source ended early: someone is writing it."""


class Builder:
    """Makes variants in one directory.

    `prepare()` must have succeeded before `build()`.
    """

    def __init__(self, settings: Settings, breathe: Breathe) -> None:
        self._directory = settings.directory
        self._room = Room(settings.directory, settings.limit)
        self._levels = settings.levels
        self._breathe = breathe
        self._unnamed = True

    def prepare(self) -> None:
        """Make the directory usable, remove what a kill left, sweep. OSError if it cannot be.

        All sub-directories are made at once, so that the file store can watch each from the
        first look on and learns of a new variant by inotify.
        """
        self._make_directories()
        self._unnamed = can_be_unnamed(self._directory)
        remove_leftovers(self._directory)
        self._room.recount()

    def build(self, job: Job) -> Report:
        """Make the variant, or a marker, or neither and say why."""
        try:
            return self._build(job)
        except TooLargeForRoom:
            return Report(outcome=Outcome.NO_ROOM, before=job.identity.size)
        except SourceShrank:
            return Report(outcome=Outcome.CHANGED)
        except SourceError as error:
            return Report(outcome=Outcome.SOURCE, text=str(error.__cause__))
        except OSError as error:
            outcome = outcome_of(error)
            swept = self._give_back() if outcome is Outcome.DISK_FULL else 0
            return Report(outcome=outcome, swept=swept, text=str(error))

    def _build(self, job: Job) -> Report:
        name = variant_name(job.identity, job.coding)
        target = os.path.join(self._directory, name)
        before = job.identity.size
        if (there := _size_of(target, name)) is not None:
            return Report(outcome=Outcome.THERE, before=before, after=there)
        opened = open_file(job.docroot, job.path, nowait=False)
        if not isinstance(opened, Opened):
            text = opened.name if isinstance(opened, Missing) else "not a file"
            return Report(outcome=Outcome.SOURCE, text=text)
        source = opened.fd
        try:
            if Identity.of(opened.status) != job.identity:
                return Report(outcome=Outcome.CHANGED)
            self._wait_settled(job.identity)
            with open_new(self._directory, unnamed=self._unnamed) as file:
                after = self._code(job, source, file, name)
                if _identity_of(source) != job.identity:
                    return Report(outcome=Outcome.CHANGED)
                kept = judge(before, after)
                if kept is Kept.MARKER:
                    os.ftruncate(file.fd, 0)
                    after = 0
                os.fchmod(file.fd, 0o644 if os.fstat(source).st_mode & stat.S_IROTH else 0o600)
                swept = self._publish(file, target, os.fstat(file.fd).st_size)
        finally:
            os.close(source)
        outcome = Outcome.KEPT if kept is Kept.VARIANT else Outcome.NOT_SMALLER
        return Report(outcome=outcome, before=before, after=after, swept=swept)

    def _code(self, job: Job, source: int, file: NewFile, name: bytes) -> int:
        """Write the coded body and its seal; returns the body's length.

        A body as long as its source is given up, and some length not below that returned:
        it must not fill the disk either.
        """
        after, checksum = 0, seal.begin(name)
        for piece in self._coded_pieces(job, source):
            after += len(piece)
            if after >= job.identity.size:
                break
            file.write(piece)
            checksum = crc32(piece, checksum)
        file.write(seal.seal(checksum))
        return after

    def _coded_pieces(self, job: Job, source: int) -> Iterator[bytes]:
        size = job.identity.size
        coder = open_coder(job.coding, self._levels[job.coding], size)
        done = 0
        while done < size:
            self._breathe(0)
            try:
                piece = os.pread(source, min(PIECE, size - done), done)
            except OSError as error:
                raise SourceError from error
            if not piece:
                raise SourceShrank
            done += len(piece)
            yield coder.process(piece)
        yield coder.finish()

    def _publish(self, file: NewFile, target: bytes, size: int) -> int:
        """Name the file within the room there is; returns how many others had to go."""
        file.sync()  # before the lock is held: other helpers need not wait for our disk
        try:
            with self._room.admit(size) as swept:
                file.publish(target)
                return swept
        except FileExistsError:  # another helper made the same meanwhile
            return 0
        except FileNotFoundError:  # someone emptied the directory: legitimate, so make it anew
            self._make_directories()
            with self._room.admit(size) as swept:
                file.publish(target)
                return swept

    def _wait_settled(self, identity: Identity) -> None:
        remaining = (settled_at(identity) - time.time_ns()) / 1_000_000_000
        if remaining > 0:
            self._breathe(min(remaining, LONGEST_SETTLING))

    def _make_directories(self) -> None:
        for number in range(FANOUT):
            os.makedirs(os.path.join(self._directory, b"%02x" % number), exist_ok=True)

    def _give_back(self) -> int:
        try:
            return self._room.shrink()
        except OSError:
            return 0  # so full that not even the sum's file can be made


def _identity_of(fd: int) -> Identity:
    return Identity.of(os.fstat(fd))


def _size_of(path: bytes, name: bytes) -> int | None:
    """Octets of the body that is there; None where there is none. A damaged one goes."""
    try:
        with open(path, "rb", opener=_open_plain) as file:
            octets = file.read()
    except FileNotFoundError:
        return None
    except OSError:  # a symbolic link, a directory, or a part of the disk that is gone
        octets = b"-"
    body = seal.maybe_open(name, octets) if octets else b""
    if body is None:
        os.unlink(path)
        return None
    return len(body)


def _open_plain(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK)
