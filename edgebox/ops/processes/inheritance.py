"""What this supervisor found when it was started: sockets of systemd, or all that its
predecessor has, which goes on in its place if it can (SIGUSR2).

systemd tells of its sockets as sd_listen_fds(3) says; a predecessor by one variable of JSON.
Both are of no concern to whoever is started later, and are taken out of the environment.
"""

from __future__ import annotations

from collections.abc import MutableMapping

import msgspec

VARIABLE = "EDGEBOX_INHERITED"
FIRST = 3  # the first descriptor that systemd passes


class Inheritance(msgspec.Struct, frozen=True, kw_only=True):
    """Descriptors, by number. `given`: the listeners stand in place of server.listen."""

    listeners: dict[str, list[int]]
    given: bool = False
    status: dict[str, list[int]] = {}  # msgspec copies it
    generation: int = 0
    pages: int = -1
    warm: tuple[int, ...] = ()
    control: int = -1  # the socket that operators' tools come to
    wire: int = -1  # where the predecessor is told how it went

    @property
    def descriptors(self) -> tuple[int, ...]:
        """All but the wire."""
        groups = (*self.listeners.values(), *self.status.values())
        single = (self.pages, self.control, *self.warm)
        return tuple(fd for fd in (*(fd for group in groups for fd in group), *single) if fd >= 0)

    def encode(self) -> str:
        return msgspec.json.encode(self).decode()


def take_inheritance(environ: MutableMapping[str, str], pid: int) -> Inheritance | None:
    """What `environ` tells the process `pid` it has, now taken out of it; None: nothing."""
    told = environ.pop(VARIABLE, None)
    names = {name: environ.pop(name, "") for name in ("LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES")}
    if told is not None:
        return msgspec.json.decode(told, type=Inheritance)
    if names["LISTEN_PID"] != str(pid) or not names["LISTEN_FDS"].isdecimal():
        return None
    count = int(names["LISTEN_FDS"])
    if not count:
        return None
    return Inheritance(listeners={f"given {n}": [FIRST + n] for n in range(count)}, given=True)
