"""Whatever the error log can say as a warning or an error, the guide says what to do about."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from edgebox.cache.disk.outcome import Outcome
from edgebox.ops.processes.process import Stage
from edgebox.send.writer import Sent
from edgebox.upstream.errors import Reason

HERE = Path(__file__).parents[2]
TOLD = "".join((HERE / "docs" / name).read_text() for name in ("guide.md", "logs.md"))
# Only what stands in backticks in the first column of a table is what the log says.
SAID = " | ".join(re.findall(r"^\| (`.*`) \|", TOLD, re.MULTILINE))


def literals(node: ast.expr) -> list[str]:
    """What is constant of a text, piece by piece."""
    parts = node.values if isinstance(node, ast.JoinedStr) else [node]
    return [str(part.value) for part in parts if isinstance(part, ast.Constant)]


def warnings() -> Iterator[tuple[str, list[str]]]:
    """Where in the code a warning or an error is written, and what is constant of it."""
    for path in sorted((HERE / "edgebox").rglob("*.py")):
        if "cli" in path.parts:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Call) or not node.args:
                continue
            level, *rest = node.args
            named = isinstance(node.func, ast.Attribute) and node.func.attr
            if isinstance(level, ast.Constant) and level.value in ("warning", "error") and rest:
                text = rest[0]
            elif named in ("_warn", "_say_once"):
                text = node.args[-1]
            else:
                continue
            if pieces := literals(text):
                yield f"{path.relative_to(HERE)}:{node.lineno}", pieces


FOUND = list(warnings())


def test_there_is_something_to_check() -> None:
    assert len(FOUND) > 20


@pytest.mark.parametrize(("where", "pieces"), FOUND, ids=[where for where, _ in FOUND])
def test_what_the_code_warns_of_is_in_the_guide(where: str, pieces: list[str]) -> None:
    telling = max(pieces, key=len).strip(" :;,('")
    words = telling if len(telling) > 12 else telling.split(" ")[0]
    assert words in SAID, f"{where} can say {pieces}: docs/guide.md does not say what to do"


@pytest.mark.parametrize("reason", Reason, ids=lambda reason: reason.name)
def test_each_way_in_which_an_upstream_fails_is_in_the_guide(reason: Reason) -> None:
    assert reason.text in SAID


@pytest.mark.parametrize("stage", [stage for stage in Stage if stage.value], ids=lambda s: s.name)
def test_each_way_in_which_a_worker_gets_stuck_is_in_the_guide(stage: Stage) -> None:
    assert f"{stage.value}: killed" in SAID


def test_each_way_in_which_an_answer_is_cut_off_and_a_disk_fails_is_in_the_guide() -> None:
    causes = [each.value for each in Outcome if each.pause]
    causes += [each.value for each in (Sent.SLOW, Sent.SHRUNK, Sent.BROKEN)]
    assert causes
    assert [cause for cause in causes if cause not in SAID] == []
