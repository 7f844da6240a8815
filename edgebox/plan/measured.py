"""What a connection takes, as measured on the running server, for the next plan.

Pure. The first plan assumes 24 kB a connection; here is what stands in its place once there
were enough of them. An idle connection takes far less than one with a download, and any may
become the other, so that the most ever seen counts, and never less than a floor.
"""

from __future__ import annotations

from edgebox.plan.assumptions import CONNECTION
from edgebox.plan.facts import Record, Whole

ENOUGH = 2000  # connections: below, what else a process does weighs as much as they do

# Never planned with less: of the connections that are idle now, a third may be at work soon.
# Nor with more: then it is something else that grows.
FLOOR, CEILING = CONNECTION // 3, CONNECTION * 4


class Running(Record, frozen=True, kw_only=True):
    """The server at one moment, all its workers together."""

    connections: Whole
    resident: Whole  # bytes that these processes have to themselves
    held: Whole  # bytes of these that the ledgers know: objects, heads, answers
    sockets: Whole  # bytes of kernel memory for TCP, as sockstat tells for the network namespace


def connection_size(now: Running, rest: Running) -> int | None:
    """Bytes a connection, its kernel memory included; None where there are too few to tell.

    `rest`: the server with as few connections as it was ever seen with.
    """
    more = now.connections - rest.connections
    if more < ENOUGH:
        return None
    process = (now.resident - now.held) - (rest.resident - rest.held)
    kernel = now.sockets - rest.sockets
    return max(FLOOR, min(CEILING, (max(0, process) + max(0, kernel)) // more))


class Measurements(Record, frozen=True, kw_only=True):
    """What is remembered of all moments so far: the quietest, and the largest connection.

    A moment counts as far as the next one bears it out: figures of one moment are not all
    taken at once, and in a flood they differ by what came between.
    """

    rest: Running
    largest: Whole | None = None
    last: Whole | None = None

    def after(self, now: Running) -> Measurements:
        """These, and one moment more."""
        rest = now if now.connections < self.rest.connections else self.rest
        size = connection_size(now, rest)
        largest = self.largest
        if size is not None and self.last is not None:
            largest = max(largest or 0, min(size, self.last))
        return Measurements(rest=rest, largest=largest, last=size)
