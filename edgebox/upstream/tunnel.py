"""A connection that has switched protocols: octets both ways, whatever they mean."""

from __future__ import annotations

import trio

from edgebox.http.headers import Fields
from edgebox.upstream.lease import Lease
from edgebox.upstream.reply import Reply


class Tunnel:
    """What a 101 leaves (RFC 9110 §15.2.2): `protocol` is the one chosen.

    `fields` are those of the 101 without Connection and Upgrade. One task may receive while
    another sends; how long they wait is theirs to limit. `aclose` it: it counts as a
    connection in use until then.
    """

    __slots__ = ("_lease", "_rest", "fields", "protocol")

    status = 101

    def __init__(self, reply: Reply, rest: bytes, lease: Lease) -> None:
        self.fields: Fields = reply.fields
        self.protocol = reply.upgrade
        self._rest = rest
        self._lease = lease

    @property
    def server(self) -> str:
        """Who switched: a URL."""
        return self._lease.server.name

    async def receive(self) -> bytes:
        """The next octets, those that came with the 101 first; b"" at the end.

        OSError: the connection broke. trio.ClosedResourceError: another task closed it.
        """
        if self._rest:
            rest, self._rest = self._rest, b""
            return rest
        return await self._lease.wire.receive()

    async def send(self, data: bytes) -> None:
        """Send all of `data`; errors as in `receive`."""
        wire, rest = self._lease.wire, memoryview(data)
        while rest:
            rest = rest[await wire.send(rest) :]

    def send_eof(self) -> None:
        """Say that nothing more will be sent."""
        self._lease.wire.send_eof()

    async def aclose(self) -> None:
        """Close it; harmless when it was."""
        self._lease.end(reusable=False)
        await trio.lowlevel.checkpoint()
