"""Each command of docs/guide.md, run in its order, does what the page says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.box.conftest import free_port

GUIDE = Path(__file__).parents[2] / "docs" / "guide.md"
BLOCKS = re.findall(r"^```sh\n(.*?)^```$", GUIDE.read_text(), re.MULTILINE | re.DOTALL)
SERVER, APP = "127.0.0.1:8080", "127.0.0.1:8000"  # as the page has them
PATIENCE = 60

pytestmark = pytest.mark.slow


def wait_for(condition: str) -> str:
    return f"for _ in $(seq 600); do {condition} && break; sleep 0.1; done"


class Shell:
    """One shell for all blocks, so that what they start in the background goes on."""

    def __init__(self, directory: Path) -> None:
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        self._ports = {SERVER: f"127.0.0.1:{free_port()}", APP: f"127.0.0.1:{free_port()}"}
        self._app_port = self._ports[APP].rpartition(":")[2]
        self._process = subprocess.Popen(
            ["bash"], cwd=directory, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, start_new_session=True,
            env=os.environ | {"PATH": path, "COLUMNS": "200", "CACHE_DIRECTORY": str(directory)},
        )  # fmt: skip

    def run(self, block: str) -> tuple[int, str]:
        """Exit status of the last command, and what all of them said."""
        for theirs, ours in self._ports.items():
            block = block.replace(theirs, ours)
        block = block.replace("'127.0.0.1', 8000", f"'127.0.0.1', {self._app_port}")
        # What goes to the background is waited for: who types is slower than a script.
        host, _, port = self._ports[APP].rpartition(":")
        app = wait_for(f"(: < /dev/tcp/{host}/{port}) 2>/dev/null")
        serve = wait_for("test -S control.sock")
        block = re.sub(r"^(edgebox serve) &$", rf"\1 & {serve}", block, flags=re.M)
        block = re.sub(r"^(\" 2>/dev/null) &$", rf"\1 & {app}", block, flags=re.M)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{block}\nstatus=$?; echo; echo END-OF-BLOCK $status\n")
        self._process.stdin.flush()
        said = []
        for line in self._process.stdout:
            if line.startswith("END-OF-BLOCK"):
                return int(line.split()[1]), "".join(said)
            said.append(line)
        raise AssertionError("the shell has ended: " + "".join(said))

    def close(self) -> None:
        assert self._process.stdin is not None
        # After an upgrade the server is no job of the shell's any more.
        self._process.stdin.write("kill $(ps -o pid= -s $$ | grep -vw $$); exit\n")
        self._process.stdin.close()
        self._process.wait(PATIENCE)
        assert self._process.stdout is not None
        self._process.stdout.close()


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    opened = Shell(tmp_path_factory.mktemp("guide"))
    yield opened
    opened.close()


EXPECTED = [
    ("ok", "HTTP/1.1 200 OK", "It works"),
    ("limits.connections", "[server]"),
    ("fwd=uri-miss", "hit", "made for /app/page"),
    ("fresh", "max-age"),
    ("purged",),
    ("GET 127.0.0.1", "Requests per second", "http://127.0.0.1:"),
    (),
    (),
]


@pytest.mark.timeout(PATIENCE)
@pytest.mark.parametrize("number", range(len(BLOCKS)))
def test_the_commands_of_the_guide_work(shell: Shell, number: int) -> None:
    status, said = shell.run(BLOCKS[number])
    assert status == 0, said
    assert "Error" not in said, said
    for text in EXPECTED[number]:
        assert text in said


def test_every_block_says_what_is_expected_of_it() -> None:
    assert len(EXPECTED) == len(BLOCKS)
