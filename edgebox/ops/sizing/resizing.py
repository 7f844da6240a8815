"""What a running worker can be made smaller or larger by, on both sides of the wire.

The supervisor tells all that its plan says, in the verb "resize"; the worker does it at once.
What needs a restart (workers, watches, a backlog) is not here: a reload brings it.
"""

from __future__ import annotations

import socket
from collections.abc import Sequence
from dataclasses import dataclass

from edgebox.listen.admission import Admission
from edgebox.listen.unsent import bound_unsent
from edgebox.memory.heap import give_back
from edgebox.memory.workingset import WorkingSet
from edgebox.ops.control.jsonlines import Message
from edgebox.ops.control.wire import Refused
from edgebox.ops.sizing.sizes import CONNECTIONS, SEND_BUFFER, WORKING_SET

TRIM = 64 * 1024 * 1024  # bytes given up from which the heap's free pages go back to the system


@dataclass(frozen=True, slots=True)
class Resizer:
    """The parts of a worker that have a size."""

    admission: Admission
    working_set: WorkingSet
    listeners: Sequence[socket.socket]

    async def resize(self, message: Message) -> Message:
        """The verb. Answers with what is in force now; raises Refused for what is no size."""
        connections = _size(message, CONNECTIONS, 1, self.admission.limit)
        working_set = _size(message, WORKING_SET, 0, self.working_set.capacity)
        send_buffer = _size(message, SEND_BUFFER, 0, 0)
        held = self.working_set.statistics().held
        self.admission.limit = connections
        # The rest of the budget is for what the working set yields to.
        self.working_set.ledger.budget += working_set - self.working_set.capacity
        self.working_set.resize(working_set)
        if send_buffer:  # for connections to come
            for listener in self.listeners:
                bound_unsent(listener, send_buffer)
        given_up = held - self.working_set.statistics().held
        if given_up >= TRIM:
            give_back()
        return {CONNECTIONS: connections, WORKING_SET: working_set, "given_up": given_up}


def _size(message: Message, key: str, least: int, now: int) -> int:
    size = message.get(key, now)
    if not isinstance(size, int) or isinstance(size, bool) or size < least:
        raise Refused(f"{key} is no size: {size!r}")
    return size
