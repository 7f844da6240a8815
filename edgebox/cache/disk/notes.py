"""What workers tell the housekeeper: datagrams that nobody waits for and that may get lost.

A note speaks of names, not of contents: the housekeeper looks for itself. Names are gathered
and sent together, since a socket queues ten datagrams only (net.unix.max_dgram_qlen), and kept
where nobody takes them. What is lost all the same is made up for by the housekeeper's rounds.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from enum import Enum
from typing import NamedTuple

from edgebox.cache.disk.layout import NOTES

NAME = 16
NAMES = 512  # in one datagram
ENOUGH = 128  # new names that are sent at once
HELD = 64 * 1024  # names of a kind that are held; more are dropped
_LONGEST = 1 + NAME * NAMES


class Kind(Enum):
    LOOK = b"l"  # something has changed at these names
    USED = b"u"  # these names were used
    ROOM = b"r"  # so many octets were wanted and not there; a number for a name
    FULL = b"f"  # the disk is full, whatever the limit
    PURGED = b"p"  # there is a purge to be carried out


class Note(NamedTuple):
    kind: Kind
    names: tuple[bytes, ...] = ()

    @property
    def size(self) -> int:
        return int.from_bytes(self.names[0], "little") if self.names else 0


class NoteSender:
    """`dropped` counts names that were too many to be held. May be used by any thread."""

    def __init__(self, directory: int) -> None:
        """To whoever listens in the directory that is open as `directory`."""
        # Through /proc, since the path of a socket may have 107 octets only.
        self._address = b"/proc/self/fd/%d/%s" % (directory, NOTES)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        self._lock = threading.Lock()
        self._held: dict[Kind, dict[bytes, None]] = {Kind.LOOK: {}, Kind.USED: {}}
        self._urgent: dict[Kind, int] = {}
        self.dropped = 0

    def look(self, name: bytes) -> None:
        """Something has changed there. Told soon, at the next `flush` at the latest."""
        self._hold(Kind.LOOK, name)
        if len(self._held[Kind.LOOK]) % ENOUGH == 0:
            self.flush()

    def use(self, name: bytes) -> None:
        self._hold(Kind.USED, name)

    def tell(self, kind: Kind, size: int = 0) -> None:
        """Something that need not wait for the next flush. Of several sizes the largest counts."""
        with self._lock:
            self._urgent[kind] = max(size, self._urgent.get(kind, 0))
            self._send_urgent()

    def flush(self) -> None:
        """Send what is held, as far as it is taken."""
        with self._lock:
            self._send_urgent()
            for kind, held in self._held.items():
                while held:
                    names = list(held)[:NAMES]
                    if not self._send(kind, b"".join(names)):
                        break
                    for name in names:
                        del held[name]

    def close(self) -> None:
        self._socket.close()

    def _hold(self, kind: Kind, name: bytes) -> None:
        with self._lock:
            held = self._held[kind]
            if len(held) < HELD:
                held[name] = None
            else:
                self.dropped += 1

    def _send_urgent(self) -> None:
        for kind, size in list(self._urgent.items()):
            if self._send(kind, size.to_bytes(NAME, "little") if size else b""):
                del self._urgent[kind]

    def _send(self, kind: Kind, octets: bytes) -> bool:
        try:
            self._socket.sendto(kind.value + octets, self._address)
        except OSError:
            return False
        return True


class NoteReceiver:
    """The socket in the directory that is open as `directory`; takes the place of an older one."""

    def __init__(self, directory: int) -> None:
        with suppress(FileNotFoundError):
            os.unlink(NOTES, dir_fd=directory)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        self._socket.bind(b"/proc/self/fd/%d/%s" % (directory, NOTES))
        os.chmod(NOTES, 0o600, dir_fd=directory)

    def fileno(self) -> int:
        return self._socket.fileno()

    def receive(self, most: int) -> Iterator[Note]:
        """The notes that are there, `most` at most."""
        for _ in range(most):
            try:
                octets = self._socket.recv(_LONGEST)
            except BlockingIOError:
                return
            with suppress(ValueError):  # of another version, or of nobody we know
                kind = Kind(octets[:1])
                names = (octets[i : i + NAME] for i in range(1, len(octets), NAME))
                yield Note(kind, tuple(name for name in names if len(name) == NAME))

    def close(self) -> None:
        self._socket.close()
