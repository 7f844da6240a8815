"""CACHE.md: what herd.json and disk_million.json say, for people.

Made anew by whichever of the two runs has written its file; what was not measured is left out.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from perf.report import folded, table

HERD, MILLION, PAGE = "herd.json", "disk_million.json", "CACHE.md"

_INTRODUCTION = """\
# The cache under a herd, and with a million answers

Made by `python -m perf.herd` and `python -m perf.disk_million`; the rows of TARGETS.md on the
cache are in RESULTS.md.
"""


def write(directory: Path) -> None:
    """Makes CACHE.md of the files that lie in `directory`."""
    parts = [_INTRODUCTION]
    for name, tell in ((HERD, tell_herd), (MILLION, tell_million)):
        path = directory / name
        if path.exists():
            parts.append(tell(json.loads(path.read_text())))
    (directory / PAGE).write_text("\n".join(parts))


def tell_herd(told: dict[str, Any]) -> str:
    """The table as `herd` prints it, with where and when."""
    head = (
        "## One cold object, asked for by a crowd\n\n"
        f"{told['clients']:,} clients ask at once. One alone: what the upstream takes in any case."
    )
    return "\n\n".join((head, told["table"].rstrip(), _circumstances(told))) + "\n"


def tell_million(told: dict[str, Any]) -> str:
    """What was found, a line each, with where and when."""
    rows = [[what, value] for what, value in told["findings"]]
    head = f"## A disk cache of {told['answers']:,} answers\n\nOf 449 octets each."
    return "\n\n".join((head, table(["what", "found"], rows, "ll"), _circumstances(told))) + "\n"


def _circumstances(told: dict[str, Any]) -> str:
    facts = [f"- {name}: {value}" for name, value in told["machine"].items()]
    facts += [f"- {name}: {value}" for name, value in told.get("versions", {}).items()]
    title = f"{told['generated']}, commit {told['commit']}"
    return folded(title, "\n".join(facts))
