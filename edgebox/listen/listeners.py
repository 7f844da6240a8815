"""All sockets that a box listens on, kept by the supervisor for as long as it lives.

A worker that dies, or a generation that goes, leaves them here, and whoever waits in their
accept queues waits for the next one. A socket of an address that is still wanted is never
closed, since closing one of several (SO_REUSEPORT) resets whoever waits in its queue: when
there are fewer workers than sockets, some take several.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress

from edgebox.listen.sockets import address_of, adopt, bind, bind_beside, close_listener


class Listeners:
    """Sockets by the address that the configuration has for them.

    Those that were handed over (`given`, by systemd's socket activation) stand in place of
    all configured addresses: whoever made them has decided.
    """

    def __init__(self, sockets: Mapping[str, Sequence[socket.socket]], given: bool = False) -> None:
        self._sockets = {address: tuple(group) for address, group in sockets.items()}
        self.given = given

    @classmethod
    def adopt(cls, descriptors: Mapping[str, Sequence[int]], given: bool) -> Listeners:
        """What was inherited. Raises ListenError."""
        return cls(
            {address: [adopt(fd) for fd in group] for address, group in descriptors.items()}, given
        )

    def changed(self, addresses: Sequence[str], workers: int, backlog: int) -> Listeners:
        """Those for `addresses`, a socket for each worker: what is there, and new ones.

        Of an address that is new, the first listens at once; workers `begin` with the others.

        Raises ListenError, with nothing left open that was not open before.
        """
        if self.given:
            return self
        wanted = Listeners({})
        try:
            for address in addresses:
                group = list(self._sockets.get(address, ()))
                wanted._sockets[address] = group  # type: ignore[assignment]
                if not group:
                    group.append(bind(address, backlog))
                while group[0].family != socket.AF_UNIX and len(group) < workers:
                    group.append(bind_beside(group[0]))
        except BaseException:
            wanted.close_except(self)
            raise
        return Listeners(wanted._sockets)

    def portion(self, number: int, workers: int) -> list[socket.socket]:
        """What worker `number` (from 0) of so many accepts from: its own, or all the same one."""
        portion: list[socket.socket] = []
        for group in self._sockets.values():
            # Of a socket that cannot be doubled (a path, one that was given), all take turns.
            portion += group[number::workers] or [group[number % len(group)]]
        return portion

    def close_except(self, kept: Listeners) -> None:
        """Close what `kept` has not, and remove the paths of Unix sockets among it."""
        others = set(kept)
        for sock in self:
            if sock not in others:
                close_listener(sock)

    def refuse(self) -> None:
        """Have the kernel refuse who comes from now on, and reset who waits.

        In all processes that have these sockets; so not with those that were given, which
        another goes on with.
        """
        if not self.given:
            for sock in self:
                with suppress(OSError):  # ENOTCONN: it does not listen
                    sock.shutdown(socket.SHUT_RDWR)

    def close(self, remove: bool) -> None:
        """Close all. `remove` the paths of Unix sockets too, unless another goes on with them."""
        for sock in self:
            if remove and not self.given:
                close_listener(sock)
            else:
                sock.close()

    def descriptors(self) -> dict[str, list[int]]:
        """Their numbers, for whoever inherits them."""
        return {
            address: [sock.fileno() for sock in group] for address, group in self._sockets.items()
        }

    def addresses(self) -> list[str]:
        """Where they listen, as URLs for people."""
        return [address_of(group[0]) for group in self._sockets.values()]

    def __iter__(self) -> Iterator[socket.socket]:
        for group in self._sockets.values():
            yield from group
