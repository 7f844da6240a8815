"""docs/control.md says what the control socket does: its examples are asked of a whole box."""

from __future__ import annotations

import json
import re
import socket
from pathlib import Path
from typing import Any

import pytest

from tests.box.conftest import Box, Start
from tests.box.test_72_control import run

pytestmark = pytest.mark.slow

DOCUMENT = (Path(__file__).parent.parent.parent / "docs" / "control.md").read_text()
EXAMPLES = re.findall(r"^> (.*)\n< (.*)$", DOCUMENT, re.MULTILINE)


@pytest.fixture
def box(start: Start, root: Path) -> Box:
    return start("--root", str(root))


def ask(box: Box, request: str) -> dict[str, Any]:
    """The first line of the answer."""
    with socket.socket(socket.AF_UNIX) as sock:
        sock.connect(box.control)
        sock.settimeout(20)
        sock.sendall(request.encode() + b"\n")
        with sock.makefile("rb") as lines:
            told: dict[str, Any] = json.loads(lines.readline())
            return told


def test_the_answers_in_the_document_are_those_of_a_box(box: Box) -> None:
    for request, answer in EXAMPLES:
        expected, told = json.loads(answer), ask(box, request)
        assert told["ok"] is expected["ok"], request
        assert expected.keys() <= told.keys(), request
        for key, value in expected.items():
            assert isinstance(told[key], type(value)), (request, key)


def test_every_verb_is_in_the_document(box: Box) -> None:
    known = ask(box, '{"verb": ""}')["error"].partition("there are ")[2].split(", ")
    assert "status" in known
    assert [verb for verb in known if f'"verb": "{verb}"' not in DOCUMENT] == []


@pytest.mark.parametrize("command", re.findall(r"^\$ edgebox (.*)$", DOCUMENT, re.MULTILINE))
def test_commands_in_the_document_are_some(box: Box, command: str) -> None:
    words = re.findall(r"'([^']*)'|(\S+)", command)
    verb, *rest = [quoted or plain for quoted, plain in words]
    if verb != "log":  # which would go on
        assert run(box, verb, *rest).exit_code == 0
