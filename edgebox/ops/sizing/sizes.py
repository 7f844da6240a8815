"""The sizes that a running worker can change, as the supervisor tells them. No request code."""

from __future__ import annotations

from edgebox.config.schema import Config
from edgebox.plan.assumptions import LEAST_SEND_BUFFER

CONNECTIONS, WORKING_SET, SEND_BUFFER = "connections", "working_set", "send_buffer"


def sizes(worker: Config) -> dict[str, int]:
    """What the verb "resize" says, of one worker's settled share."""
    return {
        CONNECTIONS: worker.limits.connections or 1,
        WORKING_SET: worker.files.working_set or 0,
        SEND_BUFFER: worker.limits.send_buffer or LEAST_SEND_BUFFER,
    }
