"""What the supervisor tells of the plan, for the status page and `edgebox top`.

It goes on the board of the shared pages, beside the workers' slots:

    board = pages.board
    board.claim(os.getpid(), generation)
    board.publish({}, {}, msgspec.json.encode({"plan": plan_sheet(sized.plan), ...}))

Pure, and without request code, so that the supervisor may use it.
"""

from __future__ import annotations

from edgebox.plan.figures import Plan
from edgebox.plan.quantity import Value

_NUMBERS = {
    "speed": "nic.speed",
    "goodput": "link.goodput",
    "answers": "link.answers",
    "connections": "limits.connections",
    "working_set": "files.working_set",
    "workers": "server.workers",
}


def plan_sheet(plan: Plan) -> dict[str, object]:
    """`speed` in bits a second, `goodput` in octets a second of payload, `ceilings` likewise.

    What cannot be known is None.
    """
    known: dict[str, Value] = {number.key: number.value for number in plan.numbers}
    named: dict[str, object] = {name: known.get(key) for name, key in _NUMBERS.items()}
    return named | {
        "interface": plan.interface,
        "bottleneck": plan.bottleneck,
        "ceilings": [
            [each.resource, int(each.rate), each.reason]
            for each in plan.ceilings
            if each.rate is not None
        ],
    }
