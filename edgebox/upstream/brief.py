"""A request in one piece, whose answer may well come in one piece: nobody need wait in a task.

Sent on a connection that is at hand, or not at all. Whoever watches its descriptor calls
`receive_nowait` once there is something; when that is the whole of a plain answer, which most
are, the exchange is over. For all else `receive` goes on as any other exchange would.
"""

from __future__ import annotations

from edgebox.http.gate import find_end
from edgebox.http.headers import Fields
from edgebox.upstream.errors import Malformed, UpstreamError
from edgebox.upstream.exchange import HeadReader, Terms, conclude
from edgebox.upstream.incoming import Incoming
from edgebox.upstream.lease import Lease
from edgebox.upstream.outgoing import OnInterim, Outgoing
from edgebox.upstream.reply import Ending, parse_reply
from edgebox.upstream.retry import Retry, judge

METHOD = b"GET"


class Brief:
    """A GET that was sent.

    `octets`: what came of an answer that `receive_nowait` could not make out. `on_interim`
    gets responses before the final one.
    """

    __slots__ = ("_lease", "_terms", "octets", "on_interim")

    def __init__(self, lease: Lease, terms: Terms) -> None:
        self._lease = lease
        self._terms = terms
        self.octets = b""
        self.on_interim: OnInterim | None = None

    def fileno(self) -> int:
        return self._lease.wire.fileno()

    @property
    def is_interim(self) -> bool:
        """Whether a response came that is not the final one: a client is to hear of it."""
        return self.octets.startswith((b"HTTP/1.1 1", b"HTTP/1.0 1"))

    def receive_nowait(self, now: float) -> Incoming | None:
        """The answer, its body in `whole`; None if it is not, or not yet, one of the plain kind."""
        lease, terms = self._lease, self._terms
        try:
            octets = self.octets = lease.wire.take()
        except OSError:
            return None  # `receive` will find the end
        end = find_end(octets, 0)
        if end < 0 or end > terms.head_size:
            return None
        reply = parse_reply(octets[:end], METHOD)
        if isinstance(reply, Malformed) or reply.status < 200:
            return None
        if reply.ending is Ending.LENGTH:
            if reply.length != len(octets) - end:
                return None
        elif reply.ending is not Ending.AT_ONCE or len(octets) != end:
            return None
        terms.head.end(lease.wire)
        lease.answered(now)
        return Incoming(reply, octets[end:], lease, terms.body, None)

    async def receive(self) -> Incoming:
        """The answer, where it takes longer. UpstreamError: none came."""
        reader = HeadReader(self._lease.wire, METHOD, self._terms.head_size, self.octets)
        try:
            # Of the request nothing matters any more but its method.
            asked = Outgoing(METHOD, b"/", (), on_interim=self._pass_on)
            answer = await conclude(self._lease, asked, self._terms, reader)
        except UpstreamError as error:
            error.server = self._lease.server.name
            # Nothing is held against it that its connection had grown old.
            if judge(error, METHOD, self._lease.reused, 1) is not Retry.AGAIN:
                self._lease.server.failed(error)
            raise
        assert isinstance(answer, Incoming)  # a 101 that was not asked for is an error
        return answer

    async def _pass_on(self, status: int, fields: Fields) -> None:
        if self.on_interim is not None:
            await self.on_interim(status, fields)

    def abandon(self) -> None:
        """Nobody wants the answer."""
        self._terms.head.end(self._lease.wire)
        self._lease.end(reusable=False)
