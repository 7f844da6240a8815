"""Writes the expected plan of every box beside its facts: `python tests/plan/boxes/regenerate.py`.

To be run when the planner is changed on purpose; what it changes is then to be read, line by
line, as the operator of that box would. The tests compare and never write.
"""

from __future__ import annotations

from pathlib import Path

from edgebox.config.schema import Config
from edgebox.plan.facts import decode
from edgebox.plan.planner import plan
from edgebox.plan.report import text

BOXES = Path(__file__).parent


def expected(box: Path) -> str:
    """The plan for the facts in a file, with everything in edgebox.toml left to it."""
    return text(plan(decode(box.read_bytes()), Config()))


if __name__ == "__main__":
    for box in sorted(BOXES.glob("*.json")):
        box.with_suffix(".txt").write_text(expected(box))
